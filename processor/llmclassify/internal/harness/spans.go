package llmclassify

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/verdictattr"
	"github.com/otelllm/otelllm-go/semconv"
)

// t0 is when every trace of these tests begins.
var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	agentService   = "agent"
	gatewayService = "gateway"
)

// spanSpec is a span made by hand. Its zero service is the agent's.
type spanSpec struct {
	service    string
	library    string // the name of its scope
	trace      byte   // 0 is trace 1
	id, parent byte
	name       string
	kind       ptrace.SpanKind
	from, to   float64 // seconds from t0
	status     ptrace.StatusCode
	attrs      []attribute.KeyValue
	exceptions []string // exception.type of exception events
}

func (s spanSpec) with(attrs ...attribute.KeyValue) spanSpec {
	s.attrs = append(append([]attribute.KeyValue(nil), s.attrs...), attrs...)
	return s
}

func (s spanSpec) failed(errorType string) spanSpec {
	s.status = ptrace.StatusCodeError
	if errorType != "" {
		return s.with(otelsemconv.ErrorTypeKey.String(errorType))
	}
	return s
}

func (s spanSpec) in(service string) spanSpec { s.service = service; return s }

// byClient is the span in the scope of this project's client.
func (s spanSpec) byClient() spanSpec     { s.library = verdictattr.ClientScope; return s }
func (s spanSpec) of(trace byte) spanSpec { s.trace = trace; return s }

func traceID(n byte) pcommon.TraceID { return pcommon.TraceID{0xaa, 15: n} }
func spanID(n byte) pcommon.SpanID {
	if n == 0 {
		return pcommon.SpanID{}
	}
	return pcommon.SpanID{0xbb, 7: n}
}

// tracesOf builds pdata out of specs, one resource for each service and scope, in their
// order.
func tracesOf(tb testing.TB, specs ...spanSpec) ptrace.Traces {
	tb.Helper()
	td := ptrace.NewTraces()
	type producer struct{ service, library string }
	producers := map[producer]ptrace.SpanSlice{}
	for _, s := range specs {
		by := producer{cmp.Or(s.service, agentService), cmp.Or(s.library, "made.by.hand")}
		spans, ok := producers[by]
		if !ok {
			rs := td.ResourceSpans().AppendEmpty()
			rs.Resource().Attributes().PutStr(string(otelsemconv.ServiceNameKey), by.service)
			ss := rs.ScopeSpans().AppendEmpty()
			ss.Scope().SetName(by.library)
			spans = ss.Spans()
			producers[by] = spans
		}
		s.write(tb, spans.AppendEmpty())
	}
	return td
}

func (s spanSpec) write(tb testing.TB, span ptrace.Span) {
	tb.Helper()
	span.SetTraceID(traceID(max(s.trace, 1)))
	span.SetSpanID(spanID(s.id))
	span.SetParentSpanID(spanID(s.parent))
	span.SetName(s.name)
	span.SetKind(s.kind)
	span.SetStartTimestamp(at(s.from))
	span.SetEndTimestamp(at(s.to))
	span.Status().SetCode(s.status)
	for _, kv := range s.attrs {
		put(tb, span.Attributes(), kv)
	}
	for _, exception := range s.exceptions {
		event := span.Events().AppendEmpty()
		event.SetName(otelsemconv.ExceptionEventName)
		event.SetTimestamp(at(s.to))
		event.Attributes().PutStr(string(otelsemconv.ExceptionTypeKey), exception)
	}
}

func at(seconds float64) pcommon.Timestamp {
	return pcommon.NewTimestampFromTime(t0.Add(time.Duration(seconds * float64(time.Second))))
}

