// Package spanfacts writes facts onto spans. Facts become attributes in this package only,
// and the attributes are made from the structs that are judged. What the client judges
// live and what a reader of its spans judges later are therefore the same values.
package spanfacts

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// Identity identifies the request that a span is about. It is known when the span starts,
// except for what comes from a request body that cannot be read before it is sent.
// Samplers see it.
type Identity struct {
	Operation, Provider string
	Model               string // "" if not known
	Stream              classify.Fact
	Agent               string // of the run; "" if not known
	ConversationID      string
	ServerAddress       string
	ServerPort          int
	RunID               string
	RunInferred         bool
	UserAgent           string // product and version of the client, see [httpcall.UserAgent]; "" if not known
}

// SpanName returns the name of a request's span.
func (id *Identity) SpanName() string {
	if id.Model == "" {
		return id.Operation
	}
	return id.Operation + " " + id.Model
}

// Append appends the attributes of id to dst.
func (id *Identity) Append(dst []attribute.KeyValue) []attribute.KeyValue {
	dst = append(dst,
		otelsemconv.GenAIOperationNameKey.String(id.Operation),
		otelsemconv.GenAIProviderNameKey.String(id.Provider),
	)
	dst = appendString(dst, otelsemconv.ServerAddressKey, id.ServerAddress)
	if id.ServerPort > 0 {
		dst = append(dst, otelsemconv.ServerPort(id.ServerPort))
	}
	dst = appendString(dst, otelsemconv.UserAgentOriginalKey, id.UserAgent)
	dst = appendString(dst, semconv.RunIDKey, id.RunID)
	if id.RunInferred {
		dst = append(dst, semconv.RunInferred(true))
	}
	dst = appendString(dst, otelsemconv.GenAIAgentNameKey, id.Agent)
	return id.AppendBody(dst)
}

// AppendBody appends to dst the attributes of id that come from the request's body.
func (id *Identity) AppendBody(dst []attribute.KeyValue) []attribute.KeyValue {
	dst = appendString(dst, otelsemconv.GenAIRequestModelKey, id.Model)
	dst = appendString(dst, otelsemconv.GenAIConversationIDKey, id.ConversationID)
	if id.Stream != classify.NotObserved {
		dst = append(dst, otelsemconv.GenAIRequestStream(id.Stream == classify.Yes))
	}
	return dst
}

// Request holds the result of one attempt: the facts that are judged, and facts that are
// recorded for readers only.
type Request struct {
	classify.Request

	FinishReasons []string // as recorded; [classify.Request.Finish] is their meaning
	ErrorType     string   // error.type; "" if nothing failed
	ErrorChain    []string

	Streams       bool // the response was read event by event; only then are the next two set
	Keepalives    int
	Bytes         int64         // of the response body; negative if there was none
	FirstChunk    time.Duration // from the start to the first semantic event of a stream; 0 if there was none
	Resends       int
	ResponseID    string
	ResponseModel string
	RequestID     string // the provider's own id for this request
	Usage         wire.Usage
	LatestNames   bool // the GenAI conventions' names of 0.1.0, not those of 1.41.0
}

// cacheWriteKey is the name since 0.1.0 of the GenAI conventions' cache_creation.
const cacheWriteKey = attribute.Key("gen_ai.usage.cache_write.input_tokens")

// SetFinish sets the finish reasons. Nil means not observed.
func (r *Request) SetFinish(reasons []string) {
	r.FinishReasons = reasons
	r.Finish = classify.ParseFinish(reasons)
}

// DeriveOutcome derives the facts that follow from the others. Call it after all others are set.
func (r *Request) DeriveOutcome() {
	if r.Ended != semconv.StreamEndUnset {
		r.Basis = classify.Typed
	}
	switch {
	case r.ErrorType != "":
		r.Failed = classify.Yes
	case r.Ended == semconv.StreamEndTerminalEvent:
		r.Failed = classify.No
	}
}

// Append appends the attributes of r to dst.
func (r *Request) Append(dst []attribute.KeyValue) []attribute.KeyValue {
	if r.Attempt > 0 {
		dst = append(dst, semconv.RequestAttempt(r.Attempt))
	}
	// An empty list was observed to be empty; an absent one was not observed.
	dst = appendList(dst, semconv.RequestProviderToolsKey, r.ProviderTools)
	if r.Background {
		dst = append(dst, semconv.RequestBackground(true))
	}
	dst = appendList(dst, semconv.HistoryToolCallsKey, r.HistoryCalls)
	dst = appendList(dst, semconv.HistoryToolOutputsKey, r.HistoryOutputs)
	if r.HistoryEndsWithOutputs {
		dst = append(dst, semconv.HistoryEndsWithOutputs(true))
	}
	dst = appendCount(dst, otelsemconv.GenAIRequestMaxTokensKey, r.MaxTokens)
	dst = r.appendStream(dst)
	dst = r.appendEnd(dst)
	return r.appendResponse(dst)
}

