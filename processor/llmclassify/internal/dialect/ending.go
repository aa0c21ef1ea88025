package dialect

import (
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Values of finish reasons that are not reasons of a model.
const (
	finishError       = "error"
	finishInterrupted = "interrupted"
	finishStop        = "stop"
	finishOther       = "other" // the AI SDK's, also for a stream that ended without a finish reason
	finishUnknown     = "unknown"
	statusFailed      = "failed" // a status of a response, which some write in place of a reason
	statusCancelled   = "cancelled"
)

// ending is what a request's span records about how the request ended. A dialect
// fills it in its pass over the attributes and draws its own conclusions.
type ending struct {
	fault
	errorType string
	streamed  bool
	chunked   bool     // the time to the first chunk is recorded
	responded bool     // a part of a response is recorded
	reasons   []string // nil where no finish reason is recorded
	others    []string // the same, under names that the conventions do not have
	returned  bool     // the call came back, or its stream was read to its end, as far as its producer shows that
	unset     bool     // the status is UNSET
	state     lifecycle

	input, output classify.Count // tokens
	reasoning     classify.Count // of the output
	content       classify.Fact  // whether the recorded messages of the answer have any content
	partless      bool           // they have no parts at all

	ownID   bool // the id of the response is one that the AI SDK made
	nothing bool // nothing of an answer arrived
}

// keyFirstChunk is the time to the first chunk of a stream. See keyTimeToFirstChunk for other names of it.
const keyFirstChunk = "gen_ai.response.time_to_first_chunk"

// keyReasoningTokens are the tokens of reasoning, which are among those of the output.
const keyReasoningTokens = "gen_ai.usage.reasoning.output_tokens"

// begin reads what every request's span has.
func (e *ending) begin(span ptrace.Span, r *classify.Request) {
	*r = classify.Request{
		Start: at(span.StartTimestamp()), End: at(span.EndTimestamp()),
		Phase: semconv.PhaseUnknown, Failed: failed(span),
	}
	e.unset = span.Status().Code() == ptrace.StatusCodeUnset
}

// beginWithoutOK is begin for a producer that sets no OK: it is another one's, on each span that
// did not fail, and says no more than UNSET.
func (e *ending) beginWithoutOK(span ptrace.Span, r *classify.Request) {
	e.begin(span, r)
	if r.Failed == classify.No {
		r.Failed, e.unset = classify.NotObserved, true
	}
}

// read reads the attributes of the conventions.
func (e *ending) read(key string, v pcommon.Value, r *classify.Request) {
	switch key {
	case string(otelsemconv.GenAIRequestStreamKey):
		e.streamed = e.streamed || boolean(v)
	case keyFirstChunk, keyTimeToFirstChunk, keyNewTimeToFirstChunk:
		e.chunked = true
	case string(otelsemconv.GenAIResponseFinishReasonsKey):
		e.reasons = finishReasons(v, nil)
	case string(otelsemconv.GenAIRequestMaxTokensKey):
		r.MaxTokens = count(v)
	case string(otelsemconv.HTTPResponseStatusCodeKey):
		r.Status = status(v)
	case string(otelsemconv.GenAIResponseIDKey):
		id := text(v)
		e.ownID = strings.HasPrefix(id, vercelID)
		e.responded = e.responded || id != "" && !e.ownID
	case keyResponseStatus:
		e.state = lifecycles[shortString(v)]
	case string(otelsemconv.ErrorTypeKey):
		e.errorType = errorTypeOf(v)
	case string(otelsemconv.GenAIUsageInputTokensKey):
		e.input = count(v)
	case string(otelsemconv.GenAIUsageOutputTokensKey):
		e.output = count(v)
	case keyReasoningTokens:
		e.reasoning = count(v)
	case string(otelsemconv.GenAIOutputMessagesKey):
		e.content = messagesContent(v)
		e.partless = e.content == classify.No && !strings.Contains(v.AsString(), `"type"`)
	case keyGenAIFinish, keyGenAIStop, keyShortFinish:
		e.others = append(e.others, finishReasons(v, nil)...)
	}
}

// Names of finish reasons beside that of the conventions, which outweighs them. Semantic
// Kernel has the first, AgentOps (semconv/span_attributes.py) and VeADK the first two, and
// OpenRouter's own spans the third.
const (
	keyGenAIFinish = "gen_ai.response.finish_reason"
	keyGenAIStop   = "gen_ai.response.stop_reason"
	keyShortFinish = "gen_ai.finish_reason"
)

// finish is for a producer that records the finish reason under a key of its own.
func (e *ending) finish(v pcommon.Value) {
	e.reasons = finishReasons(v, nil)
}

// addFinish is for a producer that may record it under several keys.
func (e *ending) addFinish(v pcommon.Value) {
	e.reasons = append(e.reasons, finishReasons(v, nil)...)
}

// end completes the pass over the attributes.
func (e *ending) end(span ptrace.Span, r *classify.Request) {
	if len(e.reasons) == 0 && e.others != nil {
		e.reasons = e.others
	}
	r.Finish = classify.ParseFinish(e.reasons)
	if r.Finish == classify.FinishOther && (e.has(statusFailed) || e.has(statusCancelled)) {
		r.Finish = classify.FinishMissing
	}
	e.fault = faultOf(span, e.errorType)
	r.Error = errorOf(span, e.fault.name)
	if r.Status == 0 {
		r.Status = e.fault.status
	}
}

// has reports whether the finish reasons name this one.
func (e *ending) has(reason string) bool { return slices.Contains(e.reasons, reason) }

// conclude draws the conclusions that hold for every producer that marks failures: from an
// HTTP status, the name of an error, a finish reason. It reports whether there were any.
func (e *ending) conclude(r *classify.Request) bool {
	failed := slices.IndexFunc(e.reasons, classify.FailedFinish)
	switch {
	case e.state.reached(r):
	case r.Status >= 400:
		e.refused(r)
	case r.Failed == classify.Yes && r.Finish >= classify.FinishLimited && (!e.known || e.limited):
		// Some make an error of an answer that ended at a limit.
		r.Ended, r.Basis, r.Phase = semconv.StreamEndTerminalEvent, classify.Corroborated, semconv.PhaseStreamEnd
	case e.known && (r.Failed == classify.Yes || e.unset && (e.errorType != "" || r.Finish <= classify.FinishMissing)):
		// From an exception on a span with a finish reason the producer has recovered.
		e.apply(r)
	case failed >= 0:
		r.Failed, r.Basis, r.Finish = classify.Yes, classify.Corroborated, classify.FinishMissing
		r.Provider.Kind, r.Provider.Code, r.Provider.InBand = semconv.ProviderErrorKindServerError, codeOf(e.reasons[failed]), true
	case r.Failed == classify.Yes: // the reason is not recorded
		return false
	case r.Finish > classify.FinishMissing:
		r.Ended, r.Basis, r.Phase = semconv.StreamEndTerminalEvent, classify.Typed, semconv.PhaseStreamEnd
		if r.Finish == classify.FinishStop && e.empty(r) {
			nothingIn(r, classify.Corroborated)
		}
	case e.has(finishError):
		// By the conventions: the reason was due and did not come. The stream was closed, or
		// cancelled, or it broke. OK beside it only says that no error was raised.
		r.Failed, r.Basis = classify.Yes, classify.Inferred
	default:
		return false
	}
	return true
}

// empty reports whether an answer that came to its end has no content: its messages are
// recorded, and have none, or no token of output was counted by a provider that counts.
func (e *ending) empty(r *classify.Request) bool {
	switch {
	case e.content != classify.NotObserved:
		return e.content == classify.No && r.CallIDs == nil
	default:
		return e.output.Fact() == classify.No && e.input.N() > 0 && r.CallIDs == nil
	}
}

// nothingIn is for an answer that came to its end without any content.
func nothingIn(r *classify.Request, basis classify.Basis) {
	none := classify.Counted(0)
	r.Ended, r.Basis, r.Phase = semconv.StreamEndTerminalEvent, basis, semconv.PhaseStreamEnd
	r.Text, r.Reasoning, r.ProviderToolsStarted = none, none, none
	r.ToolInputsStarted, r.ToolInputsCompleted, r.ToolCalls = none, none, none
}

// refused is for a response that was an HTTP error.
func (e *ending) refused(r *classify.Request) {
	r.Ended, r.Basis, r.Phase = semconv.StreamEndHTTPError, e.basis(), semconv.PhaseResponseStarted
	r.Provider.Kind = classify.ProviderErrorKind(r.Status, e.name)
	switch {
	case r.Status >= 500 && anyServerError[baseName(e.name)]:
		r.Provider.Kind = classify.ProviderErrorKind(r.Status)
	case e.provider != semconv.ProviderErrorKindUnset:
		r.Provider.Kind = e.provider
	}
	r.Provider.Code = codeOf(e.name)
}

// anyServerError are the classes that SDKs raise for every status from 500 on: the status is
// more precise.
var anyServerError = map[string]bool{"InternalServerError": true, "InternalServerException": true}

// apply writes what the error shows of how the request ended.
func (e *ending) apply(r *classify.Request) {
	r.Basis = e.basis()
	switch {
	case e.abort != semconv.AbortSourceUnset:
		r.Ended, r.Abort.Source = semconv.StreamEndCancelled, e.abort
	case e.watchdog != semconv.WatchdogKindUnset:
		r.Ended, r.Watchdog.Kind = semconv.StreamEndWatchdog, e.watchdog
	case e.provider != semconv.ProviderErrorKindUnset:
		r.Provider.Kind, r.Provider.Code = e.provider, codeOf(e.name)
	case e.pause:
		r.Failed = classify.NotObserved // a tool beneath it waits
		if r.Finish != classify.FinishToolCalls {
			r.Finish = classify.FinishNotObserved
		}
	case e.limited:
		r.Ended, r.Phase, r.Finish = semconv.StreamEndTerminalEvent, semconv.PhaseStreamEnd, max(r.Finish, classify.FinishLimited)
	case e.unstaged && (e.responded || r.Status > 0):
		r.Ended, r.Basis = semconv.StreamEndReadError, classify.Corroborated // there was a response
	case e.unstaged, e.timer, e.silence && r.End.Sub(r.Start) >= undiciPatience:
		// It may have failed before a connection was made or later, or the client's own timer
		// may have fired: several classes, and no evidence for one of them.
		r.Failed, r.Basis = classify.Yes, classify.Inferred
	case e.failure.end != semconv.StreamEndUnset:
		r.Ended = e.failure.end
	default:
		r.Transport.Cause, r.Transport.Code = e.transport, e.failure.code
		if r.Transport.Code == "" && e.typed {
			r.Transport.Code = codeOf(e.name)
		}
		if baseName(e.name) == undSocket && e.early && !e.responded && r.Status == 0 {
			r.Transport.Cause, r.Phase = semconv.TransportCauseClosedBeforeHeaders, semconv.PhaseAwaitingResponse
		}
		if classify.BeforeConnection(e.transport) && (e.responded || r.Status > 0) {
			// There was a connection, and a response to break.
			r.Transport.Cause, r.Ended = semconv.TransportCauseUnset, semconv.StreamEndReadError
			r.Basis = min(r.Basis, classify.Corroborated)
		}
	}
}

// failed is the status that the producer set.
func failed(span ptrace.Span) classify.Fact {
	switch span.Status().Code() {
	case ptrace.StatusCodeError:
		return classify.Yes
	case ptrace.StatusCodeOk:
		return classify.No
	default:
		return classify.NotObserved
	}
}
