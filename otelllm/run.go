package otelllm

import (
	"context"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
)

// Run is one agent turn or run: the parent of its requests and tools. It is safe
// for concurrent use, and a nil *Run does nothing.
type Run struct{ run *agentrun.Run }

// StartRun starts a run of an agent and its span, `invoke_agent {agent}`. Requests and
// tools under the returned context belong to the run. At most 256 bytes of agent are
// recorded.
//
// Without it, runs are inferred from the requests, as [Transport] describes. StartRun adds
// what requests do not show: when the agent has finished, the error that it ended on, and
// with [StartTool] the tools and their effects.
//
// If runs are nested, requests and tools belong to the innermost one. Their effects count
// for every run around it: repeating the outer run repeats them.
//
// Always end the run, even if nothing records it.
func StartRun(ctx context.Context, agent string, opts ...RunOption) (context.Context, *Run) {
	return global.StartRun(ctx, agent, opts...)
}

// StartRun is [StartRun] with the options of i.
func (i *Instrumentation) StartRun(ctx context.Context, agent string, opts ...RunOption) (context.Context, *Run) {
	c := configure(i, opts, RunOption.applyRun)
	ctx, run := agentrun.Start(ctx, agentrun.Config{
		Agent:          agent,
		ConversationID: c.conversationID,
		TracerProvider: c.tracerProvider,
		Verdicts:       c.verdicts,
		ToolsRecorded:  c.toolsRecorded,
		Live:           &i.open,
	})
	return ctx, &Run{run}
}

// End ends the run with the error that it ended on, or nil. Only the type of err is
// recorded. If err reports a deliberate end (an [*AbortError], or the cancellation of the
// context that [StartRun] was given), it is recorded as an abort and not as an error. The
// cancellation of a context below that one may be cleanup after a failure, so it is a
// failure of the run. Calls after the first do nothing. Use [Run.Done] for a run that may
// panic.
//
// Requests of the run that are still open count as begun, so a reader of the spans knows
// that they are to come.
func (r *Run) End(err error) {
	if r != nil {
		r.run.End(err)
	}
}

// Done is [Run.End] for use with defer. It ends the run with *err, or with the panic of
// the function that defers it, and panics again with the same value.
//
//	func turn(ctx context.Context) (err error) {
//		ctx, run := otelllm.StartRun(ctx, "coder")
//		defer run.Done(&err)
//
// A panic is recorded as a failure with the error.type "panic". A nil pointer counts as a
// nil error. Defer Done itself: it cannot see a panic if a deferred function calls it.
func (r *Run) Done(err *error) {
	if r == nil {
		return
	}
	if p := recover(); p != nil {
		r.run.EndPanic()
		panic(p)
	}
	r.run.End(errorAt(err))
}

// errorAt returns *err, and nil for a nil err.
func errorAt(err *error) error {
	if err == nil {
		return nil
	}
	return *err
}

// Diagnosis judges the run on what has been seen of it so far, by the rules by which the
// Collector judges its spans. Call it while the run is open, to decide about a retry, or
// after its end. It is the zero value for a nil run.
//
// A request counts as ended once its stream has ended, or once the protocol's terminal
// event has been read. An open request counts with what it has done by now: the text that
// it has shown, and the calls that it has handed over. The effects of the runs within this
// one count too.
func (r *Run) Diagnosis() classify.Diagnosis {
	if r == nil {
		return classify.Diagnosis{}
	}
	return r.run.Diagnosis()
}

// Plan says how to go on with the run after a failure: which of its tool calls ran, which may have
// run, and what to send. It rests on what has been seen so far, as Diagnosis does, and costs as
// much. It is the zero value for a nil run.
func (r *Run) Plan() classify.Plan {
	if r == nil {
		return classify.Plan{}
	}
	return r.run.Plan()
}
