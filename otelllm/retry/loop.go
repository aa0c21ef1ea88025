package retry

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// loop calls a function until it succeeds, or the loop gives up.
type loop struct {
	Policy
	ctx   context.Context
	began time.Time

	failure failure // the last one

	// ran reports whether a call was executed since the loop began, by its id. Do does not need it.
	ran func(callID string) bool

	mu       sync.Mutex
	host     string   // of the last model call
	earlier  []string // the outputs of earlier turns in the history of the first model call, by ids
	attempts int      // see Policy.Attempts
	retries  int      // tokens that were taken
}

// failure is an attempt that failed.
type failure struct {
	diagnosis classify.Diagnosis
	plan      classify.Plan
	textShown bool
	err       error // that the function returned
	attempts  int   // how many there were by then
}

func newLoop(ctx context.Context, p Policy) *loop {
	p = p.withDefaults()
	return &loop{Policy: p, ctx: ctx, began: p.Now()}
}

// call is one call of the function.
type call struct {
	loop   *loop
	cancel context.CancelCauseFunc
	last   *agentrun.LastRequest // its model calls
	// once: a model call that begins after one that failed is a retry of the SDK, and counts as an
	// attempt. Otherwise the call of the function is the attempt.
	once bool

	// The following are guarded by loop.mu.
	outputs []output // that a model call has to carry, until the model has answered one
	carried bool     // one was sent
	sent    int
	refused refusal // unset: every model call was sent
}

// begin returns a call of the function and its context, below ctx.
func (l *loop) begin(ctx context.Context, once bool, outputs []output) (context.Context, *call) {
	c := &call{loop: l, once: once, outputs: outputs}
	ctx, c.cancel = context.WithCancelCause(ctx)
	ctx, c.last = agentrun.WithLastRequest(ctx)
	return agentrun.WithAdmission(ctx, c.admit), c
}

// end ends the call. It returns why a model call was not sent; unset if every one was.
func (c *call) end() semconv.RetryDecision {
	c.cancel(context.Canceled)
	l := c.loop
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.once || c.sent == 0 {
		l.attempts++ // it is an attempt even if no transport saw it
	}
	return c.refused.decision()
}

// admit decides whether a model call is sent. The context of one that is not is cancelled, so
// that the SDK does not try again.
func (c *call) admit(host string, historyOutputs []string) error {
	l := c.loop
	l.mu.Lock()
	defer l.mu.Unlock()
	again := c.sent > 0 && c.last.Failed()
	if c.refused == 0 {
		c.refused = refusal(c.refuse(host, historyOutputs, again))
	}
	if c.refused != 0 {
		c.cancel(c.refused)
		return c.refused
	}
	if l.host == "" && l.ran != nil {
		l.earlier = slices.DeleteFunc(slices.Clone(historyOutputs), l.ran)
	}
	if l.host = host; c.once && (c.sent == 0 || again) {
		l.attempts++
	}
	c.sent++
	return nil
}

// refuse returns why a model call is not sent, or unset. Again: the one before failed. L is locked.
func (c *call) refuse(host string, historyOutputs []string, again bool) semconv.RetryDecision {
	l := c.loop
	if c.carried && !again {
		c.outputs = nil
	}
	if len(c.outputs) > 0 && !carries(historyOutputs, c.outputs, l.earlier) {
		return semconv.RetryDecisionOutputLeftOut
	}
	c.carried = true
	if !c.once || !again {
		return semconv.RetryDecisionUnset
	}
	reportSDKRetries()
	switch {
	case l.attempts >= l.Attempts:
		return semconv.RetryDecisionAttemptsSpent
	case l.Now().Sub(l.began) > l.Elapsed:
		return semconv.RetryDecisionTimeSpent
	case !l.Budget.take(host):
		return semconv.RetryDecisionHostSpent
	}
	l.retries++
	return semconv.RetryDecisionUnset
}

// reportSDKRetries says once that there are two loops.
var reportSDKRetries = onceReportSDKRetries()

func onceReportSDKRetries() func() {
	return sync.OnceFunc(func() {
		telemetry.Guard(func() { // the application's handler
			otel.Handle(errors.New("otelllm/retry: the SDK retries model calls by itself within Do; they count as attempts, but wait and decide by the SDK's rules. Set its own retries to 0"))
		})
	})
}

// succeeded returns the tokens of the retries.
func (l *loop) succeeded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Budget.succeeded(l.host, l.retries)
}

