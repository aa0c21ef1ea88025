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

// Each query of the page and of the dashboards runs in a real Tempo with the shipped configuration, on the demo's
// traces. TEMPO_BIN names a Tempo 3, which no script can fetch.
func TestTempo(t *testing.T) {
	tempo := os.Getenv("TEMPO_BIN")
	if tempo == "" {
		t.Skip("LEFT OUT: TEMPO_BIN names no Tempo")
	}
	bin := binary(t)
	traces := demoTraces(t, readVocabulary(t))

	// The configuration fixes the ports. A loopback address of its own keeps them free.
	const host = "127.0.33.1"
	cmd := exec.CommandContext(t.Context(), tempo, "-config.file=tempo/tempo.yaml", "-config.expand-env=true")
	cmd.Env = append(os.Environ(), "TEMPO_LISTEN="+host, "TEMPO_DATA="+t.TempDir())
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // killed at the end of the test: an orderly shutdown takes half a minute
	api := "http://" + host + ":3200"
	eventually(t, func(t *assert.CollectT) {
		resp, err := http.Get(api + "/ready")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	})
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
					queries = append(queries, strings.ReplaceAll(target.Query, "$service", ".*"))
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
	`{ span.llm.run.outcome = "incomplete" }`,
	`{ span.llm.failure.cause = "h2_goaway" }`,
	`{ span.llm.failure.confidence = "low" } | select(span.llm.failure.missing_evidence)`,
	`{ span.gen_ai.response.time_to_first_chunk > 10.0 } | select(span.gen_ai.request.model)`,
	`{ span.llm.stream.longest_gap > 30.0 } | select(span.gen_ai.request.model, span.llm.stream.phase)`,
}
