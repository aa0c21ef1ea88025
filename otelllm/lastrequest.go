package otelllm

import (
	"context"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
)

// LastRequest gives the diagnosis of one model call: of what began under the context of
// [WithLastRequest]. A nil *LastRequest has none. It is safe for concurrent
// use.
type LastRequest struct{ last *agentrun.LastRequest }

// WithLastRequest returns a context for one model call, and a LastRequest to read the
// call's diagnosis from afterwards. It is for a loop that sends the same request again:
// the diagnosis of the request says whether that is safe, while [Run.Diagnosis] is about
// the whole run. If the SDK makes several attempts, the diagnosis says what failed in the
// last one, and its retry is as safe as that of the least safe attempt: text that an earlier
// one showed would be shown again. What a tool of a run asks a model for, under the context of
// [StartTool], is not part of the call during which the tool runs. The transport observes such a call even if its span is not
// sampled.
func WithLastRequest(ctx context.Context) (context.Context, *LastRequest) {
	ctx, last := agentrun.WithLastRequest(ctx)
	return ctx, &LastRequest{last}
}

// Diagnosis judges the call on what has been seen so far of its attempts and of its run. It
// is the zero value, whose retry is not safe, if the last attempt did not fail, is still
// going on, or was never made.
func (l *LastRequest) Diagnosis() classify.Diagnosis {
	if l == nil {
		return classify.Diagnosis{}
	}
	return l.last.Diagnosis()
}

// Plan says how to go on with the call after a failure: which tool calls of its run ran, which may
// have run, and what to send. It rests on what has been seen so far, as Diagnosis does. It is the
// zero value while the last attempt is going on, or if none was made.
func (l *LastRequest) Plan() classify.Plan {
	if l == nil {
		return classify.Plan{}
	}
	return l.last.Plan()
}
