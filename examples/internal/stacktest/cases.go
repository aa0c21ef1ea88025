package stacktest

import (
	"fmt"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/examples/faultyllm"
	"github.com/otelllm/otelllm-go/semconv"
)

// The cases that a stack may be silent about.
const (
	CleanEndInText = "clean end in a text"
	CleanEndInCall = "clean end in a tool call"
	CleanEndAtCall = "clean end after a tool call"
	ErrorInBand    = "error in band"
	Filtered       = "cut by a filter"
)

// testCase is a script and what comes of it where the stack reports what went wrong.
type testCase struct {
	name    string
	script  []faultyllm.Exchange
	cut     bool
	summary string // part of what is said of the run; empty: nothing is wrong with it
	safety  semconv.RetrySafety
	reason  semconv.RetryReason
	facts   []attribute.KeyValue // of the first request's span
	tools   int                  // executed

	trusting trusting
}

// trusting is what comes of it where the stack reports nothing.
type trusting struct {
	tools     int  // executed
	toolFails bool // on what there is of its input, and the run with it
	well      bool // the model answers in the end: the cut is made good
}

func (c *testCase) retry() string { return fmt.Sprintf("(%s: %s)", c.safety, c.reason) }

var (
	saying   = faultyllm.Text("It will ")
	half     = faultyllm.ToolInput("call_1", "forecast", `{"city":`)
	call     = faultyllm.ToolCall("call_1", "forecast", `{"city":`, `"Oslo"}`)
	asking   = faultyllm.Answer(faultyllm.Text("I look. "), call, faultyllm.Finish(faultyllm.ToolCalls))
	answered = faultyllm.Answer(faultyllm.Text("It will ", "snow."), faultyllm.Finish(faultyllm.Stop))
)

// cases are all cases, as they are over this wire.
func cases(w faultyllm.Wire) []testCase {
	all := []testCase{{
		name:   "whole",
		script: []faultyllm.Exchange{asking, answered},
		facts:  []attribute.KeyValue{semconv.StreamPhase(semconv.PhaseStreamEnd)},
		tools:  1,
	}, {
		name:   "refused",
		script: []faultyllm.Exchange{faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.RateLimited})}, summary: "rate limit",
		safety: semconv.RetrySafetySafeAutoRetry, reason: semconv.RetryReasonNoOutput,
		facts: []attribute.KeyValue{semconv.ProviderErrorKindAttr(semconv.ProviderErrorKindRateLimited)},
	}, {
		name:   Filtered,
		script: []faultyllm.Exchange{faultyllm.Answer(saying, faultyllm.Finish(faultyllm.ContentFilter))}, summary: "content filter",
		safety: semconv.RetrySafetyNoRetry, reason: semconv.RetryReasonNotTransient,
		facts: []attribute.KeyValue{semconv.StreamPhase(semconv.PhaseStreamEnd)},
	}, {
		name:   ErrorInBand,
		script: []faultyllm.Exchange{faultyllm.Answer(saying, faultyllm.InBand(faultyllm.Failure{Trouble: faultyllm.Overloaded}))},
		// The answer had begun to be shown.
		summary: "overloaded", safety: semconv.RetrySafetyUserConfirmedRetry, reason: semconv.RetryReasonVisibleOutput,
		facts: []attribute.KeyValue{semconv.ProviderErrorKindAttr(semconv.ProviderErrorKindOverloaded), semconv.StreamPhase(semconv.PhaseText)},
	}}
	// Where a cut in a call falls. Gemini has calls whole: of half a call nothing is
	// sent, and a whole one is ready without a word more.
	halfPhase, halfReason := semconv.PhaseToolInput, semconv.RetryReasonIncompleteToolInput
	wholePhase, wholeReason := halfPhase, halfReason
	onHalf := trusting{tools: 1, toolFails: true}
	if w == faultyllm.Gemini {
		halfPhase, halfReason = semconv.PhaseResponseStarted, semconv.RetryReasonNoOutput
		wholePhase, wholeReason = semconv.PhaseToolCallReady, semconv.RetryReasonToolCallNotExecuted
		onHalf = trusting{}
	}
	const safe, confirmed = semconv.RetrySafetySafeAutoRetry, semconv.RetrySafetyUserConfirmedRetry
	return append(all,
		reset("reset in a text", saying).at(semconv.PhaseText, confirmed, semconv.RetryReasonVisibleOutput),
		reset("reset in a tool call", half).at(halfPhase, safe, halfReason),
		cleanEnd(CleanEndInText, saying).at(semconv.PhaseText, confirmed, semconv.RetryReasonVisibleOutput),
		cleanEnd(CleanEndInCall, half).at(halfPhase, safe, halfReason).trusted(onHalf),
		// The input looks complete. Nothing says that it is, and that no second call was to come.
		cleanEnd(CleanEndAtCall, call).at(wholePhase, safe, wholeReason).trusted(trusting{tools: 1, well: true}),
	)
}

func reset(name string, step faultyllm.Step) testCase {
	return testCase{
		name: name, cut: true, script: []faultyllm.Exchange{faultyllm.Answer(step, faultyllm.Reset())}, summary: "connection reset",
		facts: []attribute.KeyValue{semconv.TransportCauseAttr(semconv.TransportCauseConnectionReset)},
	}
}

func cleanEnd(name string, step faultyllm.Step) testCase {
	return testCase{
		name: name, cut: true, script: []faultyllm.Exchange{faultyllm.Answer(step, faultyllm.CleanEnd()), answered}, summary: "ended early",
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
