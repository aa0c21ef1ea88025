package retry

import (
	"context"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// Do calls f, which makes one model call under the context that it is given, until that succeeds
// or p allows no further attempt. F reads a stream to its end, and builds its request anew in
// each call: with the outputs of all tools that have run by then. The context ends when f returns,
// and f returns only when the tools that it started have ended.
//
// If f returns nil although the answer broke off, which some SDKs do, that is a failure. Nil after a
// model call without an answer is not: f has handled it. Any
// other result of f without a recorded failure is returned as it is. Giving up returns an
// [*Error].
//
// A model call that f makes after one that failed counts as an attempt: it is a retry of the SDK.
// None is sent beyond [Policy.Attempts] or [Policy.Elapsed], and the SDK's error then reads as that
// of a cancelled context, without being [context.Canceled]. Set the SDK's own retries to 0: they know the status only. The model calls of
// the tools of a run are not those of f.
//
// If f makes several model calls nonetheless, the last one decides whether it has failed, and what
// any of them showed or set off makes Do ask. Use [Run] for a turn of an agent.
//
// If f executes tools, start the run with [otelllm.StartRun] and each tool with
// [otelllm.StartTool]. Otherwise a tool call in an answer that broke off may have been executed,
// and Do asks. With [otelllm.WithToolsRecorded] it knows that none was.
func Do(ctx context.Context, p Policy, f func(ctx context.Context) error) error {
	l := newLoop(ctx, p)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // f may panic
	for {
		ctx, c := l.begin(ctx, true, nil)
		err := f(ctx)
		d := c.last.Diagnosis()
		refused := c.end()
		if refused == 0 && (!d.Failed() || err == nil && !c.brokeOff(d.Class)) {
			if err == nil {
				l.succeeded()
			}
			return err
		}
		this := failure{diagnosis: d, plan: c.last.Plan(), textShown: c.last.TextShown(), err: err}
		if err := l.failed(this, d.Retry.Safety == classify.SafeAutoRetry, refused); err != nil {
			return err
		}
	}
}
