package collector

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/deploy/collector/internal/traffic"
)

// traceQL returns the queries of tempo/traceql.md.
func traceQL(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("tempo/traceql.md")
	require.NoError(t, err)
	var queries []string
	for _, block := range regexp.MustCompile("(?ms)^```traceql\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		for query := range strings.SplitSeq(strings.TrimSpace(block[1]), "\n\n") {
			queries = append(queries, query)
		}
	}
	require.Greater(t, len(queries), 20)
	return queries
}

// tempoBinary returns the path of Tempo. Without one, the test is skipped.
func tempoBinary(t *testing.T) string {
	t.Helper()
	tempo := os.Getenv("TEMPO_BIN")
	if tempo == "" {
		t.Skip("LEFT OUT: TEMPO_BIN names no Tempo")
	}
	return tempo
}

// startTempo runs Tempo with the shipped configuration, which fixes the ports: a loopback address of its own keeps them
// free. It returns the address of its API.
func startTempo(t *testing.T, host, metrics string) string {
	t.Helper()
	_, port, _ := strings.Cut(freeAddress(t), ":")
	cmd := exec.CommandContext(t.Context(), tempoBinary(t), "-config.file=tempo/tempo.yaml", "-config.expand-env=true", "-server.grpc-listen-port="+port)
	cmd.Env = append(os.Environ(), "TEMPO_LISTEN="+host, "TEMPO_DATA="+t.TempDir(), "TEMPO_METRICS="+metrics)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // killed at the end of the test: an orderly shutdown takes half a minute
	api := "http://" + host + ":3200"
	eventually(t, func(t *assert.CollectT) {
		resp, err := http.Get(api + "/ready")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	})
	return api
}

// The tables of spans and the service graph of a real Tempo, against the ledger: as many spans as there are, each with
// what its columns show, every failed run with the status ERROR, and between each service and each provider as many
// requests, and as many that failed, as there were.
func TestTempoLedger(t *testing.T) {
	tempoBinary(t)
	needsPrograms(t)
	const host = "127.0.36.1"
	w := startWatched(t, true, time.Minute, host+":14317")
	api := startTempo(t, host, "http://"+w.address+"/api/v1/write")
	runs := traffic.New(traffic.Config{Seed: seed(t), Start: time.Now(), For: 20 * time.Second, Rate: 600})
	w.play(t, runs, w.otlp, 2*time.Minute)
	ledger := traffic.NewLedger(runs)

	type found struct {
		Attributes []struct{ Key string }
	}
	search := func(t require.TestingT, query string) (spans []found) {
		values := url.Values{
			"q": {query}, "limit": {"2000"}, "spss": {"100"},
			"start": {strconv.FormatInt(time.Now().Add(-20*time.Minute).Unix(), 10)}, "end": {strconv.FormatInt(time.Now().Unix(), 10)},
		}
		resp, err := http.Get(api + "/api/search?" + values.Encode())
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode, query)
		var answer struct {
			Traces []struct {
				SpanSets []struct{ Spans []found }
			}
		}
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
		for _, trace := range answer.Traces {
			for _, set := range trace.SpanSets {
				spans = append(spans, set.Spans...)
			}
		}
		return spans
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		require.Len(t, search(t, `{ span.llm.run.outcome != nil }`), len(runs), "all runs")
	}, 2*time.Minute, time.Second)
	failed := int(failedRuns(ledger).Sum())
	held := 0
	for _, c := range []struct {
		dashboard, panel string
		want             int
		each             []string
	}{
		{"llm-runs.json", "Runs that failed", failed, []string{"llm.run.outcome", "llm.failure.class", "llm.failure.summary", "llm.retry.safety", "gen_ai.agent.name"}},
		{"llm-runs.json", "Runs that lost a tool's output", int(lostRuns(ledger).Sum()), []string{"llm.run.outcome", "llm.failure.summary"}},
		{"llm-runs.json", "Runs that recovered", int(recoveredRuns(ledger).Sum()), []string{"llm.run.outcome", "llm.run.recovered_failures"}},
		{"llm-incidents.json", "Failed requests", int(brokenRequests(ledger).Sum()), []string{
			"gen_ai.provider.name", "gen_ai.request.model", "server.address", "llm.failure.class", "llm.failure.summary", "llm.retry.safety",
		}},
	} {
		d := readDashboards(t)[c.dashboard]
		for _, panel := range d.Panels {
			if panel.Title != c.panel || panel.Targets[0].Query == "" {
				continue
			}
			held++
			var spans []found
			require.EventuallyWithT(t, func(t *assert.CollectT) {
				spans = search(t, d.fill(panel.Targets[0].Query, "", nil))
				require.Len(t, spans, c.want, c.panel)
			}, 2*time.Minute, time.Second)
			for _, s := range spans {
				keys := map[string]bool{}
				for _, a := range s.Attributes {
					keys[a.Key] = true
				}
				for _, key := range c.each {
					assert.True(t, keys[key], "%s: no %s among %v", c.panel, key, keys)
				}
			}
		}
	}
	assert.Equal(t, 4, held)
	assert.Len(t, search(t, `{ span.llm.run.outcome = "failed" && status = error }`), failed, "failed runs that are red")

	edges := func(metric string) map[string]float64 {
		sums := map[string]float64{}
		for _, s := range w.query(t, metric) {
			if s.value > 0 {
				sums[traffic.Key(s.labels, "client", "server")] += s.value
			}
		}
		return sums
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		assert.Equal(t, ledger.Requests.By("service_name", "gen_ai_provider_name"), edges("traces_service_graph_request_total"))
		assert.Equal(t, brokenRequests(ledger).By("service_name", "gen_ai_provider_name"), edges("traces_service_graph_request_failed_total"))
	}, 2*time.Minute, time.Second, "the service graph")
}

