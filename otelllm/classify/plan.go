package classify

import (
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// Plan is what to know and what to do to go on after a run, or a model call of it, broke off:
// which of its tool calls ran, and what to send. It has ids and names, never content. The zero
// value says nothing.
//
// No list is longer than [MaxIDs]: the newest calls are in it. The calls of earlier runs of the conversation, whose outputs
// were in the history when this one began, are not listed.
type Plan struct {
	Ran        []PlannedCall // executed to an output or an error; one entry for each execution
	MayHaveRun []PlannedCall // executed in part, or not known; check what they did before they are called again
	NeverRan   []PlannedCall // known not to have been executed
	// More is true if calls that are not listed may have run, those aside whose outputs the model
	// received.
	More bool

	// Send is what to send to go on; unset if nothing can be said of the run. It is
	// [semconv.ResumeSendAgain] only if the verdict is [SafeAutoRetry].
	Send semconv.ResumeSend
	// Wait is how long the provider asked to wait before that; 0 for no time.
	Wait time.Duration
	// Ask is why a person has to decide before anything is sent, or for
	// [semconv.ResumeSendNothing] why sending more cannot help; unset: no person has to be asked.
	Ask semconv.RetryReason
}

// PlannedCall is a call of a tool in a [Plan].
type PlannedCall struct {
	ID     string             // "" if the producer does not record it
	Name   string             // of the tool; "" if it is not known or may not be shown
	Effect semconv.ToolEffect // unknown unless it was declared
	Output CallOutput         // of a call that ran
}

// CallOutput is what became of the output of a call that ran.
type CallOutput uint8

// The values of a [CallOutput].
const (
	OutputUnset     CallOutput = iota
	OutputDelivered            // the model received it
	OutputKept                 // it exists, and the model has not answered it: it is still to be sent
	OutputLost                 // it did not reach the model, and nothing shows that the application still has it
)

var callOutputNames = [...]string{"", "delivered", "kept", "lost"}

// String returns the value as it stands in the JSON of a [Plan], and "" if it is unset.
func (o CallOutput) String() string {
	if int(o) < len(callOutputNames) {
		return callOutputNames[o]
	}
	return ""
}

// PlanRun returns the plan to go on with a run, by the facts and the rules of [Judge].
//
// If the run may be repeated from its start, the plan says so. Otherwise it is about going on
// from the conversation: with the outputs that exist, and without calling again what ran. A
// person need not be asked if the run failed on a request, nothing may have run unnoticed, no
// output is lost, and each request that failed may be sent again.
//
// A producer that knows an output to be stored, such as a session file that has it, sets
// [Tool.Delivery] to [semconv.OutputDeliveryCached].
func PlanRun(r *Run) Plan {
	j := judges.Get().(*judge)
	defer j.release()
	var v Verdicts
	j.judgeInto(&v, r)
	p := j.planCalls()
	d := &v.Run
	if d.Outcome == semconv.RunOutcomeUnset {
		return p // nothing is claimed
	}
	p.decide(d, d.Class == semconv.ClassHistoryBroken || j.historyRefused())
	if p.Send == semconv.ResumeSendRest && failsRequests(d.Class) && r.Abort.Source == semconv.AbortSourceUnset {
		p.goOn(j.retryOfOpenFailures(&v, d.Retry))
	}
	return p
}

// PlanCall returns the plan to go on with one model call of several attempts, as [JudgeCall]
// judges it. The calls in it are those of the whole run.
func PlanCall(r *Run, attempts []int) Plan {
	j := judges.Get().(*judge)
	defer j.release()
	d := j.judgeCall(r, attempts)
	p := j.planCalls()
	p.decide(&d, d.Class == semconv.ClassHistoryBroken)
	return p
}

// decide says what to send after a failure with this diagnosis. Refused: the provider refused the
// history.
func (p *Plan) decide(d *Diagnosis, refused bool) {
	p.Send = semconv.ResumeSendNothing
	switch {
	case !d.Failed():
		return
	case d.Retry.Safety == SafeAutoRetry:
		p.Send, p.Wait = semconv.ResumeSendAgain, d.Retry.After
		return
	case refused:
		p.Send = semconv.ResumeSendRepairedHistory
	case d.Retry.Safety == NoRetry:
	case len(p.MayHaveRun) > 0 || p.More || p.anyLost():
		p.Send = semconv.ResumeSendRepairedHistory
	default:
		p.Send = semconv.ResumeSendRest
	}
	p.Wait, p.Ask = d.Retry.After, d.Retry.Reason
}

// failsRequests reports whether a run with this class failed on a request, which ended by itself.
func failsRequests(c semconv.Class) bool {
	switch c {
	case semconv.ClassConnectionFailed, semconv.ClassProviderError, semconv.ClassStreamInterrupted, semconv.ClassProtocolViolation,
		semconv.ClassEmptyCompletion, semconv.ClassWatchdogTimeout:
		return true
	default:
		return false
	}
}

// goOn takes the verdict on sending again the requests that failed in place of the one on
// repeating the run.
func (p *Plan) goOn(r Retry) {
	p.Ask = r.Reason
	if p.Wait = max(p.Wait, r.After); r.Safety == SafeAutoRetry {
		p.Ask = semconv.RetryReasonUnset
	}
}

// historyRefused reports whether the provider refused the history of a request, and no later
// request recovered from that.
func (j *judge) historyRefused() bool {
	for pos, i := range j.order {
		if j.classifications[i].class == semconv.ClassHistoryBroken && !j.recoveredLater(pos) {
			return true
		}
	}
	return false
}

func (p *Plan) anyLost() bool {
	for i := range p.Ran {
		if p.Ran[i].Output == OutputLost {
			return true
		}
	}
	return false
}

// tookAnswer reports whether the client took the answer of a request that failed for a complete one:
// a later history has the output of each of its calls. The answer is part of the conversation then,
// and is not asked for again.
func (j *judge) tookAnswer(pos int) bool {
	r := j.requestAt(int32(pos))
	n, known := r.readyCalls()
	if !known || n == 0 || n != len(r.CallIDs) || len(r.OpenCallIDs) > 0 || j.reusesIDs() {
		return false
	}
	for _, id := range j.index.numbersOf(pos, roleMade) {
		if !j.carriedAfter(j.index.uses(id, roleCarried), pos) {
			return false
		}
	}
	return true
}

// retryOfOpenFailures joins the verdicts on the requests that failed, that no later one recovered,
// and whose answers the client did not take. It returns that on the run if it is not a request that failed.
func (j *judge) retryOfOpenFailures(v *Verdicts, run Retry) Retry {
	var all Retry
	for pos, i := range j.order {
		d := &v.Requests[i]
		if !d.Failed() || j.superseded(pos) || j.recoveredLater(pos) || j.tookAnswer(pos) {
			continue
		}
		after := max(all.After, d.Retry.After)
		all = moreCareful(all, d.Retry)
		all.After = after
	}
	if all.Safety == semconv.RetrySafetyUnset {
		return run
	}
	return all
}
