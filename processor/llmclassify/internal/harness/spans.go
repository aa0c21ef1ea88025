package harness

import (
	"encoding/binary"
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

// T0 is when every trace of these tests begins.
var T0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Span is a span made by hand. Its zero service is the agent's.
type Span struct {
	Service    string
	Library    string // the name of its scope
	Trace      byte   // 0 is trace 1
	ID, Parent byte
	Name       string
	Kind       ptrace.SpanKind
	From, To   float64 // seconds from T0
	Status     ptrace.StatusCode
	Attrs      []attribute.KeyValue
	Exceptions []string // exception.type of exception events
}

// TraceID is the id of a trace of Span.
func TraceID(n byte) pcommon.TraceID { return pcommon.TraceID{0xaa, 15: n} }

// SpanID is the id of a Span, empty for 0.
func SpanID(n byte) pcommon.SpanID {
	if n == 0 {
		return pcommon.SpanID{}
	}
	return pcommon.SpanID{0xbb, 7: n}
}

// NthTraceID is the id of the nth of many traces.
func NthTraceID(n uint64) (id pcommon.TraceID) {
	id[0] = 0xcc
	binary.BigEndian.PutUint64(id[8:], n)
	return id
}

// At is the time so many seconds after T0.
func At(seconds float64) pcommon.Timestamp {
	return pcommon.NewTimestampFromTime(T0.Add(time.Duration(seconds * float64(time.Second))))
}

// Write writes the span to pdata.
func (s Span) Write(tb testing.TB, span ptrace.Span) {
	tb.Helper()
	span.SetTraceID(TraceID(max(s.Trace, 1)))
	span.SetSpanID(SpanID(s.ID))
	span.SetParentSpanID(SpanID(s.Parent))
	span.SetName(s.Name)
	span.SetKind(s.Kind)
	span.SetStartTimestamp(At(s.From))
	span.SetEndTimestamp(At(s.To))
	span.Status().SetCode(s.Status)
	for _, kv := range s.Attrs {
		put(tb, span.Attributes(), kv)
	}
	for _, exception := range s.Exceptions {
		event := span.Events().AppendEmpty()
		event.SetName(otelsemconv.ExceptionEventName)
		event.SetTimestamp(At(s.To))
		event.Attributes().PutStr(string(otelsemconv.ExceptionTypeKey), exception)
	}
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

// With is the span with more attributes.
func (s Span) With(attrs ...attribute.KeyValue) Span {
	s.Attrs = append(append([]attribute.KeyValue(nil), s.Attrs...), attrs...)
	return s
}

// Without is the span without these attributes.
func (s Span) Without(keys ...attribute.Key) Span {
	s.Attrs = slices.DeleteFunc(slices.Clone(s.Attrs), func(kv attribute.KeyValue) bool { return slices.Contains(keys, kv.Key) })
	return s
}

// In is the span of another service.
func (s Span) In(service string) Span { s.Service = service; return s }

// Of is the span in another trace.
func (s Span) Of(trace byte) Span { s.Trace = trace; return s }

// Under is the span beneath another parent.
func (s Span) Under(parent byte) Span { s.Parent = parent; return s }

// ByClient is the span in the scope of this project's client.
func (s Span) ByClient() Span { s.Library = verdictattr.ClientScope; return s }

// Failed is the span with the status ERROR and this error.type, if any.
func (s Span) Failed(errorType string) Span {
	s.Status = ptrace.StatusCodeError
	if errorType != "" {
		return s.With(otelsemconv.ErrorTypeKey.String(errorType))
	}
	return s
}

// Streaming is the span of a request for a stream.
func (s Span) Streaming() Span { return s.With(otelsemconv.GenAIRequestStream(true)) }

// Finished is the span with this finish reason.
func (s Span) Finished(reason string) Span {
	return s.With(otelsemconv.GenAIResponseFinishReasons(reason))
}

// Response is the span with the id of its response.
func (s Span) Response(id string) Span { return s.With(otelsemconv.GenAIResponseID(id)) }

// Session is the span with the id of its conversation.
func (s Span) Session(id string) Span { return s.With(otelsemconv.GenAIConversationID(id)) }

// Counts are the parts of a stream that were seen.
type Counts struct {
	Text, Reasoning, Inputs, Completed, Calls int
	CallIDs, OpenIDs                          []string
}

// Streamed says how the response went and how it ended.
func (s Span) Streamed(phase semconv.Phase, end semconv.StreamEnd, c Counts) Span {
	events := 1 + c.Text + c.Reasoning + 2*c.Inputs
	s = s.With(
		otelsemconv.HTTPResponseStatusCode(200),
		semconv.StreamPhase(phase), semconv.StreamEndKey.String(end.String()),
		semconv.StreamEvents(events), semconv.StreamBytes(100*events), semconv.StreamKeepalives(0),
		semconv.StreamTextChunks(c.Text), semconv.StreamReasoningChunks(c.Reasoning),
		semconv.StreamToolInputsStarted(c.Inputs), semconv.StreamToolInputsCompleted(c.Completed),
		semconv.StreamToolCalls(c.Calls), semconv.StreamProviderToolsStarted(0),
		semconv.StreamTimeToHeaders(0.2), semconv.StreamLastProgress(0.5), semconv.StreamLongestGap(0.3),
	)
	if len(c.CallIDs) > 0 {
		s = s.With(semconv.StreamToolCallIDs(c.CallIDs...))
	}
	if len(c.OpenIDs) > 0 {
		s = s.With(semconv.StreamOpenToolCallIDs(c.OpenIDs...))
	}
	return s
}

// Answered is a request that ran to its end.
func (s Span) Answered(reason string, c Counts) Span {
	return s.Streamed(semconv.PhaseStreamEnd, semconv.StreamEndTerminalEvent, c).
		With(otelsemconv.GenAIResponseFinishReasons(reason))
}

// Cut is a request whose connection broke in the body.
func (s Span) Cut(phase semconv.Phase, cause semconv.TransportCause, code string, c Counts) Span {
	return s.Streamed(phase, semconv.StreamEndReadError, c).Failed("*net.OpError").With(
		otelsemconv.GenAIResponseFinishReasons("error"),
		semconv.TransportStageKey.String(semconv.TransportStageBody.String()),
		semconv.TransportCauseKey.String(cause.String()), semconv.TransportCode(code),
		semconv.TransportErrorChain("*net.OpError", "*os.SyscallError", "syscall.Errno"),
	)
}

// Refused is a request that was answered with an HTTP error.
func (s Span) Refused(status int, kind semconv.ProviderErrorKind, code string) Span {
	s = s.Failed("429").With(
		otelsemconv.HTTPResponseStatusCode(status),
		semconv.StreamPhase(semconv.PhaseResponseStarted), semconv.StreamEndKey.String(semconv.StreamEndHTTPError.String()),
		semconv.ProviderErrorKindKey.String(kind.String()), semconv.StreamTimeToHeaders(0.2),
	)
	if code != "" {
		s = s.With(semconv.ProviderErrorCode(code))
	}
	return s
}

// Unconnected is a request that no byte left the process for.
func (s Span) Unconnected(stage semconv.TransportStage, cause semconv.TransportCause, code string) Span {
	return s.Failed("*net.OpError").With(
		semconv.StreamPhase(semconv.PhaseBeforeConnection), semconv.StreamEndKey.String(semconv.StreamEndNoResponse.String()),
		semconv.TransportStageKey.String(stage.String()), semconv.TransportCauseKey.String(cause.String()),
		semconv.TransportCode(code),
	)
}

// History replaces the request's history.
func (s Span) History(calls, outputs []string) Span {
	return s.Without(semconv.HistoryToolCallsKey, semconv.HistoryToolOutputsKey).
		With(semconv.HistoryToolCalls(calls...), semconv.HistoryToolOutputs(outputs...))
}
