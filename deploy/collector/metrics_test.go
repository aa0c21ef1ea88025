package collector

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The demo's runs go through the real Collector into a real Prometheus, and its counts match the verdicts.
func TestMetricsEndToEnd(t *testing.T) {
	v := readVocabulary(t)
	m := startMonitored(t)
	traces := demoTraces(t, v)

	replay(t, m.otlp, traces)
	t.Run("a run counts once", func(t *testing.T) {
		eventually(t, func(t *assert.CollectT) {
			judged := float64(len(m.backend.traceIDs(t, "llm.run.outcome")))
			require.Positive(t, judged)
			for _, expr := range []string{
				`sum(llm_run_calls_total)`,
				`sum(llm_run_duration_seconds_count)`,
				`sum(otelcol_processor_llm_classify_runs)`,
			} {
				assert.InDelta(t, judged, m.number(t, expr), 0, expr)
			}
			for _, s := range m.query(t, `sum by (llm_run_outcome) (llm_run_calls_total)`) {
				assert.Contains(t, v.attributes["llm.run.outcome"].values, s.labels["llm_run_outcome"])
			}
		})
	})

	// Send the same traces again, as new ones, from another process of the same service: counts add up, in the same
	// series.
	for range 2 {
		for _, batch := range traces {
			for _, r := range list(batch["resourceSpans"]) {
				resource := r.(map[string]any)["resource"].(map[string]any)
				resource["attributes"] = append(list(resource["attributes"]), map[string]any{
					"key": "service.instance.id", "value": map[string]any{"stringValue": "another"},
				})
			}
		}
		replay(t, m.otlp, traces)
	}
	t.Run("counts add up", func(t *testing.T) {
		for expr, attribute := range map[string]string{
			`sum(llm_run_calls_total)`:                                         "llm.run.outcome",
			`sum(llm_tool_calls_total)`:                                        "gen_ai.operation.name=execute_tool",
			`sum(llm_request_calls_total)`:                                     "gen_ai.operation.name=chat|text_completion|generate_content",
			`sum(llm_request_calls_total{llm_watchdog_kind!=""})`:              "llm.watchdog.kind",
			`sum(llm_request_time_to_first_chunk_seconds_count)`:               "gen_ai.response.time_to_first_chunk",
			`sum(llm_request_longest_gap_seconds_bucket{le="+Inf"})`:           "llm.stream.longest_gap",
			`sum(llm_run_calls_total{llm_failure_class="tool_output_lost"})>0`: "",
		} {
			eventually(t, func(t *assert.CollectT) {
				if attribute == "" {
					require.Positive(t, m.number(t, expr), expr)
					return
				}
				want := len(m.backend.traceIDs(t, attribute))
				require.Positive(t, want, attribute)
				assert.InDelta(t, want, m.number(t, expr), 0, expr)
			})
		}
	})

	t.Run("exemplars lead to the trace", func(t *testing.T) {
		for _, metric := range []string{"llm_run_calls_total", "llm_request_calls_total", "llm_tool_calls_total", "llm_run_duration_seconds_bucket"} {
			eventually(t, func(t *assert.CollectT) {
				ids := m.exemplars(t, metric)
				require.NotEmpty(t, ids, metric)
				known := map[string]bool{}
				for _, span := range m.backend.spans(t) {
					known[span.TraceID] = true
				}
				for _, id := range ids {
					assert.True(t, known[id], "%s has an exemplar of trace %s, which the backend does not have", metric, id)
				}
			})
		}
	})

	t.Run("rules", func(t *testing.T) {
		records, _ := readRules(t)
		for _, rule := range records {
			if inTrouble[rule.Record] {
				continue
			}
			eventually(t, func(t *assert.CollectT) {
				require.NotEmpty(t, m.query(t, rule.Record), "%s has no data", rule.Record)
			})
		}
	})

	t.Run("dashboards", func(t *testing.T) { everyPanelHasData(t, m.prometheus) })
}

// inTrouble are the rules that have no data in some minutes of the demo: those on incidents, which incidents_test.go
// has, and those that are recorded every two minutes.
var inTrouble = map[string]bool{
	"target:llm_requests_failed:ratio1h": true, "target:llm_requests_failed:ratio1d": true,
	"target:llm_requests_failed:unusual": true, "target_service:llm_requests_failed:only_user": true,
	"target_service:llm_requests_failed:one_service": true, "target:llm_requests_failed:several_services": true,
	"service:llm_requests_refused:unusual": true, "provider:llm_incident_state:hit": true, "whose:llm_incident:failed5m": true,
}

// OTLP delivers at least once: an exporter that got no response sends again, and a gateway sends a whole batch again
// if one of several classifiers is down. A run counts once, whether a duplicate arrives before the verdict or after
// it. Requests and tools count as often as they are delivered, as docs/operate/metrics.md says.
func TestSentMoreThanOnce(t *testing.T) {
	v := readVocabulary(t)
	m := startMonitored(t)
	all := demoTraces(t, v)
	renew(t, all)
	isRun := func(span map[string]any) bool { return strings.HasPrefix(span["name"].(string), "invoke_agent") }
	parts := pick(t, all, func(span map[string]any) bool { return !isRun(span) })
	runs := pick(t, all, isRun)

	check := func(times int) {
		t.Helper()
		eventually(t, func(t *assert.CollectT) {
			deliveries, judged := map[string]int{}, map[string]bool{}
			for _, span := range m.backend.spans(t) {
				deliveries[span.TraceID+span.SpanID]++
				for _, a := range span.Attributes {
					if a.Key == "llm.run.outcome" {
						judged[span.TraceID+span.SpanID] = true
					}
				}
			}
			for id, n := range deliveries {
				require.Equal(t, times, n, id)
			}
			require.NotEmpty(t, judged)
			assert.InDelta(t, len(judged), m.number(t, `sum(llm_run_calls_total)`), 0, "runs")
			for expr, attribute := range map[string]string{
				`sum(llm_request_calls_total)`: "gen_ai.operation.name=chat|text_completion|generate_content",
				`sum(llm_tool_calls_total)`:    "gen_ai.operation.name=execute_tool",
			} {
				assert.InDelta(t, len(m.backend.traceIDs(t, attribute)), m.number(t, expr), 0, expr)
			}
		})
	}
	for _, batches := range [][]map[string]any{parts, parts, runs, runs} { // the second copies of parts come before the verdict
		send(t, m.otlp, batches)
	}
	check(2)
	send(t, m.otlp, all)
	check(3)
}

// traceIDs returns the trace ID of each span that has the attribute, or has one of the values after "=". It leaves out
// a gateway's spans: they serve a request that its client has counted.
func (c *running) traceIDs(t require.TestingT, attribute string) []string {
	const server = 2
	key, values, only := strings.Cut(attribute, "=")
	var ids []string
	for _, span := range c.spans(t) {
		for _, a := range span.Attributes {
			value, _ := a.Value["stringValue"].(string)
			if a.Key == key && span.Kind != server && (!only || slices.Contains(strings.Split(values, "|"), value)) {
				ids = append(ids, span.TraceID)
			}
		}
	}
	return ids
}
