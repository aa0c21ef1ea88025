package collector

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/deploy/collector/internal/traffic"
)

// holdCounters compares the counters with the ledger, exactly: every run, request and tool was counted once, with the
// labels of what really happened.
func holdCounters(t *testing.T, p *prometheus, l *traffic.Ledger) {
	t.Helper()
	for _, c := range []struct {
		metric  string
		entries traffic.Entries
		by      []string
	}{
		{"llm_run_calls_total", l.Runs, []string{
			"service_name", "gen_ai_agent_name", "gen_ai_provider_name", "gen_ai_request_model", "llm_run_outcome", "llm_failure_class",
			"llm_failure_cause", "llm_failure_phase", "llm_failure_origin", "llm_retry_safety",
		}},
		{"llm_request_calls_total", l.Requests, []string{
			"service_name", "gen_ai_provider_name", "gen_ai_request_model", "server_address", "llm_failure_class",
			"llm_failure_cause", "llm_failure_phase", "llm_failure_origin", "llm_retry_safety", "llm_watchdog_kind",
		}},
		{"llm_tool_calls_total", l.Tools, []string{
			"service_name", "gen_ai_tool_name", "llm_tool_outcome", "llm_tool_effect", "llm_tool_output_delivery", "llm_failure_class",
		}},
		{"llm_run_recovered_failures_total", l.RecoveredFailures, []string{"service_name"}},
		{"llm_run_missing_outputs_total", l.LostOutputs, []string{"service_name"}},
		{"llm_wasted_tokens_total", l.WastedTokens, append([]string{"service_name", "llm_failure_class", "gen_ai_token_type"}, model...)},
		{"llm_wasted_requests_total", l.WastedRequests, append([]string{"service_name", "llm_failure_class", "llm_usage_seen"}, model...)},
	} {
		want := c.entries.By(c.by...)
		got := map[string]float64{}
		for _, s := range p.query(t, c.metric) {
			got[traffic.Key(s.labels, c.by...)] += s.value
		}
		maps.DeleteFunc(got, func(_ string, v float64) bool { return v == 0 })
		assert.Equal(t, want, got, c.metric)
	}
}

// holdStalls compares how many streams were silent for longer than a bound of the histogram, and how long all of them were.
func holdStalls(t *testing.T, p *prometheus, l *traffic.Ledger) {
	t.Helper()
	var stalls float64
	for _, e := range l.Gaps {
		if e.Value > 16 {
			stalls++
		}
	}
	require.Positive(t, stalls)
	assert.InDelta(t, stalls, p.number(t,
		`sum(llm_request_longest_gap_seconds_count) - sum(llm_request_longest_gap_seconds_bucket{le=~"16([.]0)?"})`), 0)
	for metric, entries := range map[string]traffic.Entries{
		"llm_request_longest_gap_seconds_sum": l.Gaps, "llm_request_time_to_first_chunk_seconds_sum": l.FirstChunks,
		"llm_request_duration_seconds_sum": l.RequestSeconds, "llm_tool_duration_seconds_sum": l.ToolSeconds,
		"llm_run_duration_seconds_sum": l.RunSeconds,
	} {
		assert.InEpsilon(t, entries.Sum(), p.number(t, "sum("+metric+")"), 0.001, metric)
	}
}
