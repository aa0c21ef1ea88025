package collector

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What one page of the metrics may cost, whatever producers send. README.md and docs/operate/metrics.md name both.
const (
	maxSeries = 5000
	maxPage   = 5_000_000
)

// A hundred services with 400 runs each, and no value twice. The page stays within its bounds, what was counted before
// is still counted exactly, and no total misses anything.
func TestFlood(t *testing.T) {
	t.Parallel()
	const services, runs = 100, 400
	url, metrics := startCounting(t, nil)

	honest := []string{"shop", "search", "mail"}
	sendHonest := func() {
		for _, service := range honest {
			var spans []map[string]any
			for range 5 {
				spans = append(spans,
					counted("invoke_agent", "gen_ai.agent.name", "coder", "llm.run.outcome", "recovered", "llm.run.recovered_failures", 2,
						"llm.history.missing_outputs", []string{"call-1", "call-2"}),
					counted("chat", "gen_ai.provider.name", "openai", "gen_ai.request.model", "gpt-5", "gen_ai.response.time_to_first_chunk", 0.4, "llm.stream.longest_gap", 3),
					counted("execute_tool", "gen_ai.tool.name", "apply_patch", "llm.tool.outcome", "succeeded"))
			}
			sendSpans(t, url, service, spans)
		}
	}
	mine := func(page page, service string, times float64) map[string]float64 {
		got := map[string]float64{}
		for _, name := range []string{
			"llm_run_calls_total", "llm_request_calls_total", "llm_tool_calls_total", "llm_run_duration_seconds_count",
			"llm_request_duration_seconds_count", "llm_tool_duration_seconds_count", "llm_request_time_to_first_chunk_seconds_count",
			"llm_request_longest_gap_seconds_count",
		} {
			got[name] = page.sum(name, "service_name", service) / times / 5
		}
		for _, name := range []string{"llm_run_recovered_failures_total", "llm_run_missing_outputs_total"} {
			got[name] = page.sum(name, "service_name", service) / times / 10
		}
		return got
	}
	exact := func(times float64) {
		t.Helper()
		eventually(t, func(t *assert.CollectT) {
			page := parsePage(t, readPage(t, metrics))
			for _, service := range honest {
				for name, share := range mine(page, service, times) {
					assert.InDelta(t, 1, share, 1e-9, "%s of %s", name, service)
				}
			}
		})
	}
	sendHonest()
	exact(1)

	for s := range services {
		var spans []map[string]any
		for r := range runs {
			// Long, and of bytes that take twice the room on the page.
			u := func(key string) string { return fmt.Sprintf("%s-%d-%d%s", key, s, r, strings.Repeat(`"`, 200)) }
			verdict := []any{}
			for _, key := range []string{
				"llm.failure.class", "llm.failure.cause", "llm.failure.phase", "llm.failure.origin", "llm.failure.confidence", "llm.retry.safety",
				"llm.retry.reason", "llm.watchdog.kind", "llm.tool.effect", "llm.tool.output_delivery", "llm.tool.outcome",
			} {
				verdict = append(verdict, key, fmt.Sprintf("%s-%d-%d", key, s, r))
			}
			spans = append(spans,
				counted("invoke_agent", append(verdict, "gen_ai.agent.name", u("agent"), "gen_ai.provider.name", u("provider"), "gen_ai.request.model", u("model"), "llm.run.outcome", u("outcome"), "llm.run.recovered_failures", 1,
					"llm.history.missing_outputs", []string{"call"})...),
				counted("chat", append(verdict, "gen_ai.provider.name", u("provider"), "gen_ai.request.model", u("model"), "server.address", u("address"),
					"gen_ai.usage.input_tokens", 5, "gen_ai.usage.output_tokens", 2,
					"gen_ai.response.time_to_first_chunk", 0.1*float64(r%9), "llm.stream.longest_gap", r)...),
				counted("execute_tool", append(verdict, "gen_ai.tool.name", u("tool"))...))
		}
		sendSpans(t, url, fmt.Sprintf("service-%d%s", s, strings.Repeat(`"`, 200)), spans)
	}
	sendHonest()

	totals := map[string]float64{
		"llm_run_recovered_failures_total": services*runs + 2*2*5*3,
		"llm_run_missing_outputs_total":    services*runs + 2*2*5*3,
		"llm_wasted_tokens_total":          services * runs * 7,
		"llm_wasted_requests_total":        services * runs,
	}
	for _, name := range []string{
		"llm_run_calls_total", "llm_request_calls_total", "llm_tool_calls_total", "llm_run_duration_seconds_count",
		"llm_request_duration_seconds_count", "llm_tool_duration_seconds_count", "llm_request_time_to_first_chunk_seconds_count",
		"llm_request_longest_gap_seconds_count",
	} {
		totals[name] = services*runs + 2*5*3
	}
	eventually(t, func(t *assert.CollectT) {
		page := parsePage(t, readPage(t, metrics))
		for name, want := range totals {
			assert.InDelta(t, want, page.sum(name, "", ""), 0, name)
		}
	})
	exact(2)

	raw := readPage(t, metrics)
	page := parsePage(t, raw)
	t.Logf("%d series, %d bytes", len(page), len(raw))
	assert.LessOrEqual(t, len(page), maxSeries)
	assert.Less(t, len(raw), maxPage)
	assert.Positive(t, page.sum("llm_run_calls_total", "otel_metric_overflow", "true"))
	v := readVocabulary(t)
	for _, s := range page {
		for name, value := range s.labels {
			if name == "le" {
				continue
			}
			assert.LessOrEqual(t, len(value), 128, name)
			n := names{vocabulary: v}
			if a, ok := n.label(name); ok && a.values != nil {
				assert.Contains(t, append([]string{"other"}, a.values...), value, name)
			}
		}
	}
}

