package stacktest

import (
	"fmt"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// The cases in which a stack may report no error.
const (
	CleanEndInText = "clean end in a text"
	CleanEndInCall = "clean end in a tool call"
	CleanEndAtCall = "clean end after a tool call"
	ErrorInBand    = "error in band"
	Filtered       = "cut by a filter"
)

// testCase is a script and its result if the stack reports every error.
type testCase struct {
	name   string
	script []faultyllm.Exchange
	cut    bool
	class  semconv.Class // of the run; unset if nothing failed
	cause  semconv.Cause
	safety semconv.RetrySafety
	reason semconv.RetryReason
	facts  []attribute.KeyValue // on the first request's span
	tools  int                  // number of tools that are executed

	trusting trusting
}

// trusting is the result if the stack reports no error.
type trusting struct {
	tools     int  // number of tools that are executed
	toolFails bool // on the partial input, and the run fails with it
	well      bool // the model answers in the end, which repairs the cut
}

func (c *testCase) retry() string { return fmt.Sprintf("(%s: %s)", c.safety, c.reason) }

var (
	saying   = faultyllm.Text("It will ")
	half     = faultyllm.ToolInput("call_1", "forecast", `{"city":`)
	call     = faultyllm.ToolCall("call_1", "forecast", `{"city":`, `"Oslo"}`)
	asking   = faultyllm.Answer(faultyllm.Text("I look. "), call, faultyllm.Finish(faultyllm.ToolCalls))
	answered = faultyllm.Answer(faultyllm.Text("It will ", "snow."), faultyllm.Finish(faultyllm.Stop))
)

// cases returns all cases for this wire protocol.
func cases(w faultyllm.Wire) []testCase {
	all := []testCase{{
		name:   "whole",
		script: []faultyllm.Exchange{asking, answered},
		facts:  []attribute.KeyValue{semconv.StreamPhase(semconv.PhaseStreamEnd)},
		tools:  1,
	}, {
		name:   "refused",
		script: []faultyllm.Exchange{faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.RateLimited})},
		class:  semconv.ClassProviderError, cause: semconv.CauseRateLimited,
		safety: semconv.RetrySafetySafeAutoRetry, reason: semconv.RetryReasonNoOutput,
		facts: []attribute.KeyValue{semconv.ProviderErrorKindAttr(semconv.ProviderErrorKindRateLimited)},
	}, {
		name:   Filtered,
		script: []faultyllm.Exchange{faultyllm.Answer(saying, faultyllm.Finish(faultyllm.ContentFilter))},
		class:  semconv.ClassOutputLimited, cause: semconv.CauseContentFilter,
		safety: semconv.RetrySafetyNoRetry, reason: semconv.RetryReasonNotTransient,
		facts: []attribute.KeyValue{semconv.StreamPhase(semconv.PhaseStreamEnd)},
	}, {
		name:   ErrorInBand,
		script: []faultyllm.Exchange{faultyllm.Answer(saying, faultyllm.InBand(faultyllm.Failure{Trouble: faultyllm.Overloaded}))},
		// A part of the answer had been shown.
		class: semconv.ClassProviderError, cause: semconv.CauseOverloaded,
		safety: semconv.RetrySafetyUserConfirmedRetry, reason: semconv.RetryReasonVisibleOutput,
		facts: []attribute.KeyValue{semconv.ProviderErrorKindAttr(semconv.ProviderErrorKindOverloaded), semconv.StreamPhase(semconv.PhaseText)},
	}}
	// The phase of a cut in a call. Gemini sends only complete calls: of half a call it sends
	// nothing.
	halfPhase, halfReason := semconv.PhaseToolInput, semconv.RetryReasonIncompleteToolInput
	onHalf := trusting{tools: 1, toolFails: true}
	if w == faultyllm.Gemini {
		halfPhase, halfReason = semconv.PhaseResponseStarted, semconv.RetryReasonNoOutput
		onHalf = trusting{}
	}
	const safe, confirmed = semconv.RetrySafetySafeAutoRetry, semconv.RetrySafetyUserConfirmedRetry
	return append(all,
		reset("reset in a text", saying).at(semconv.PhaseText, confirmed, semconv.RetryReasonVisibleOutput),
		reset("reset in a tool call", half).at(halfPhase, safe, halfReason),
		cleanEnd(CleanEndInText, saying).at(semconv.PhaseText, confirmed, semconv.RetryReasonVisibleOutput),
		cleanEnd(CleanEndInCall, half).at(halfPhase, safe, halfReason).trusted(onHalf),
		// The input's JSON is closed, so a client may execute the call. No event confirms that no
		// second call was to follow.
		cleanEnd(CleanEndAtCall, call).at(semconv.PhaseToolCallReady, safe, semconv.RetryReasonToolCallNotExecuted).trusted(trusting{tools: 1, well: true}),
	)
}

func reset(name string, step faultyllm.Step) testCase {
	return testCase{
		name: name, cut: true, script: []faultyllm.Exchange{faultyllm.Answer(step, faultyllm.Reset())},
		class: semconv.ClassStreamInterrupted, cause: semconv.CauseConnectionReset,
		facts: []attribute.KeyValue{semconv.TransportCauseAttr(semconv.TransportCauseConnectionReset)},
	}
}

func cleanEnd(name string, step faultyllm.Step) testCase {
	return testCase{
		name: name, cut: true, script: []faultyllm.Exchange{faultyllm.Answer(step, faultyllm.CleanEnd()), answered},
		class: semconv.ClassStreamInterrupted, cause: semconv.CauseCleanEOF,
		facts: []attribute.KeyValue{semconv.TransportCauseAttr(semconv.TransportCauseCleanEOF)},
	}
}

func (c testCase) at(p semconv.Phase, safety semconv.RetrySafety, reason semconv.RetryReason) testCase {
	c.facts = append(c.facts, semconv.StreamPhase(p))
	c.safety, c.reason = safety, reason
	return c
}

func (c testCase) trusted(tr trusting) testCase {
	c.trusting = tr
	return c
}
