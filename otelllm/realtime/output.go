package realtime

import (
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// sentOutput is the output of a tool that was sent with an id by which the server
// may refuse it.
type sentOutput struct {
	eventID, callID string
	at              time.Time
	call            madeCall // its zero value: no response is known to have made it
}

// responseActive is the code of the error by which the server refuses to begin a response while
// another one is open. It often names no event.
// https://github.com/openai/openai-agents-python/issues/1466
const responseActive = "conversation_already_has_active_response"

// refused takes an error of the server. It concerns a response, or a tool's output, only if
// it names the event that requested the one or carried the other, or if its code says so of the
// oldest response that was requested and did not begin. Most errors do not.
func (c *conversation) refused(f *wire.Frame, now time.Time) []func() {
	oldest := f.EventID == "" && f.Err != nil && f.Err.Code == responseActive
	if f.EventID == "" && !oldest {
		return nil
	}
	if i := slices.IndexFunc(c.asked, func(r *response) bool { return oldest || r.eventID == f.EventID }); i >= 0 {
		r := c.asked[i]
		c.asked = slices.Delete(c.asked, i, i+1)
		return r.end(record.Ending{Reason: record.EOF, Refusal: f.Err}, now)
	}
	if oldest {
		return nil
	}
	if i := slices.IndexFunc(c.refusable, func(o sentOutput) bool { return o.eventID == f.EventID }); i >= 0 {
		o := c.refusable[i]
		c.refusable = slices.Delete(c.refusable, i, i+1)
		return c.outputRefused(&o, now)
	}
	return nil
}

// outputRefused removes an output of a call from the conversation, which may hold another
// output of the same call.
func (c *conversation) outputRefused(o *sentOutput, now time.Time) []func() {
	callID := o.callID
	if i := slices.Index(c.outputs, callID); i >= 0 {
		c.outputs = slices.Delete(c.outputs, i, i+1)
	}
	if slices.Contains(c.outputs, callID) {
		return nil
	}
	for _, r := range c.asked {
		r.rec.RemoveHistoryOutput(callID)
	}
	for _, r := range c.open {
		r.rec.RemoveHistoryOutput(callID)
	}
	tool := agentrun.Of(c.ctx).ToolOf(callID)
	if tool == nil && o.call.id != "" {
		return c.observe(o.call, now, semconv.OutputDeliveryFailed, errorTypeOf(outputRefused{}))
	}
	tool.OutputRefused(outputRefused{})
	return nil
}

// accepted takes that r has begun, which an event of the client requested. A server handles
// events in order, so it cannot refuse any more what was sent before that event.
func (c *conversation) accepted(r *response) (after []func()) {
	c.refusable = slices.DeleteFunc(c.refusable, func(o sentOutput) bool {
		if o.at.After(r.rec.Start()) {
			return false
		}
		if tool := agentrun.Of(c.ctx).ToolOf(o.callID); tool != nil || o.call.id == "" || c.run == nil {
			after = append(after, tool.OutputAccepted)
		} else {
			after = append(after, c.observe(o.call, o.at, semconv.OutputDeliverySent, "")...)
		}
		return true
	})
	return after
}

// outputRefused is the error of a delivery that the server refused. Its type is
// what is recorded.
type outputRefused struct{}

func (outputRefused) Error() string { return "otelllm: the server refused the tool's output" }