// put writes an attribute as the SDK's exporters do.
func put(tb testing.TB, m pcommon.Map, kv attribute.KeyValue) {
	tb.Helper()
	key := string(kv.Key)
	switch kv.Value.Type() {
	case attribute.STRING:
		m.PutStr(key, kv.Value.AsString())
	case attribute.INT64:
		m.PutInt(key, kv.Value.AsInt64())
	case attribute.FLOAT64:
		m.PutDouble(key, kv.Value.AsFloat64())
	case attribute.BOOL:
		m.PutBool(key, kv.Value.AsBool())
	case attribute.STRINGSLICE:
		slice := m.PutEmptySlice(key)
		for _, s := range kv.Value.AsStringSlice() {
			slice.AppendEmpty().SetStr(s)
		}
	default:
		require.Failf(tb, "attribute type", "%s has a type that no attribute of the vocabulary has: %s", key, kv.Value.Type())
	}
}

// runSpan is a run of this project's client that announces its children.
func runSpan(id byte, from, to float64, requests, tools int) spanSpec {
	return spanSpec{
		id: id, name: "invoke_agent coder", kind: ptrace.SpanKindInternal, from: from, to: to,
		attrs: []attribute.KeyValue{
			otelsemconv.GenAIOperationNameInvokeAgent, otelsemconv.GenAIAgentName("coder"),
			semconv.RunRequests(requests), semconv.RunTools(tools),
		},
	}
}

// requestSpan is one attempt under a run, as this project's client records it,
// that has come to nothing yet: no response.
func requestSpan(id, run byte, from, to float64) spanSpec {
	s := spanSpec{
		id: id, parent: run, name: "chat gpt-test", kind: ptrace.SpanKindClient, from: from, to: to,
		attrs: []attribute.KeyValue{
			otelsemconv.GenAIOperationNameChat, otelsemconv.GenAIProviderNameOpenAI,
			otelsemconv.GenAIRequestModel("gpt-test"), otelsemconv.GenAIRequestStream(true),
			semconv.RequestAttempt(1), semconv.RequestProviderTools(),
			semconv.HistoryToolCalls(), semconv.HistoryToolOutputs(),
		},
	}
	if run != 0 {
		s = s.with(semconv.RunID(spanID(run).String()))
	}
	return s
}

// counts are what a stream is seen to have held.
type counts struct {
	text, reasoning, inputs, completed, calls int
	callIDs, openIDs                          []string
}

// streamed says how the response went and how it ended.
func (s spanSpec) streamed(phase semconv.Phase, end semconv.StreamEnd, c counts) spanSpec {
	events := 1 + c.text + c.reasoning + 2*c.inputs
	s = s.with(
		otelsemconv.HTTPResponseStatusCode(200),
		semconv.StreamPhase(phase), semconv.StreamEndKey.String(end.String()),
		semconv.StreamEvents(events), semconv.StreamBytes(100*events), semconv.StreamKeepalives(0),
		semconv.StreamTextChunks(c.text), semconv.StreamReasoningChunks(c.reasoning),
		semconv.StreamToolInputsStarted(c.inputs), semconv.StreamToolInputsCompleted(c.completed),
		semconv.StreamToolCalls(c.calls), semconv.StreamProviderToolsStarted(0),
		semconv.StreamTimeToHeaders(0.2), semconv.StreamLastProgress(0.5), semconv.StreamLongestGap(0.3),
	)
	if len(c.callIDs) > 0 {
		s = s.with(semconv.StreamToolCallIDs(c.callIDs...))
	}
	if len(c.openIDs) > 0 {
		s = s.with(semconv.StreamOpenToolCallIDs(c.openIDs...))
	}
	return s
}

// answered is a request that ran to its end.
func (s spanSpec) answered(reason string, c counts) spanSpec {
	return s.streamed(semconv.PhaseStreamEnd, semconv.StreamEndTerminalEvent, c).
		with(otelsemconv.GenAIResponseFinishReasons(reason))
}

// cut is a request whose connection broke in the body.
func (s spanSpec) cut(phase semconv.Phase, cause semconv.TransportCause, code string, c counts) spanSpec {
	return s.streamed(phase, semconv.StreamEndReadError, c).failed("*net.OpError").with(
		otelsemconv.GenAIResponseFinishReasons("error"),
		semconv.TransportStageKey.String(semconv.TransportStageBody.String()),
		semconv.TransportCauseKey.String(cause.String()), semconv.TransportCode(code),
		semconv.TransportErrorChain("*net.OpError", "*os.SyscallError", "syscall.Errno"),
	)
}

