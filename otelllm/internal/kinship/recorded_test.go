package kinship

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// recordedRequest is a request of a published coding agent, and what the server did.
type recordedRequest struct {
	Wire    string
	Act     string
	Tools   int
	Body    json.RawMessage
	Headers map[string]string

	side  bool     // it is not of the agent's main conversation
	calls []string // the ids of the calls in its answer
}

// recordedAgent is an agent in front of a server that breaks in one way.
type recordedAgent struct {
	name     string
	requests []recordedRequest
}

// callIDs matches the ids of calls in the bodies.
var callIDs = regexp.MustCompile(`"(?:id|call_id)":\s*"((?:call_|run_shell_command_)[0-9a-z_]+)"`)

// recordedAgents reads the recordings beside those of streams.
func recordedAgents(t *testing.T) (list []recordedAgent) {
	t.Helper()
	dir := os.Getenv("OTELLLM_FIXTURES")
	if dir == "" {
		t.Skip("no recorded agents: OTELLLM_FIXTURES names the folder beside them")
	}
	files, err := filepath.Glob(filepath.Join(dir, "..", "agents", "*", "*.requests.jsonl.gz"))
	require.NoError(t, err)
	for _, file := range files {
		f, err := os.Open(file)
		require.NoError(t, err)
		z, err := gzip.NewReader(f)
		require.NoError(t, err)
		a := recordedAgent{name: filepath.Base(filepath.Dir(file)) + " " + strings.TrimSuffix(filepath.Base(file), ".requests.jsonl.gz")}
		for dec := json.NewDecoder(z); ; {
			var r recordedRequest
			if err := dec.Decode(&r); errors.Is(err, io.EOF) {
				break
			} else {
				require.NoError(t, err)
			}
			if r.Wire != "" {
				// opencode asks for a title, Qwen Code for what to remember.
				r.side = r.Act == "side-stream" || strings.HasPrefix(a.name, "qwen") && r.Tools == 6
				a.requests = append(a.requests, r)
			}
		}
		require.NoError(t, f.Close())
		if a.requests == nil {
			continue // over a WebSocket: the bodies were not recorded
		}
		a.answers(t)
		list = append(list, a)
	}
	if len(list) == 0 {
		t.Skip("no recorded agents beside " + dir)
	}
	return list
}

// answers finds the ids of the calls in the histories that follow.
func (a *recordedAgent) answers(t *testing.T) {
	t.Helper()
	for i := range a.requests {
		if a.requests[i].Act != "tool" {
			continue
		}
		for _, m := range callIDs.FindAllSubmatch(a.requests[i+1].Body, -1) {
			if id := string(m[1]); !bytes.Contains(a.requests[i].Body, m[1]) && !slices.Contains(a.requests[i].calls, id) {
				a.requests[i].calls = append(a.requests[i].calls, id)
			}
		}
		require.NotEmpty(t, a.requests[i].calls, a.name)
	}
}

// replayed is an agent whose requests are sent again.
type replayed struct {
	recordedAgent
	words   string // of its own; "": it shares those of the other copy
	copy    string // what its ids end in
	session uint64
	client  uint64
	noIDs   bool // the model gives its calls no ids, and the client does

	next    int
	open    *Request
	run     *Run
	attempt int
	failed  bool
}

func newReplayed(a recordedAgent, copied, words string, sessions, noIDs bool) *replayed {
	r := &replayed{recordedAgent: a, words: words, copy: copied, noIDs: noIDs}
	h := a.requests[0].Headers
	r.client = wire.TranscriptID(h["user-agent"])
	for _, name := range []string{"session-id", "x-session-id", "x-session-affinity", "x-claude-code-session-id"} {
		if id := h[name]; id != "" && sessions && r.session == 0 {
			r.session = wire.TranscriptID(id + copied)
		}
	}
	return r
}

