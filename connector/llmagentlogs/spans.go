package llmagentlogs

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/agentlog"
	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/metadata"
	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/turn"
	"github.com/otelllm/otelllm-go/semconv"
)

// spans writes the parts of the runs of one conversation as spans. Their ids are hashes of their content, so that repeated
// records give the same spans.
type spans struct {
	to   ptrace.SpanSlice
	made [3]int64 // runs, requests, tools
}

const (
	madeRun = iota
	madeRequest
	madeTool
)

var madeKinds = [...]string{madeRun: "run", madeRequest: "request", madeTool: "tool"}

var _ turn.Sink = (*spans)(nil)

// digest identifies a part of a turn.
func digest(p *turn.Place, kind string, at pcommon.Timestamp, name string) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, s := range [...]string{metadata.ScopeName, p.Agent.String(), p.Conversation, p.Key, kind, strconv.FormatUint(uint64(at), 10), name} {
		var length [4]byte
		binary.BigEndian.PutUint32(length[:], uint32(len(s)))
		h.Write(length[:])
		h.Write([]byte(s))
	}
	h.Sum(sum[:0])
	return sum
}

func spanID(sum [sha256.Size]byte) (id pcommon.SpanID) {
	copy(id[:], sum[:])
	return id
}

func runID(p *turn.Place) pcommon.SpanID { return spanID(digest(p, madeKinds[madeRun], 0, "")) }

// begin makes a span of the turn.
func (s *spans) begin(p *turn.Place, kind int, start, end pcommon.Timestamp, id pcommon.SpanID) ptrace.Span {
	s.made[kind]++
	span := s.to.AppendEmpty()
	trace := p.Trace
	if trace.IsEmpty() {
		sum := digest(p, "trace", 0, "")
		copy(trace[:], sum[:])
	}
	span.SetTraceID(trace)
	span.SetSpanID(id)
	span.SetStartTimestamp(start)
	span.SetEndTimestamp(max(start, end))
	put(span, semconv.RunInferred(true))
	put(span, otelsemconv.GenAIConversationID(p.Conversation))
	return span
}

// part makes the span of a request or a tool: beneath the agent's own span, if there is one, and beneath the run's
// otherwise.
func (s *spans) part(p *turn.Place, kind int, start, end pcommon.Timestamp, id, above pcommon.SpanID) ptrace.Span {
	span, run := s.begin(p, kind, start, end, id), runID(p)
	if p.Trace.IsEmpty() || above.IsEmpty() {
		above = run
	}
	span.SetParentSpanID(above)
	put(span, semconv.RunID(run.String()))
	return span
}

// Run implements [turn.Sink].
func (s *spans) Run(p turn.Place, r *turn.Run) {
	span := s.begin(&p, madeRun, r.Start, r.End, runID(&p))
	span.SetName("invoke_agent " + agentNames[p.Agent])
	span.SetKind(ptrace.SpanKindInternal)
	span.SetParentSpanID(p.Above)
	put(span, otelsemconv.GenAIOperationNameInvokeAgent)
	put(span, otelsemconv.GenAIAgentName(agentNames[p.Agent]))
	put(span, semconv.RunEndAttr(r.EndedBy))
	put(span, semconv.RunRequests(r.Requests))
	fail(span, r.ErrorType)
}

// agentNames are the names of agents in their own telemetry.
var agentNames = [...]string{agentlog.Codex: "codex", agentlog.ClaudeCode: "claude-code", agentlog.GeminiCLI: "gemini-cli"}

// Request implements [turn.Sink].
func (s *spans) Request(p turn.Place, r *turn.Request) {
	span := s.part(&p, madeRequest, r.Start, r.End, spanID(digest(&p, madeKinds[madeRequest], r.Start, r.RequestID)), r.Above)
	span.SetKind(ptrace.SpanKindClient)
	span.SetName(nameOf("chat", r.Model))
	put(span, otelsemconv.GenAIOperationNameChat)
	putText(span, otelsemconv.GenAIRequestModelKey, r.Model)
	putText(span, otelsemconv.GenAIProviderNameKey, r.Provider)
	putText(span, semconv.RequestIDKey, r.RequestID)
	putCount(span, otelsemconv.HTTPResponseStatusCodeKey, r.Status)
	putCount(span, semconv.RequestAttemptKey, r.Attempt)
	if r.Attempt > 1 {
		putCount(span, otelsemconv.HTTPRequestResendCountKey, r.Attempt-1)
	}
	put(span, semconv.StreamPhase(r.Phase))
	for _, c := range [...]struct {
		key attribute.Key
		n   int
	}{
		{semconv.StreamTextChunksKey, r.Text},
		{semconv.StreamReasoningChunksKey, r.Reasoning},
		{semconv.StreamToolInputsStartedKey, r.InputsBegan},
		{semconv.StreamToolInputsCompletedKey, r.InputsCompleted},
		{semconv.StreamProviderToolsStartedKey, r.ProviderTools},
	} {
		putCount(span, c.key, c.n)
	}
	if r.InputTokens >= 0 && r.OutputTokens >= 0 {
		put(span, otelsemconv.GenAIUsageInputTokens(int(r.InputTokens)))
		put(span, otelsemconv.GenAIUsageOutputTokens(int(r.OutputTokens)))
	}
	if r.Finish != "" {
		put(span, otelsemconv.GenAIResponseFinishReasons(r.Finish))
	}
	writeFailure(span, r)
}