func (r *Request) appendStream(dst []attribute.KeyValue) []attribute.KeyValue {
	if r.Phase != semconv.PhaseUnset {
		dst = append(dst, semconv.StreamPhase(r.Phase))
	}
	if r.Ended != semconv.StreamEndUnset {
		dst = append(dst, semconv.StreamEndAttr(r.Ended))
	}
	if r.Unread {
		dst = append(dst, semconv.StreamUnread(true))
	}
	dst = appendCount(dst, semconv.StreamEventsKey, r.Events)
	dst = appendCount(dst, semconv.StreamTextChunksKey, r.Text)
	dst = appendCount(dst, semconv.StreamReasoningChunksKey, r.Reasoning)
	dst = appendCount(dst, semconv.StreamToolInputsStartedKey, r.ToolInputsStarted)
	dst = appendCount(dst, semconv.StreamToolInputsCompletedKey, r.ToolInputsCompleted)
	dst = appendCount(dst, semconv.StreamToolInputsInvalidKey, r.ToolInputsInvalid)
	dst = appendCount(dst, semconv.StreamToolCallsKey, r.ToolCalls)
	dst = appendCount(dst, semconv.StreamProviderToolsStartedKey, r.ProviderToolsStarted)
	if len(r.ProviderToolTypes) > 0 {
		dst = append(dst, semconv.StreamProviderTools(r.ProviderToolTypes...))
	}
	if len(r.CallIDs) > 0 {
		dst = append(dst, semconv.StreamToolCallIDs(r.CallIDs...))
	}
	if slices.ContainsFunc(r.CallNames, func(name string) bool { return name != "" }) {
		dst = append(dst, semconv.StreamToolCallNames(r.CallNames...))
	}
	if len(r.OpenCallIDs) > 0 {
		dst = append(dst, semconv.StreamOpenToolCallIDs(r.OpenCallIDs...))
	}
	if r.Bytes >= 0 {
		dst = append(dst, semconv.StreamBytes(int(r.Bytes)))
	}
	if r.Streams {
		dst = append(dst, semconv.StreamKeepalives(r.Keepalives))
		dst = appendSeconds(dst, otelsemconv.GenAIResponseTimeToFirstChunkKey, r.FirstChunk)
	}
	dst = appendSeconds(dst, semconv.StreamTimeToHeadersKey, r.TimeToHeaders)
	dst = appendSeconds(dst, semconv.StreamLastProgressKey, r.LastProgress)
	return appendSeconds(dst, semconv.StreamLongestGapKey, r.LongestGap)
}

func (r *Request) appendEnd(dst []attribute.KeyValue) []attribute.KeyValue {
	if r.Status > 0 {
		dst = append(dst, otelsemconv.HTTPResponseStatusCode(r.Status))
	}
	if r.Resends > 0 {
		dst = append(dst, otelsemconv.HTTPRequestResendCount(r.Resends))
	}
	dst = appendString(dst, otelsemconv.ErrorTypeKey, r.ErrorType)
	dst = appendString(dst, otelsemconv.NetworkProtocolVersionKey, r.Connection.Protocol)
	dst = appendFact(dst, semconv.ConnectionReusedKey, r.Connection.Reused)
	dst = appendSeconds(dst, semconv.ConnectionIdleKey, r.Connection.Idle)
	if r.Transport.Stage != semconv.TransportStageUnset {
		dst = append(dst, semconv.TransportStageAttr(r.Transport.Stage))
	}
	if r.Transport.Cause != semconv.TransportCauseUnset {
		dst = append(dst, semconv.TransportCauseAttr(r.Transport.Cause))
	}
	dst = appendString(dst, semconv.TransportCodeKey, r.Transport.Code)
	if len(r.ErrorChain) > 0 {
		dst = append(dst, semconv.TransportErrorChain(r.ErrorChain...))
	}
	if r.Provider.Kind != semconv.ProviderErrorKindUnset {
		dst = append(dst, semconv.ProviderErrorKindAttr(r.Provider.Kind), semconv.ProviderErrorInBand(r.Provider.InBand))
	}
	dst = appendString(dst, semconv.ProviderErrorCodeKey, r.Provider.Code)
	if r.Provider.History != semconv.ProviderErrorHistoryUnset {
		dst = append(dst, semconv.ProviderErrorHistoryAttr(r.Provider.History))
	}
	if r.Provider.Intermediary {
		dst = append(dst, semconv.ProviderErrorIntermediary(true))
	}
	dst = appendSeconds(dst, semconv.RetryAfterKey, r.RetryAfter)
	if r.Watchdog.Kind != semconv.WatchdogKindUnset {
		dst = append(dst, semconv.WatchdogKindAttr(r.Watchdog.Kind))
		dst = appendSeconds(dst, semconv.WatchdogLimitKey, r.Watchdog.Limit)
	}
	return appendAbort(dst, r.Abort)
}

func (r *Request) appendResponse(dst []attribute.KeyValue) []attribute.KeyValue {
	dst = appendList(dst, otelsemconv.GenAIResponseFinishReasonsKey, r.FinishReasons)
	dst = appendString(dst, otelsemconv.GenAIResponseIDKey, r.ResponseID)
	dst = appendString(dst, otelsemconv.GenAIResponseModelKey, r.ResponseModel)
	dst = appendString(dst, semconv.RequestIDKey, r.RequestID)
	cacheWrite := otelsemconv.GenAIUsageCacheCreationInputTokensKey
	if r.LatestNames {
		cacheWrite = cacheWriteKey
	}
	for _, u := range [...]struct {
		key attribute.Key
		n   int
	}{
		{otelsemconv.GenAIUsageInputTokensKey, r.Usage.Input},
		{otelsemconv.GenAIUsageOutputTokensKey, r.Usage.Output},
		{otelsemconv.GenAIUsageCacheReadInputTokensKey, r.Usage.CacheRead},
		{cacheWrite, r.Usage.CacheCreation},
		{otelsemconv.GenAIUsageReasoningOutputTokensKey, r.Usage.Reasoning},
	} {
		if u.n >= 0 {
			dst = append(dst, u.key.Int(u.n))
		}
	}
	return dst
}