// Whatever stands in place of a label's value, it is counted, and the page can be read.
func TestForeignValues(t *testing.T) {
	url, metrics := startCounting(t, nil)
	forged := counted("chat", "gen_ai.request.model", "forged")
	forged["traceState"] = "ot=th:fffffffffffff"
	sendSpans(t, url, "weird", []map[string]any{forged})
	deep := map[string]any{"kvlistValue": map[string]any{"values": []any{map[string]any{"key": "k", "value": map[string]any{"stringValue": strings.Repeat("x", 1000)}}}}}
	sendResource(t, url, []map[string]any{attr("service.name", "weird"), attr("llm.failure.class", "from-the-resource"), attr("gen_ai.agent.name", "from-the-resource")}, []map[string]any{
		counted("invoke_agent", "gen_ai.agent.name", deep, "llm.run.outcome", deep, "llm.failure.class", 7, "llm.retry.safety", true, "llm.run.recovered_failures", "many"),
		counted("invoke_agent", "gen_ai.agent.name", "a", "llm.run.outcome", "succeeded", "llm.run.recovered_failures", -3),
		counted("chat", "gen_ai.request.model", "m\"\\\n}", "gen_ai.response.time_to_first_chunk", deep, "llm.stream.longest_gap", -1),
		counted("chat", "gen_ai.request.model", "m", "gen_ai.response.time_to_first_chunk", "NaN", "llm.stream.longest_gap", 1e300),
		counted("chat", "gen_ai.request.model", "m", "gen_ai.response.time_to_first_chunk", 2, "llm.stream.longest_gap", 0.75),
	})
	sendResource(t, url, nil, []map[string]any{counted("chat", "gen_ai.request.model", "nameless")})
	sendResource(t, url, []map[string]any{attr("service.name", deep)}, []map[string]any{counted("chat", "gen_ai.request.model", "nameless")})
	sendSpans(t, url, "otel.metric.overflow", []map[string]any{counted("chat")})
	eventually(t, func(t *assert.CollectT) {
		page := parsePage(t, readPage(t, metrics))
		assert.InDelta(t, 2, page.sum("llm_run_calls_total", "", ""), 0)
		assert.InDelta(t, 1, page.sum("llm_run_calls_total", "gen_ai_agent_name", "other"), 0)
		assert.InDelta(t, 1, page.sum("llm_run_calls_total", "llm_run_outcome", "other"), 0)
		assert.InDelta(t, 1, page.sum("llm_run_calls_total", "llm_failure_class", "other"), 0)
		assert.InDelta(t, 0, page.sum("llm_run_calls_total", "llm_failure_class", "from-the-resource"), 0)
		assert.InDelta(t, 7, page.sum("llm_request_calls_total", "", ""), 0)
		assert.InDelta(t, 1, page.sum("llm_request_calls_total", "gen_ai_request_model", "m\"\\\n}"), 0)
		assert.InDelta(t, 3, page.sum("llm_request_calls_total", "service_name", "unknown_service"), 0)
		assert.InDelta(t, 1, page.sum("llm_request_time_to_first_chunk_seconds_count", "", ""), 0)
		assert.InDelta(t, 2, page.sum("llm_request_time_to_first_chunk_seconds_sum", "", ""), 1e-9)
		assert.InDelta(t, 0.75, page.sum("llm_request_longest_gap_seconds_sum", "", ""), 1e-9)
		assert.InDelta(t, 0, page.sum("llm_run_recovered_failures_total", "", ""), 0)
	})
}

