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
	for name, want := range map[string]struct {
		run      string
		requests []string
		tools    []string
		spans    string // kinds in the file's order: q request, t tool, r run, x exchange, o other
	}{
		"vercel_ai_refused": {
			"incomplete unclassified/unknown low user_confirmed_retry",
			[]string{"unclassified/unknown low user_confirmed_retry", "unclassified/unknown low user_confirmed_retry", "unclassified/unknown low user_confirmed_retry"},
			nil, "qqqr",
		},
		"vercel_ai_refused_with_http": {
			"recovered", []string{"provider_error/rate_limited medium user_confirmed_retry", ""}, nil, "qqrxx",
		},
		"vercel_ai_in_band": {
			"failed provider_error/unknown medium no_retry", []string{"", "provider_error/unknown medium no_retry"}, []string{""}, "qtqr",
		},
		"vercel_ai_v7_reset": {
			"failed stream_interrupted/connection_reset medium user_confirmed_retry",
			[]string{"stream_interrupted/connection_reset medium user_confirmed_retry"},
			nil, "qorx",
		},
		"vercel_ai_v7_reset_alone": {
			"incomplete unclassified/unknown low user_confirmed_retry", []string{"unclassified/unknown low user_confirmed_retry"}, nil, "qor",
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
	assert.Len(t, files, 16, "every file is read")
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