// Each query of the page and of the dashboards runs in a real Tempo with the shipped configuration, on the demo's
// traces. TEMPO_BIN names a Tempo 3, which no script can fetch.
func TestTempo(t *testing.T) {
	tempoBinary(t)
	bin := binary(t)
	traces := demoTraces(t, readVocabulary(t))

	const host = "127.0.33.1"
	api := startTempo(t, host, "http://"+freeAddress(t)+"/api/v1/write")
	front := start(t, bin, map[string]string{"FORWARD_ENDPOINT": host + ":14317"}, "config-demo.yaml", "config-forward.yaml")
	// Tempo leaves the newest half minute out of searches.
	age(t, traces, time.Minute)
	replay(t, front.env["OTLP_HTTP_ENDPOINT"], traces)

	window := url.Values{
		"start": {strconv.FormatInt(time.Now().Add(-10*time.Minute).Unix(), 10)},
		"end":   {strconv.FormatInt(time.Now().Unix(), 10)},
	}
	get := func(t require.TestingT, path string, values url.Values, into any) {
		resp, err := http.Get(api + path + "?" + values.Encode())
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode, values.Get("q"))
		require.NoError(t, json.NewDecoder(resp.Body).Decode(into))
	}
	queries := traceQL(t)
	for _, d := range readDashboards(t) {
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				if target.Query != "" {
					queries = append(queries, d.fill(target.Query, "", nil))
				}
			}
		}
	}
	over := regexp.MustCompile(`\| [a-z]+_over_time\(|\| rate\(`)
	found := func(t require.TestingT, query string) int {
		values := url.Values{"q": {query}, "start": window["start"], "end": window["end"], "limit": {"1000"}}
		if over.MatchString(query) {
			values.Set("step", "60s")
			var result struct{ Series []any }
			get(t, "/api/metrics/query_range", values, &result)
			return len(result.Series)
		}
		var result struct{ Traces []any }
		get(t, "/api/search", values, &result)
		return len(result.Traces)
	}
	eventually(t, func(t *assert.CollectT) {
		runs := map[string]bool{}
		for _, id := range front.traceIDs(t, "llm.run.outcome") {
			runs[id] = true
		}
		require.NotEmpty(t, runs)
		require.Equal(t, len(runs), found(t, `{ span.llm.run.outcome != nil }`), "traces with a run")
	})
	for _, query := range queries {
		t.Run(query, func(t *testing.T) {
			n := found(t, query)
			if slices.Contains(notInTheDemo, query) {
				assert.Zero(t, n, "the demo has it: remove it from notInTheDemo")
				return
			}
			if n == 0 {
				eventually(t, func(t *assert.CollectT) { assert.Positive(t, found(t, query)) })
			}
		})
	}
}

// notInTheDemo lists queries that Tempo runs and for which the demo has no case.
var notInTheDemo = []string{
	`{ span.gen_ai.provider.name = "anthropic" && span.server.address = "api.anthropic.com" && span.llm.failure.class =~ "connection_failed|stream_interrupted|protocol_violation|watchdog_timeout|provider_error|empty_completion" } | select(span.llm.failure.class, span.llm.failure.cause, span.llm.failure.summary, span.gen_ai.request.model)`,
	`{ span.llm.failure.cause = "h2_goaway" }`,
	`{ span.gen_ai.response.time_to_first_chunk > 10.0 } | select(span.gen_ai.request.model)`,
	`{ span.llm.stream.longest_gap > 30.0 } | select(span.gen_ai.request.model, span.llm.stream.phase)`,
}
