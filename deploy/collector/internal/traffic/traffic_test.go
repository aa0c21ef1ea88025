package traffic

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func config(seed uint64) Config {
	return Config{
		Seed: seed, Start: t0, For: 20 * time.Minute, Rate: 60, RunTimeout: time.Minute,
		Outages:  []Outage{{Provider: "anthropic", From: 10 * time.Minute, To: 14 * time.Minute}},
		Restarts: []Restart{{Service: "coder-cli", At: 5 * time.Minute, Open: 3}},
	}
}

// The same seed tells the same stories, with other IDs at another time; another seed tells others.
func TestSeeds(t *testing.T) {
	one, again, other := New(config(1)), New(config(1)), New(config(2))
	require.Len(t, again, len(one))
	assert.NotEqual(t, len(one), len(other))
	for i := range one {
		assert.Equal(t, one[i].TraceID, again[i].TraceID)
		assert.Equal(t, one[i].Story, again[i].Story)
	}
	c := config(1)
	c.Start = t0.Add(time.Hour)
	later := New(c)
	require.Len(t, later, len(one))
	ids := map[string]bool{}
	for i := range one {
		assert.Equal(t, one[i].Story, later[i].Story)
		assert.Equal(t, one[i].At.Add(time.Hour), later[i].At)
		ids[one[i].TraceID], ids[later[i].TraceID] = true, true
	}
	assert.Len(t, ids, 2*len(one))
}

// What the ledger says of the whole is what its parts say.
func TestLedger(t *testing.T) {
	c := config(1)
	runs := New(c)
	l := NewLedger(runs)
	assert.InDelta(t, len(runs), l.Runs.Sum(), 0)
	assert.InDelta(t, c.For.Minutes()*c.Rate+3, l.Runs.Sum(), 150)

	var minutes float64
	for at := t0; !at.After(t0.Add(c.For + 2*c.RunTimeout)); at = at.Add(time.Minute) {
		minutes += l.Runs.Between(at, at.Add(time.Minute)).Sum()
	}
	assert.InDelta(t, l.Runs.Sum(), minutes, 0)
	outcomes := l.Runs.By("llm_run_outcome")
	for _, outcome := range []string{"succeeded", "recovered", "failed", "limited", "aborted", "incomplete"} {
		assert.Positive(t, outcomes[outcome], outcome)
	}
	assert.InDelta(t, 3, l.Runs.Where("llm_failure_class", "run_abandoned").Sum(), 0)

	// During the outage, most of what this provider did failed, and of the others nothing more than usual.
	during := l.Requests.Between(t0.Add(10*time.Minute), t0.Add(14*time.Minute))
	share := func(e Entries) float64 { return e.WhereNot("llm_failure_class", "").Sum() / e.Sum() }
	assert.Greater(t, share(during.Where("gen_ai_provider_name", "anthropic")), 0.4)
	assert.Less(t, share(during.WhereNot("gen_ai_provider_name", "anthropic")), 0.15)

	assert.InDelta(t, l.WastedTokens.Where("gen_ai_token_type", "input").By("gen_ai_provider_name")["openai"],
		l.WastedTokens.Where("gen_ai_provider_name", "openai").By("gen_ai_token_type")["input"], 0)
	assert.Less(t, l.WastedRequests.Where("llm_usage_seen", "true").Sum(), l.WastedRequests.Sum())
}

// Every class of the vocabulary is played.
func TestEveryClass(t *testing.T) {
	raw, err := os.ReadFile("../../../../semconv/model/failure.yaml")
	require.NoError(t, err)
	var model struct {
		Groups []struct {
			Attributes []struct {
				ID   string
				Type yaml.Node
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(raw, &model))
	c := config(1)
	c.For = 40 * time.Minute
	l := NewLedger(New(c))
	played := l.Runs.By("llm_failure_class")
	var classes int
	for _, g := range model.Groups {
		for _, a := range g.Attributes {
			if a.ID != "llm.failure.class" {
				continue
			}
			var enum struct{ Members []struct{ Value string } }
			require.NoError(t, a.Type.Decode(&enum))
			for _, m := range enum.Members {
				classes++
				assert.Positive(t, played[m.Value], m.Value)
			}
		}
	}
	assert.Len(t, played, classes+1, "no other classes, and none")
}

// Play sends every run once, in its order and not before its time.
func TestPlay(t *testing.T) {
	runs := New(Config{Seed: 3, Start: t0, For: time.Minute, Rate: 30})
	clock := &jumping{now: t0.Add(-time.Second)}
	var got []string
	trace := regexp.MustCompile(`"traceId":"([0-9a-f]{32})"`)
	failed := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !failed { // the first is refused for now
			failed = true
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.True(t, json.Valid(body))
		id := trace.FindSubmatch(body)
		if !assert.NotNil(t, id) {
			return
		}
		assert.False(t, clock.now.Before(runs[len(got)].At), "too early")
		got = append(got, string(id[1]))
	}))
	defer server.Close()
	require.NoError(t, Play(t.Context(), clock, runs, server.URL+"/v1/traces"))
	var want []string
	for _, r := range runs {
		want = append(want, r.TraceID)
	}
	assert.Equal(t, want, got)
}

// jumping is a clock that does not wait.
type jumping struct{ now time.Time }

func (c *jumping) Now() time.Time { return c.now }

func (c *jumping) Sleep(_ context.Context, d time.Duration) error {
	c.now = c.now.Add(d)
	return nil
}
