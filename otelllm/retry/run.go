package retry

import (
	"context"
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/semconv"
)

// Run calls turn, which makes the model calls of one turn of an agent and executes its tools,
// until it succeeds or p allows no further attempt. Turn keeps its history outside of itself and
// goes on from it: its first model call of a further attempt carries the outputs of all tools
// that have run.
//
// Run never repeats what ran. A model call of a further attempt that lacks the output of a tool
// call which ran, and which may have had an effect, is not sent, and Run gives up with
// [semconv.RetryDecisionOutputLeftOut]; so is one whose history is not observed, as where the
// provider keeps it. Once the model has answered a call that has them all, later ones are not held
// back: the turn may shorten its history. If it is not known what ran, Run asks.
//
// If turn returns nil although the answer to its last model call broke off, it is a failure as well. Turns that go
// on at the same time each need a run of their own: what happens in one run counts for all its turns.
//
// The turn is the run of ctx, or one that Run starts. It starts no run of its own: what happens in a
// run within it is not repeated. Start the tools with [otelllm.StartTool]:
// otherwise only the histories of later model calls show what ran, and Run asks more often.
//
// Errors are those of [Do].
func Run(ctx context.Context, p Policy, turn func(ctx context.Context) error) (err error) {
	run := agentrun.Of(ctx)
	if run == nil {
		var own *otelllm.Run
		ctx, own = otelllm.StartRun(ctx, "")
		defer own.Done(&err)
		run = agentrun.Of(ctx)
	}
	l, first := newLoop(ctx, p), time.Now()
	l.ran = func(callID string) bool { return run.ExecutedSince(callID, first) }
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()       // turn may panic
	var outputs []output // that a model call has to carry, the newest last
	for {
		ctx, c := l.begin(ctx, false, outputs)
		began := time.Now()
		err := turn(ctx)
		d, since := run.Diagnosis(), run.PlanSince(began)
		refused := c.end()
		this := failure{diagnosis: d, plan: run.Plan(), err: err}
		switch {
		case refused != 0: // what the attempt before left behind still holds
			this.diagnosis, this.plan = l.failure.diagnosis, l.failure.plan
		case !modelFailed(d.Class, &since) || err == nil && !c.brokeOff(d.Class):
			if err == nil {
				l.succeeded()
			}
			return err
		}
		// What earlier attempts did was settled before this one: it was safe, or was confirmed.
		ran, known := outputsOf(&since)
		outputs = addOutputs(outputs, ran)
		if err := l.failed(this, known && goesOn(&since), refused); err != nil {
			return err
		}
	}
}

// modelFailed reports whether a model call of a turn failed: by the class of the run, and by the plan
// for what began since the turn did. An error of the turn is its own otherwise.
func modelFailed(run semconv.Class, since *classify.Plan) bool {
	switch run {
	case semconv.ClassUnset, semconv.ClassToolFailed, semconv.ClassApplicationError:
		return false
	default:
		return since.Send != semconv.ResumeSendUnset && (since.Send != semconv.ResumeSendNothing || since.Ask != semconv.RetryReasonUnset)
	}
}

// output is the output of a tool call that ran.
type output struct {
	id    string
	acted bool // the call may have had an effect
}

// addOutputs returns outputs with more of them at the end.
func addOutputs(outputs, more []output) []output {
	has := func(o output) bool {
		return slices.ContainsFunc(more, func(m output) bool { return m.id == o.id })
	}
	// The list is a new one: a model call that outlives its turn may still read the old one.
	return append(slices.DeleteFunc(slices.Clone(outputs), has), more...)
}

// goesOn reports whether a turn may go on without a question.
func goesOn(p *classify.Plan) bool {
	return p.Ask == semconv.RetryReasonUnset && (p.Send == semconv.ResumeSendAgain || p.Send == semconv.ResumeSendRest)
}

// outputsOf returns the outputs that exist of the calls that ran. It reports false if one that had
// an effect has no id.
func outputsOf(p *classify.Plan) (outputs []output, known bool) {
	known = true
	for _, c := range p.Ran {
		acted := c.Effect >= semconv.ToolEffectNonIdempotent
		switch {
		case c.Output == classify.OutputLost:
		case c.ID == "":
			known = known && !acted
		default:
			outputs = append(outputs, output{c.ID, acted})
		}
	}
	return outputs, known
}

// carries reports whether a history has the outputs of calls that had an effect, so that the model
// does not ask for them again. An id that stands among those of earlier turns was used again, and
// stands there once more. Of a history that lists as many as it can only the newest are
// known. It has to have the newest of all outputs then: half of the list, since calls that ran at
// the same time may stand in any order.
func carries(history []string, outputs []output, earlier []string) bool {
	full := len(history) >= classify.MaxIDs
	if full {
		outputs = outputs[max(0, len(outputs)-classify.MaxIDs/2):]
	}
	return !slices.ContainsFunc(outputs, func(o output) bool {
		return (o.acted || full) && count(history, o.id) <= count(earlier, o.id)
	})
}

func count(ids []string, id string) (n int) {
	for _, other := range ids {
		if other == id {
			n++
		}
	}
	return n
}
