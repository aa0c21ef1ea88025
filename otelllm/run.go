package otelllm

import (
	"context"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
)

// Run is one agent turn or run: the parent of its requests and tools. It is safe
// for concurrent use, and a nil *Run does nothing.
type Run struct{ run *agentrun.Run }

// StartRun starts a run of an agent and its span, `invoke_agent {agent}`.
// Requests and tools under the returned context belong to it. Agent is recorded, at
// most 256 bytes.
//
// Where runs are nested they belong to the innermost, and what it did counts for every
// run around it: a repetition of the outer run repeats it.
//
// End the run when it is over, also when nothing records it.
func StartRun(ctx context.Context, agent string, opts ...RunOption) (context.Context, *Run) {
	return startRun(ctx, global, agent, opts)
}

func startRun(ctx context.Context, i *Instrumentation, agent string, opts []RunOption) (context.Context, *Run) {
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

// End ends the run, with the error that it ended on or nil. Only the type of err
// is recorded. An err that reports a deliberate end (an [*AbortError], or
// the cancellation of a context) is recorded as an abort and not as an error.
// Calls after the first do nothing. A run that may panic is better ended by [Run.Done].
//
// Requests of the run that are still open count as begun: a reader of the spans
// knows that they are to come.
func (r *Run) End(err error) {
	if r != nil {
		r.run.End(err)
	}
}

// Done is [Run.End] as a deferred call: it ends the run with *err, and with a panic of
// the function that defers it. The panic goes on with the same value.
//
//	func turn(ctx context.Context) (err error) {
//		ctx, run := otelllm.StartRun(ctx, "coder")
//		defer run.Done(&err)
//
// A panic is recorded as a failure of the error.type "panic". A nil err is one that is
// nil. Done has to be deferred itself, not called by a deferred function.
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

// Diagnosis judges the run on what has been seen of it so far, by the same rules
// by which the Collector judges its spans. It may be called while the run is
// open, to decide about a retry, and after its end. It is the zero value for a
// nil run.
//
// A request counts once its stream has ended, or once the protocol's last word has
// been read. Of one that is still open counts what it has done by now: the text that it
// has shown, the calls that it has handed over. What the runs within this one did counts
// too.
func (r *Run) Diagnosis() classify.Diagnosis {
	if r == nil {
		return classify.Diagnosis{}
	}
	return r.run.Diagnosis()
}
