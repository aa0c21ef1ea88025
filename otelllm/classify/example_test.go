package classify_test

import (
	"fmt"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// cut returns a run of one request whose connection was reset after some text.
func cut(text int) classify.Run {
	start := time.Date(2025, 11, 3, 3, 0, 0, 0, time.UTC)
	request := classify.Request{
		Start: start, End: start.Add(2 * time.Second),
		Basis: classify.Typed, Failed: classify.Yes,
		Status: 200, Phase: semconv.PhaseResponseStarted, Ended: semconv.StreamEndReadError,
		Transport: classify.Transport{Cause: semconv.TransportCauseConnectionReset},
		Finish:    classify.FinishMissing,
		// Counts are observed zeros and lists are empty, not nil: facts that were not
		// observed make the verdict more cautious.
		Text: classify.Counted(text), Reasoning: classify.Counted(0),
		ToolInputsStarted: classify.Counted(0), ToolInputsCompleted: classify.Counted(0), ToolCalls: classify.Counted(0),
		ProviderTools: []string{}, ProviderToolsStarted: classify.Counted(0),
		HistoryCalls: []string{}, HistoryOutputs: []string{},
		Events: classify.Counted(1 + text),
	}
	if text > 0 {
		request.Phase = semconv.PhaseText
	}
	return classify.Run{
		Start: start, End: request.End,
		Ended: classify.Yes, Failed: classify.Yes,
		AnnouncedRequests: classify.Counted(1), AnnouncedTools: classify.Counted(0), ToolsRecorded: classify.Yes,
		Requests: []classify.Request{request},
	}
}

// Judge returns a verdict on the run and on each of its parts.
func ExampleJudge() {
	run := cut(12)
	v := classify.Judge(&run)
	fmt.Println(v.Run.Outcome, v.Run.Class, v.Run.Cause, v.Run.Phase)
	fmt.Println(v.Run.Retry.Safety, v.Run.Retry.Reason)
	fmt.Println(v.Run.Summary)
	fmt.Println(v.Requests[0].Class, v.Requests[0].Confidence)
	// Output:
	// failed stream_interrupted connection_reset text
	// user_confirmed_retry visible_output
	// The connection to the model was lost (connection reset) while the assistant was still writing. Part of the answer had already been shown. Ask before retrying: the answer would be shown again from the start.
	// stream_interrupted high
}

// A caller that judges many runs can reuse the memory of the verdicts. It reads or copies
// them before it judges the next run.
func ExampleJudgeInto() {
	var v classify.Verdicts
	for _, text := range []int{0, 12} {
		run := cut(text)
		classify.JudgeInto(&v, &run)
		fmt.Println(v.Run.Phase, v.Run.Retry.Safety, v.Run.Retry.Reason)
	}
	// Output:
	// response_started safe_auto_retry no_output
	// text user_confirmed_retry visible_output
}