// What failed requests cost: counts that are no counts are left out, and what a person stopped or a limit ended is not
// waste.
func TestWaste(t *testing.T) {
	url, metrics := startCounting(t, nil)
	used := func(class, cause string, input, output any) map[string]any {
		pairs := []any{"gen_ai.provider.name", "p", "gen_ai.request.model", "m", "llm.failure.class", class, "llm.failure.cause", cause}
		if input != nil {
			pairs = append(pairs, "gen_ai.usage.input_tokens", input)
		}
		if output != nil {
			pairs = append(pairs, "gen_ai.usage.output_tokens", output)
		}
		// A producer's own value of a label that the configuration sets.
		return counted("chat", append(pairs, "gen_ai.token.type", "forged", "llm.usage_seen", "forged")...)
	}
	early := used("provider_error", "overloaded", 3, 4)
	early["startTimeUnixNano"], early["endTimeUnixNano"] = "18446744073709551000", "1"
	gateway := used("provider_error", "overloaded", 1000, 1000)
	gateway["kind"] = 2
	sendSpans(t, url, "s", []map[string]any{
		used("stream_interrupted", "connection_reset", 1000, 20),
		used("stream_interrupted", "connection_reset", 100, nil),
		used("local_abort", "deadline", 50, 5),
		early,
		// No waste.
		used("local_abort", "user", 1000, 1000), used("output_limited", "max_output_tokens", 1000, 1000), gateway,
		counted("chat", "gen_ai.usage.input_tokens", 1000, "gen_ai.usage.output_tokens", 1000),
		counted("invoke_agent", "llm.failure.class", "provider_error", "gen_ai.usage.input_tokens", 1000),
		// Failed, and the counts are none.
		used("provider_error", "timeout", -7, 9223372036854775807), used("provider_error", "timeout", "many", 1e300),
		used("provider_error", "timeout", 10000001, true), used("provider_error", "timeout", 2.5, []string{"1"}),
	})
	eventually(t, func(t *assert.CollectT) {
		page := parsePage(t, readPage(t, metrics))
		assert.InDelta(t, 1153, page.sum("llm_wasted_tokens_total", "gen_ai_token_type", "input"), 0)
		assert.InDelta(t, 29, page.sum("llm_wasted_tokens_total", "gen_ai_token_type", "output"), 0)
		assert.InDelta(t, 1182, page.sum("llm_wasted_tokens_total", "", ""), 0)
		assert.InDelta(t, 7, page.sum("llm_wasted_tokens_total", "llm_failure_class", "provider_error"), 0)
		assert.InDelta(t, 3, page.sum("llm_wasted_requests_total", "llm_usage_seen", "true"), 0)
		assert.InDelta(t, 5, page.sum("llm_wasted_requests_total", "llm_usage_seen", "false"), 0)
		assert.InDelta(t, 8, page.sum("llm_wasted_requests_total", "", ""), 0)
	})
}

// Series without news go, and others get their place.
func TestSeriesExpire(t *testing.T) {
	t.Parallel()
	url, metrics := startCounting(t, map[string]string{"METRICS_COUNTS": "2", "METRICS_HISTOGRAMS": "2", "METRICS_EXPIRATION": "2s"})
	for _, service := range []string{"one", "two", "three"} {
		sendSpans(t, url, service, []map[string]any{counted("chat")})
	}
	eventually(t, func(t *assert.CollectT) {
		page := parsePage(t, readPage(t, metrics))
		require.InDelta(t, 1, page.sum("llm_request_calls_total", "otel_metric_overflow", "true"), 0)
		require.InDelta(t, 1, page.sum("llm_request_duration_seconds_count", "otel_metric_overflow", "true"), 0)
		require.InDelta(t, 0, page.sum("llm_request_calls_total", "service_name", "three"), 0)
	})
	eventually(t, func(ct *assert.CollectT) {
		sendSpans(t, url, "three", []map[string]any{counted("chat")})
		page := parsePage(ct, readPage(ct, metrics))
		assert.Positive(ct, page.sum("llm_request_calls_total", "service_name", "three"))
		assert.Positive(ct, page.sum("llm_request_duration_seconds_count", "service_name", "three"))
	})
}