// writeFailure writes how a request ended.
func writeFailure(span ptrace.Span, r *turn.Request) {
	f := &r.Failure
	if f.End != semconv.StreamEndUnset {
		put(span, semconv.StreamEndAttr(f.End))
	}
	if f.Cause != semconv.TransportCauseUnset {
		put(span, semconv.TransportCauseAttr(f.Cause))
		putText(span, semconv.TransportCodeKey, f.Code)
	}
	if f.Provider != semconv.ProviderErrorKindUnset {
		put(span, semconv.ProviderErrorKindAttr(f.Provider))
		if f.InBand {
			put(span, semconv.ProviderErrorInBand(true))
		}
	}
	if f.Watchdog != semconv.WatchdogKindUnset {
		put(span, semconv.WatchdogKindAttr(f.Watchdog))
	}
	if f.Abort != semconv.AbortSourceUnset {
		put(span, semconv.AbortSourceAttr(f.Abort))
		return // an intentional end is not an error
	}
	fail(span, turn.ErrorType(f, r.Status))
}

// Tool implements [turn.Sink].
func (s *spans) Tool(p turn.Place, t *turn.Tool) {
	name := t.CallID + " " + t.Name + " " + strconv.FormatUint(uint64(t.Start), 10)
	span := s.part(&p, madeTool, t.Start, t.End, spanID(digest(&p, madeKinds[madeTool], t.End, name)), t.Above)
	span.SetKind(ptrace.SpanKindInternal)
	span.SetName(nameOf("execute_tool", t.Name))
	put(span, otelsemconv.GenAIOperationNameExecuteTool)
	putText(span, otelsemconv.GenAIToolNameKey, t.Name)
	putText(span, otelsemconv.GenAIToolCallIDKey, t.CallID)
	put(span, semconv.ToolEffectAttr(semconv.ToolEffectUnknown))
	switch t.Outcome {
	case semconv.ToolOutcomeUnset:
	case semconv.ToolOutcomeSucceeded:
		put(span, semconv.ToolOutcomeAttr(t.Outcome))
	default:
		put(span, semconv.ToolOutcomeAttr(t.Outcome))
		if t.ErrorType == "" {
			t.ErrorType = t.Outcome.String()
		}
		fail(span, t.ErrorType)
	}
}

func nameOf(operation, of string) string {
	if of == "" {
		return operation
	}
	return operation + " " + of
}

// fail marks a span as failed, unless the type of its error is "".
func fail(span ptrace.Span, errorType string) {
	if errorType != "" {
		span.Status().SetCode(ptrace.StatusCodeError)
		put(span, otelsemconv.ErrorTypeKey.String(errorType))
	}
}

func putText(span ptrace.Span, key attribute.Key, value string) {
	if value != "" {
		put(span, key.String(value))
	}
}

// putCount writes a count that was observed to be more than zero. A zero means that nothing was observed.
func putCount(span ptrace.Span, key attribute.Key, n int) {
	if n > 0 {
		put(span, key.Int(n))
	}
}

func put(span ptrace.Span, kv attribute.KeyValue) {
	switch a, key := span.Attributes(), string(kv.Key); kv.Value.Type() {
	case attribute.BOOL:
		a.PutBool(key, kv.Value.AsBool())
	case attribute.INT64:
		a.PutInt(key, kv.Value.AsInt64())
	case attribute.STRINGSLICE:
		list := a.PutEmptySlice(key)
		for _, s := range kv.Value.AsStringSlice() {
			list.AppendEmpty().SetStr(s)
		}
	default:
		a.PutStr(key, kv.Value.AsString())
	}
}
