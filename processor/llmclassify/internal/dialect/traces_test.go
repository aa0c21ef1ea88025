package dialect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// TestTraces reads whole traces as producers export them (OTLP JSON), explains
// requests by the HTTP exchanges beneath them, and judges them as one run.
func TestTraces(t *testing.T) {
	const (
		atLimit      = "output_limited/max_output_tokens medium no_retry"
		threw        = "tool_failed/execution_error high user_confirmed_retry"
		nothingKnown = "unclassified/unknown low user_confirmed_retry"
	)
	for name, want := range map[string]struct {
		run      string
		requests []string
		tools    []string
		spans    string // kinds in the file's order: q request, t tool, r run, x exchange, o other
	}{
		"vercel_ai_refused": {
			"failed unclassified/unknown low user_confirmed_retry",
			[]string{"unclassified/unknown low user_confirmed_retry", "unclassified/unknown low user_confirmed_retry", "unclassified/unknown low user_confirmed_retry"},
			nil, "qqqr",
		},
		"vercel_ai_refused_with_http": {
			"recovered", []string{"provider_error/rate_limited medium user_confirmed_retry", ""}, nil, "qqrxx",
		},
		"vercel_ai_in_band": {
			"failed provider_error/unknown medium user_confirmed_retry", []string{"", "provider_error/unknown medium user_confirmed_retry"}, []string{""}, "qtqr",
		},
		"vercel_ai_v7_reset": {
			"failed stream_interrupted/connection_reset medium user_confirmed_retry",
			[]string{"stream_interrupted/connection_reset medium user_confirmed_retry"},
			nil, "qorx",
		},
		"vercel_ai_v7_reset_alone": {
			"failed unclassified/unknown low user_confirmed_retry", []string{"unclassified/unknown low user_confirmed_retry"}, nil, "qor",
		},
		"vercel_ai_v7_interrupted": {
			"failed stream_interrupted/clean_eof medium user_confirmed_retry", []string{"stream_interrupted/clean_eof medium user_confirmed_retry"}, nil, "qor",
		},
		"openai_js_no_connection": {
			"failed connection_failed/connect_refused medium user_confirmed_retry", []string{"connection_failed/connect_refused medium user_confirmed_retry"}, nil, "rqxx",
		},
		"openai_js_eof": {
			"incomplete unclassified/unknown low user_confirmed_retry", []string{""}, nil, "rq",
		},
		"openllmetry_cut": {
			"failed stream_interrupted/unknown medium user_confirmed_retry", []string{"", "stream_interrupted/unknown medium user_confirmed_retry"}, []string{""}, "rtoqq",
		},
		"openai_agents_cut": {
			"failed stream_interrupted/unknown low user_confirmed_retry", []string{"", "stream_interrupted/unknown low user_confirmed_retry"}, []string{""}, "oroqtq",
		},
		// Recorded from agents with @openai/agents 0.20.0, ai 6.0.322 and 7.0.173, openai 6.30.1 and
		// 7.57.0 on Node 24, against a model server that breaks.
		"openai_agents_well":   {"succeeded", []string{"", ""}, []string{""}, "ooroqtoq"},
		"openai_agents_length": {"limited " + atLimit, []string{atLimit}, nil, "orooq"},
		"openai_agents_length_as_error": {
			"limited " + atLimit, []string{"", atLimit}, []string{""}, "orooqtoq",
		},
		"openai_agents_tool_answered": {"recovered", []string{"", ""}, []string{threw}, "orooqtqo"},
		"openai_agents_half_input": {
			"failed " + nothingKnown, []string{"", nothingKnown}, []string{nothingKnown}, "orooqtoq",
		},
		"openai_agents_half_input_answered": {"recovered", []string{"", ""}, []string{nothingKnown}, "ooroqtoq"},
		"openai_agents_tool_stopped": {
			"aborted local_abort/unknown low no_retry", []string{""}, []string{"local_abort/unknown low no_retry"}, "ooroqt",
		},
		"openai_agents_not_read_on": {"incomplete " + nothingKnown, []string{"", ""}, []string{""}, "ooroqtqo"},
		"openai_agents_empty_then_answer": {
			"recovered", []string{"empty_completion/no_content medium user_confirmed_retry", ""}, nil, "orooqoq",
		},
		"vercel_ai_tool_answered":     {"recovered", []string{"", ""}, []string{threw}, "rqtq"},
		"vercel_ai_v7_tools_answered": {"recovered", []string{"", "", ""}, []string{threw, threw}, "roqtoqtoq"},
		"vercel_ai_half_input":        {"incomplete " + nothingKnown, []string{""}, nil, "rq"},
		"vercel_ai_v7_half_input": {
			"failed stream_interrupted/clean_eof medium user_confirmed_retry",
			[]string{"stream_interrupted/clean_eof medium user_confirmed_retry"},
			nil, "roqx",
		},
		"vercel_ai_v7_closed_with_http": {
			"failed stream_interrupted/body_truncated medium user_confirmed_retry",
			[]string{"stream_interrupted/body_truncated medium user_confirmed_retry"},
			nil, "roqx",
		},
		"vercel_ai_empty": {
			"failed empty_completion/no_content low user_confirmed_retry", []string{"empty_completion/no_content low user_confirmed_retry"}, nil, "rq",
		},
		"vercel_ai_empty_with_content": {
			"failed empty_completion/no_content medium user_confirmed_retry",
			[]string{"", "empty_completion/no_content medium user_confirmed_retry"},
			[]string{""},
			"rqqt",
		},
		"vercel_ai_v7_empty": {
			"failed empty_completion/no_content low user_confirmed_retry", []string{"empty_completion/no_content low user_confirmed_retry"}, nil, "roq",
		},
		"openai_js_empty": {
			"failed empty_completion/no_content medium user_confirmed_retry", []string{"empty_completion/no_content medium user_confirmed_retry"}, nil, "q",
		},
		"openinference_empty": {
			"failed empty_completion/no_content medium user_confirmed_retry", []string{"empty_completion/no_content medium user_confirmed_retry"}, nil, "q",
		},
		"openinference_overloaded": {
			"failed provider_error/overloaded medium user_confirmed_retry", []string{"provider_error/overloaded medium user_confirmed_retry"}, nil, "rq",
		},
		"anthropic_go_tool_runner": {
			"failed provider_error/overloaded medium user_confirmed_retry", []string{"", "provider_error/overloaded medium user_confirmed_retry"}, []string{""}, "rqtq",
		},
		"python_httpx_cut": {
			"failed stream_interrupted/body_truncated medium user_confirmed_retry",
			[]string{"stream_interrupted/body_truncated medium user_confirmed_retry"},
			nil, "rqx",
		},
		"python_aiohttp_idle": {
			"failed watchdog_timeout/idle medium user_confirmed_retry", []string{"watchdog_timeout/idle medium user_confirmed_retry"}, nil, "rq",
		},
		"go_compile_teardown": {
			"incomplete unclassified/unknown low user_confirmed_retry", []string{"unclassified/unknown low user_confirmed_retry"}, nil, "rq",
		},
		"mcp_tool_error": {
			"failed tool_failed/execution_error medium user_confirmed_retry", []string{""}, []string{"tool_failed/execution_error high user_confirmed_retry"}, "rqt",
		},
	} {
		t.Run(name, func(t *testing.T) {
			run, spans := readTrace(t, filepath.Join("testdata", "traces", name+".json"))
			assert.Equal(t, want.spans, spans)
			v := classify.Judge(&run)
			assert.Equal(t, want.run, strings.TrimSpace(v.Run.Outcome.String()+" "+words(&v.Run)), v.Run.Summary)
			var requests, tools []string
			for i := range v.Requests {
				requests = append(requests, words(&v.Requests[i]))
			}
			for i := range v.Tools {
				tools = append(tools, words(&v.Tools[i]))
			}
			assert.Equal(t, want.requests, requests)
			assert.Equal(t, want.tools, tools)
			if v.Run.Failed() && v.Run.Confidence != semconv.ConfidenceHigh {
				assert.NotEmpty(t, v.Run.MissingEvidence, "what is cautious says why")
			}
		})
	}
	files, err := filepath.Glob(filepath.Join("testdata", "traces", "*.json"))
	require.NoError(t, err)
	assert.Len(t, files, 35, "every file is read")
}