// startCounting runs config.yaml and config-metrics.yaml without llm_classify and without a backend: spans are counted
// as they come. It returns where spans go, and where the page is.
func startCounting(t *testing.T, env map[string]string) (url, metrics string) {
	t.Helper()
	bin := binary(t)
	health, otlp := freeAddress(t), freeAddress(t)
	metrics = freeAddress(t)
	overlay := filepath.Join(t.TempDir(), "overlay.yaml")
	require.NoError(t, os.WriteFile(overlay, fmt.Appendf(nil, `
extensions: {health_check: {endpoint: %q}}
receivers: {otlp: {protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}}}
processors: {batch: {timeout: 100ms}}
%s
exporters: {prometheus: {endpoint: %q}, nop: {}}
service:
  pipelines: {traces: {processors: [memory_limiter, batch]}, traces/backend: {exporters: [nop]}}
  telemetry: {metrics: {level: none, readers: []}}
`, health, freeAddress(t), otlp, flushOften(t), metrics), 0o600))
	cmd := exec.Command(bin, "--config=file:config.yaml", "--config=file:config-metrics.yaml", "--config=file:"+overlay)
	cmd.Env = environ(env)
	run(t, cmd)
	healthy(t, health)
	return "http://" + otlp + "/v1/traces", metrics
}

var spanNumber uint64

// counted returns a span of one second, in OTLP JSON. Keys and values of attributes alternate.
func counted(operation string, pairs ...any) map[string]any {
	spanNumber++
	attributes := []map[string]any{attr("gen_ai.operation.name", operation)}
	for i := 0; i < len(pairs); i += 2 {
		attributes = append(attributes, attr(pairs[i].(string), pairs[i+1]))
	}
	return map[string]any{
		"traceId": fmt.Sprintf("%032x", spanNumber), "spanId": fmt.Sprintf("%016x", spanNumber), "name": operation, "kind": 1,
		"startTimeUnixNano": "1000000000", "endTimeUnixNano": "2000000000", "attributes": attributes,
	}
}

// attr returns an attribute in OTLP JSON. A map is the value as it is there.
func attr(key string, value any) map[string]any {
	switch v := value.(type) {
	case string:
		value = map[string]any{"stringValue": v}
	case int:
		value = map[string]any{"intValue": strconv.Itoa(v)}
	case float64:
		value = map[string]any{"doubleValue": v}
	case bool:
		value = map[string]any{"boolValue": v}
	case []string:
		var values []any
		for _, text := range v {
			values = append(values, map[string]any{"stringValue": text})
		}
		value = map[string]any{"arrayValue": map[string]any{"values": values}}
	}
	return map[string]any{"key": key, "value": value}
}

func sendSpans(t *testing.T, url, service string, spans []map[string]any) {
	t.Helper()
	sendResource(t, url, []map[string]any{attr("service.name", service)}, spans)
}

func sendResource(t *testing.T, url string, resource, spans []map[string]any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"resourceSpans": []any{map[string]any{
		"resource": map[string]any{"attributes": resource}, "scopeSpans": []any{map[string]any{"spans": spans}},
	}}})
	require.NoError(t, err)
	status, err := post(http.DefaultClient, url, "", string(body))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
}

type series struct {
	name   string
	labels map[string]string
	value  float64
}

type page []series

// sum adds up a metric, of those series that have the label.
func (p page) sum(name, label, value string) (total float64) {
	for _, s := range p {
		if s.name == name && (label == "" || s.labels[label] == value) {
			total += s.value
		}
	}
	return total
}

// parsePage reads the text that Prometheus reads, and fails for a series that is there twice.
func parsePage(t require.TestingT, text string) page {
	var all page
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.IndexAny(line, "{ ")
		require.Positive(t, end, line)
		s := series{name: line[:end], labels: map[string]string{}}
		rest := line[end:]
		for strings.HasPrefix(rest, "{") || strings.HasPrefix(rest, ",") {
			name, quoted, ok := strings.Cut(rest[1:], "=")
			require.True(t, ok, line)
			value, err := strconv.QuotedPrefix(quoted)
			require.NoError(t, err, line)
			s.labels[name], err = strconv.Unquote(value)
			require.NoError(t, err, line)
			rest = quoted[len(value):]
		}
		fields := strings.Fields(strings.TrimPrefix(rest, "}"))
		require.NotEmpty(t, fields, line)
		var err error
		s.value, err = strconv.ParseFloat(fields[0], 64)
		require.NoError(t, err, line)
		id := line[:len(line)-len(rest)]
		require.False(t, seen[id], "twice: %s", id)
		seen[id] = true
		all = append(all, s)
	}
	return slices.Clip(all)
}