// failed decides what to do after a failure, and waits. It returns nil if the function is to be
// called again. Safe: that needs no question. Refused: a model call was not sent.
func (l *loop) failed(f failure, safe bool, refused semconv.RetryDecision) error {
	l.mu.Lock()
	host, attempts := l.host, l.attempts
	l.mu.Unlock()
	f.attempts = attempts
	l.failure = f
	d := &f.diagnosis
	wait := l.wait(attempts, d.Retry.After)
	decision := refused
	switch {
	case l.ctx.Err() != nil:
		return l.giveUp(semconv.RetryDecisionCancelled, f.err, l.ctx.Err())
	case refused != semconv.RetryDecisionUnset:
		if f.err != nil {
			f.err = interrupted{f.err}
		}
	case declinedWithin(f.err):
		decision = semconv.RetryDecisionDeclined
	case d.Retry.Safety == classify.NoRetry:
		decision = semconv.RetryDecisionNoRetry
	case attempts >= l.Attempts:
		decision = semconv.RetryDecisionAttemptsSpent
	case l.Now().Add(wait).Sub(l.began) > l.Elapsed:
		decision = semconv.RetryDecisionTimeSpent
	case !l.Budget.has(host):
		decision = semconv.RetryDecisionHostSpent
	case safe:
		decision = semconv.RetryDecisionAgain
	case l.Ask == nil:
		decision = semconv.RetryDecisionNoHook
	case l.ask(Question{*d, f.plan, attempts, f.textShown, wait, f.err}):
		decision = semconv.RetryDecisionConfirmed
	default:
		decision = semconv.RetryDecisionDeclined
	}
	if err := l.ctx.Err(); err != nil { // while it asked
		return l.giveUp(semconv.RetryDecisionCancelled, f.err, err)
	}
	if decision != semconv.RetryDecisionAgain && decision != semconv.RetryDecisionConfirmed {
		return l.giveUp(decision, f.err)
	}
	if !l.Budget.take(host) { // another caller took the last one
		return l.giveUp(semconv.RetryDecisionHostSpent, f.err)
	}
	l.mu.Lock()
	l.retries++
	l.mu.Unlock()
	l.record(decision, wait)
	if err := l.Sleep(l.ctx, wait); err != nil {
		return l.giveUp(semconv.RetryDecisionCancelled, f.err, err)
	}
	return nil
}

// ask asks the application. The time that it takes to answer does not count.
func (l *loop) ask(q Question) bool {
	began := l.Now()
	yes := l.Ask(l.ctx, q)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began = l.began.Add(l.Now().Sub(began))
	return yes
}

// declinedWithin reports whether the application was asked within the function, and declined.
func declinedWithin(err error) bool {
	var inner *Error
	return errors.As(err, &inner) && inner.Decision == semconv.RetryDecisionDeclined
}

// giveUp returns the error of the last failure, which wraps those that are not nil.
func (l *loop) giveUp(decision semconv.RetryDecision, wrapped ...error) error {
	l.record(decision, 0)
	e := &Error{Diagnosis: l.failure.diagnosis, Plan: l.failure.plan, Decision: decision, Attempts: l.failure.attempts}
	for _, err := range wrapped {
		if err != nil {
			e.wrapped = append(e.wrapped, err)
		}
	}
	return e
}

// record writes a decision onto the span of the context.
func (l *loop) record(decision semconv.RetryDecision, wait time.Duration) {
	telemetry.Guard(func() {
		span := trace.SpanFromContext(l.ctx)
		if !span.IsRecording() {
			return
		}
		d := &l.failure.diagnosis
		attributes := []attribute.KeyValue{
			semconv.RetryDecisionAttr(decision), semconv.RequestAttempt(l.failure.attempts), semconv.FailureClass(d.Class),
			semconv.RetrySafetyAttr(d.Retry.Safety), semconv.RetryReasonAttr(d.Retry.Reason), semconv.ResumeSendAttr(l.failure.plan.Send),
		}
		if decision == semconv.RetryDecisionAgain || decision == semconv.RetryDecisionConfirmed {
			attributes = append(attributes, semconv.RetryWait(wait.Seconds()))
		}
		span.AddEvent(semconv.EventRetryDecided, trace.WithAttributes(attributes...))
	})
}

// brokeOff reports whether the function has failed although it returned no error, by the class of
// the failure: SDKs do not report every answer that broke off. What the model cut short by a limit,
// and what the application ended itself, is no failure, and a model call that was not answered has
// been handled.
func (c *call) brokeOff(class semconv.Class) bool {
	switch class {
	case semconv.ClassConnectionFailed, semconv.ClassProviderError, semconv.ClassStreamInterrupted, semconv.ClassProtocolViolation,
		semconv.ClassEmptyCompletion, semconv.ClassWatchdogTimeout:
		return c.last.BrokeOff()
	default:
		return false
	}
}