func words(d *classify.Diagnosis) string {
	if !d.Failed() {
		return ""
	}
	return d.Class.String() + "/" + d.Cause.String() + " " + d.Confidence.String() + " " + d.Retry.Safety.String()
}

func readTrace(t *testing.T, path string) (run classify.Run, kinds string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(data)
	require.NoError(t, err)

	var requests []ptrace.Span
	exchanges := map[pcommon.SpanID][]Exchange{}
	var kindsSb123 strings.Builder
	for _, rs := range td.ResourceSpans().All() {
		var kindsSb124 strings.Builder
		for _, ss := range rs.ScopeSpans().All() {
			in := Default().In(ss.Scope().Name())
			var kindsSb126 strings.Builder
			for _, span := range ss.Spans().All() {
				head, d := in.Recognise(span)
				reading := Reading{Dialect: d}
				switch head.Kind {
				case Request:
					run.Requests = append(run.Requests, *reading.Facts(span, Request).Request)
					requests = append(requests, span)
				case Tool:
					run.Tools = append(run.Tools, *reading.Facts(span, Tool).Tool)
				case Run:
					parts := run
					run = *reading.Facts(span, Run).Run
					run.Requests, run.Tools = parts.Requests, parts.Tools
				case Other:
					if head.Exchange {
						exchanges[span.ParentSpanID()] = append(exchanges[span.ParentSpanID()], ReadExchange(span))
					}
				}
				letter := [...]string{Other: "o", Request: "q", Tool: "t", Run: "r"}[head.Kind]
				if head.Exchange {
					letter = "x"
				}
				kindsSb126.WriteString(letter)
			}
			kindsSb124.WriteString(kindsSb126.String())
		}
		kindsSb123.WriteString(kindsSb124.String())
	}
	kinds += kindsSb123.String()
	for i := range run.Requests {
		Explain(&run.Requests[i], exchanges[requests[i].SpanID()])
	}
	slices.SortStableFunc(run.Requests, func(a, b classify.Request) int { return a.Start.Compare(b.Start) })
	return run, kinds
}
