package acceptance

import (
	"slices"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// Cases returns the acceptance cases 1 to 21, 23 and 24, with their variants, in order.
// The expectations are the design's table, written before the code was run.
func Cases() []Case {
	return ordered(
		interrupted(), connections(), history(), aborts(), providers(), watchdogs(), tools(), limits(), gateways(), dropped(),
		[]Case{longRun()},
	)
}

// WithKilled returns all acceptance cases, in order.
func WithKilled() []Case { return ordered(Cases(), Killed()) }

func ordered(groups ...[]Case) []Case {
	all := slices.Concat(groups...)
	slices.SortStableFunc(all, func(a, b Case) int { return a.Number - b.Number })
	return all
}

// Short names for values that the tables below repeat.
const (
	safe      = semconv.RetrySafetySafeAutoRetry
	confirmed = semconv.RetrySafetyUserConfirmedRetry
	never     = semconv.RetrySafetyNoRetry
)

// over returns one case per wire protocol.
func over(wires []faultyllm.Wire, build func(faultyllm.Wire) Case) []Case {
	var cases []Case
	for _, w := range wires {
		c := build(w)
		c.Wire = w
		cases = append(cases, c)
	}
	return cases
}

// withSessions returns the wire protocols of SDKs, and Realtime.
func withSessions() []faultyllm.Wire { return append(faultyllm.Wires(), faultyllm.Realtime) }

func everywhere(build func(faultyllm.Wire) Case) []Case { return over(faultyllm.Wires(), build) }

// failed returns the expectation for a run of one request that failed.
func failed(v Verdict) Want {
	return Want{Outcome: semconv.RunOutcomeFailed, Run: v, Requests: []Verdict{v}}
}

// toolNotRun is like failed, for a run whose summary says that the tool had not run.
func toolNotRun(v Verdict) Want {
	w := failed(v)
	w.Summary = semconv.SummaryKeyToolNotRun
	return w
}

// interruption returns the verdict on a stream that the transport broke.
func interruption(cause semconv.Cause, phase semconv.Phase, safety semconv.RetrySafety, reason semconv.RetryReason) Verdict {
	return Verdict{
		Class: semconv.ClassStreamInterrupted, Cause: cause, Phase: phase, Origin: semconv.OriginTransport,
		Safety: safety, Reason: reason,
	}
}

// The model's output in the scripts.
var (
	thinking = faultyllm.Reasoning("The test fails because ", "the loop stops one too early. ", "I should patch it.")
	saying   = faultyllm.Text("The loop stops ", "one too early. ", "I will patch it.")
	patching = faultyllm.ToolInput(patchCall, patchTool, `{"path":"main.go",`, `"patch":"- for i := 0; i <`)
	patch    = faultyllm.ToolCall(patchCall, patchTool, `{"path":"main.go",`, `"patch":"-<\n+<="}`)
	reading  = faultyllm.ToolCall(readCall, readTool, `{"path":`, `"main.go"}`)
	done     = []faultyllm.Step{faultyllm.Text("Patched, ", "and the test passes."), faultyllm.Finish(faultyllm.Stop)}
)

// The tools, and the ids of their calls.
const (
	patchTool = "apply_patch" // non-idempotent
	readTool  = "read_file"   // read-only
	patchCall = "call_patch_1"
	readCall  = "call_read_1"
)