// step sends the next request, or ends the one that is open. It reports false at the end.
func (r *replayed) step(t *testing.T, tracker *Tracker, now time.Time) bool {
	if r.next == len(r.requests) {
		return false
	}
	q := &r.requests[r.next]
	if r.open != nil {
		a := r.answer(q)
		tracker.End(now, r.open, a)
		r.open = nil
		r.next++
		if !q.side {
			r.failed = a.Result == Failed
		}
		return true
	}
	body := string(q.Body)
	body = strings.ReplaceAll(body, "run echo hi", "run echo hi "+r.words)
	for i := range r.next {
		for _, id := range r.requests[i].calls {
			body = strings.ReplaceAll(body, id, r.id(id))
		}
	}
	var tr wire.Transcript
	require.True(t, tr.Read([]byte(body)))
	tr.Client = 0 // prompt_cache_key: as clients that send none
	b := tracker.Begin(now, Sent{Transcript: &tr, Client: r.client, Session: r.session}, nil)
	r.open = b.Request
	switch {
	case q.side:
		assert.False(t, b.Relation.Joins(), "%s: request %d is on the side", r.name, r.next)
	case r.run == nil:
		assert.Equal(t, First, b.Relation, "%s: request %d", r.name, r.next)
		r.run, r.attempt = b.Run, 1
	default:
		want := Step
		if r.attempt++; r.failed {
			want = Again
		} else {
			r.attempt = 1
		}
		require.Equal(t, want, b.Relation, "%s: request %d", r.name, r.next)
		require.Same(t, r.run, b.Run, "%s: request %d", r.name, r.next)
		for _, o := range b.Observed {
			assert.True(t, o.Sent, "%s: request %d", r.name, r.next)
		}
		assert.Len(t, b.Observed, len(r.observed(want)))
	}
	if !q.side {
		assert.Equal(t, r.attempt, b.Attempt, "%s: request %d", r.name, r.next)
	}
	return true
}

// observed are the calls whose outputs the next request shows.
func (r *replayed) observed(relation Relation) []string {
	if relation != Step {
		return nil
	}
	return r.requests[r.next-1].calls
}

func (r *replayed) id(id string) string {
	if r.copy == "" {
		return id
	}
	return id + r.copy
}

func (r *replayed) answer(q *recordedRequest) Answer {
	switch q.Act {
	case "text", "side-stream":
		return Answer{Result: Answered, Text: true}
	case "tool":
		a := Answer{Result: Answered}
		for _, id := range q.calls {
			if id = r.id(id); r.noIDs {
				id = ""
			}
			a.Calls = append(a.Calls, Call{ID: id, Name: "shell"})
		}
		return a
	default: // 429, inband, reset, reset_text, clean_eof
		return Answer{Result: Failed, Way: q.Act, Text: q.Act != "429" && q.Act != "reset"}
	}
}

// interleave sends everything in a random order.
func interleave(t *testing.T, rng *rand.Rand, agents []*replayed) {
	t.Helper()
	tracker := NewTracker(DefaultConfig())
	now := t0
	agents = slices.Clone(agents)
	for len(agents) > 0 {
		now = now.Add(time.Duration(rng.Int64N(int64(200 * time.Millisecond))))
		i := rng.IntN(len(agents))
		if !agents[i].step(t, tracker, now) {
			agents = slices.Delete(agents, i, i+1)
		}
	}
	checkBooks(t, tracker)
}

// Every request of a real agent's conversation is found, alone and among all others, and
// what it asks beside the conversation is not taken for a part of it.
func TestRecordedAgents(t *testing.T) {
	agents := recordedAgents(t)
	assert.GreaterOrEqual(t, len(agents), 20)
	for _, a := range agents {
		for _, sessions := range []bool{false, true} {
			for _, noIDs := range []bool{false, true} {
				rng := rand.New(rand.NewPCG(1, 1))
				interleave(t, rng, []*replayed{newReplayed(a, "", "", sessions, noIDs)})
			}
		}
	}
	seeds := uint64(60 / sample.Every(12)) //nolint:gosec // positive
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 2))
		var all []*replayed
		for _, a := range agents {
			all = append(all, newReplayed(a, "", a.name, rng.IntN(2) == 0, rng.IntN(2) == 0))
		}
		interleave(t, rng, all)
	}
}

// The same agent several times with the same words: its session tells them apart, or the
// ids of its calls. Without both, it must not fail at the first request.
func TestRecordedAgentsTwice(t *testing.T) {
	agents := recordedAgents(t)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := 0
		for _, a := range agents {
			var copies []*replayed
			for i := range 3 {
				copies = append(copies, newReplayed(a, fmt.Sprintf("%d%06d", i, rng.IntN(1e6)), "", true, false))
			}
			if copies[0].session == 0 {
				main := slices.IndexFunc(a.requests, func(r recordedRequest) bool { return !r.side })
				if a.requests[main].Act != "tool" {
					continue
				}
			}
			n++
			interleave(t, rng, copies)
			for _, c := range copies {
				c.next, c.run, c.session = 0, nil, 0
			}
			if a.requests[0].Act == "tool" {
				interleave(t, rng, copies)
			}
		}
		assert.Greater(t, n, 10)
	}
}
