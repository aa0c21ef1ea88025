package acceptance

import (
	"fmt"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// The run of case 24, which lasts longer than a max_hold of two seconds.
const (
	longRequests = 200
	longPause    = 20 * time.Millisecond // before each answer
	longCut      = 2                     // the index of the request that is cut
)

// longRun returns case 24: an agent that works for longer than spans may be held.
func longRun() Case {
	var script []faultyllm.Exchange
	for i := range longRequests - 1 {
		if i == longCut {
			script = append(script, faultyllm.Answer(faultyllm.Begin(), faultyllm.Reset()))
			continue
		}
		script = append(script, faultyllm.Answer(
			faultyllm.Pause(longPause),
			faultyllm.ToolCall(fmt.Sprintf("call_read_%d", i), readTool, `{"path":`, `"main.go"}`),
			faultyllm.Finish(faultyllm.ToolCalls),
		))
	}
	script = append(script, faultyllm.Answer(done...))

	want := Want{
		Outcome: semconv.RunOutcomeRecovered, Recovered: 1,
		Requests: make([]Verdict, longRequests),
		Tools:    make([]Verdict, longRequests-2), // the cut request and the last one call no tool
	}
	want.Requests[longCut] = interruption(semconv.CauseConnectionReset, semconv.PhaseResponseStarted, safe, semconv.RetryReasonNoOutput)
	return Case{
		Number: 24, Title: fmt.Sprintf("%d requests, one cut and retried", longRequests), Wire: faultyllm.Chat,
		Script: script, Want: want,
		Prepare: func(_ *World, s *Setup) {
			s.Agent.Retries = 1
			s.Agent.MaxTurns = longRequests
		},
	}
}
