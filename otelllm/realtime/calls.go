package realtime

import (
	"slices"
	"time"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/netcause"
	"github.com/otelllm/otelllm-go/semconv"
)

// madeCall is a call that a response made.
type madeCall struct {
	id, name string
	at       time.Time // when the response ended
	by       *response
}

// answered forgets a call that has an output. It reports false if no response is known to have
// made it.
func (c *conversation) answered(id string) (call madeCall, known bool) {
	i := slices.IndexFunc(c.made, func(m madeCall) bool { return m.id == id })
	if i < 0 {
		return madeCall{}, false
	}
	call = c.made[i]
	c.made = slices.Delete(c.made, i, i+1)
	return call, true
}

// observe records that a call was executed which the application has not recorded, by what became
// of its output.
func (c *conversation) observe(call madeCall, now time.Time, d semconv.OutputDelivery, errorType string) []func() {
	run := agentrun.Of(c.ctx)
	if run == nil {
		return nil
	}
	return []func(){func() {
		run.Observe(agentrun.Observed{CallID: call.id, Name: call.name, From: call.at, To: now, Delivery: d, DeliveryError: errorType})
	}}
}

func errorTypeOf(err error) string {
	if err == nil {
		return otelsemconv.ErrorTypeOther.Value.AsString()
	}
	return netcause.RootType(err)
}

// startRun starts the session's own run with its first response, unless it is in a run.
func (c *conversation) startRun(now time.Time) {
	if c.last == nil && agentrun.Of(c.ctx) == nil && c.with.Inferred.Infers(c.ctx) {
		c.ctx, c.run = c.with.Inferred.StartSession(c.ctx, now, c.client)
	}
}

// endRun ends the session's own run, and says which calls of its last response have no output. If
// another response followed a call, that one's history shows whether it had the output.
func (c *conversation) endRun(now time.Time) (after []func()) {
	run := agentrun.Of(c.ctx)
	if run == nil || c.last == nil {
		return nil
	}
	unanswered := false
	for _, call := range c.made {
		if call.by == c.last && run.ToolOf(call.id) == nil {
			unanswered = true
			after = append(after, func() {
				run.Observe(agentrun.Observed{CallID: call.id, Name: call.name, From: call.at, To: now, Unanswered: true})
			})
		}
	}
	c.made = nil
	if c.run == nil {
		return after
	}
	last, own := c.last, c.run
	c.run = nil
	return append(after, func() {
		facts := last.rec.Outcome()
		end := agentrun.InferredEnd{At: now, By: semconv.RunEndAnswer}
		switch {
		case classify.Failed(&facts):
			end.By, end.Last, end.ErrorType = semconv.RunEndFailure, &facts, last.rec.ErrorType()
		case unanswered:
			end.By, end.ErrorType = semconv.RunEndFailure, semconv.CauseNeverAnswered.String()
		}
		own.EndInferred(end)
	})
}