// refused is a request that was answered with an HTTP error.
func (s spanSpec) refused(status int, kind semconv.ProviderErrorKind, code string) spanSpec {
	s = s.failed("429").with(
		otelsemconv.HTTPResponseStatusCode(status),
		semconv.StreamPhase(semconv.PhaseResponseStarted), semconv.StreamEndKey.String(semconv.StreamEndHTTPError.String()),
		semconv.ProviderErrorKindKey.String(kind.String()), semconv.StreamTimeToHeaders(0.2),
	)
	if code != "" {
		s = s.with(semconv.ProviderErrorCode(code))
	}
	return s
}

// unconnected is a request that no byte left the process for.
func (s spanSpec) unconnected(stage semconv.TransportStage, cause semconv.TransportCause, code string) spanSpec {
	return s.failed("*net.OpError").with(
		semconv.StreamPhase(semconv.PhaseBeforeConnection), semconv.StreamEndKey.String(semconv.StreamEndNoResponse.String()),
		semconv.TransportStageKey.String(stage.String()), semconv.TransportCauseKey.String(cause.String()),
		semconv.TransportCode(code),
	)
}

// history replaces the request's history.
func (s spanSpec) history(calls, outputs []string) spanSpec {
	return s.without(semconv.HistoryToolCallsKey, semconv.HistoryToolOutputsKey).
		with(semconv.HistoryToolCalls(calls...), semconv.HistoryToolOutputs(outputs...))
}

func (s spanSpec) without(keys ...attribute.Key) spanSpec {
	s.attrs = slices.DeleteFunc(slices.Clone(s.attrs), func(kv attribute.KeyValue) bool { return slices.Contains(keys, kv.Key) })
	return s
}

// toolSpan is an execution of a tool under run 1, as this project's client records it.
func toolSpan(id byte, from, to float64, call string, effect semconv.ToolEffect, outcome semconv.ToolOutcome) spanSpec {
	return spanSpec{
		id: id, parent: 1, name: "execute_tool apply_patch", kind: ptrace.SpanKindInternal, from: from, to: to,
		attrs: []attribute.KeyValue{
			otelsemconv.GenAIOperationNameExecuteTool, otelsemconv.GenAIToolName("apply_patch"),
			otelsemconv.GenAIToolCallID(call), semconv.RunID(spanID(1).String()),
			semconv.ToolEffectKey.String(effect.String()), semconv.ToolOutcomeKey.String(outcome.String()),
		},
	}
}

// otherSpan is a span that no verdict needs.
func otherSpan(id, parent byte, from, to float64) spanSpec {
	return spanSpec{
		id: id, parent: parent, name: "SELECT orders", kind: ptrace.SpanKindClient, from: from, to: to,
		attrs: []attribute.KeyValue{otelsemconv.DBSystemNamePostgreSQL},
	}
}

// httpSpan is an HTTP client's span beneath request 2.
func httpSpan(id byte, to float64) spanSpec {
	return spanSpec{
		id: id, parent: 2, name: "POST", kind: ptrace.SpanKindClient, from: 0.1, to: to,
		attrs: []attribute.KeyValue{
			otelsemconv.HTTPRequestMethodPost, otelsemconv.URLFull("https://api.example.com/v1/chat/completions"),
			otelsemconv.HTTPResponseStatusCode(200),
		},
	}
}

// genAI spans as the conventions have them.
func genAISpan(id, parent byte, op attribute.KeyValue, from, to float64, attrs ...attribute.KeyValue) spanSpec {
	return spanSpec{
		id: id, parent: parent, name: op.Value.AsString(), kind: ptrace.SpanKindClient, from: from, to: to,
		attrs: append([]attribute.KeyValue{op}, attrs...),
	}
}
