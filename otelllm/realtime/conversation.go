package realtime

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/inferred"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/setup"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// conversation is the state of a Session. It never refers to the Session, so that the
// Session can be garbage collected.
type conversation struct {
	ctx    context.Context
	with   setup.Setup
	client inferred.Client // of the run, if it is inferred

	userAgent string // see [httpcall.UserAgent]

	mu sync.Mutex
	// Everything below is guarded by mu.
	wire  *wire.Realtime
	asked []*response               // requested and not begun, the oldest first
	open  map[*wire.State]*response // begun and not done
	// The ids in the conversation. The session began the conversation, so it has seen all
	// of it, until something is removed.
	calls, outputs []string
	changed        bool          // something was removed, or changed otherwise
	refusable      []sentOutput  // those of the last 64 that the server may still refuse
	closed         bool          // no response may begin, since nothing would end it
	made           []madeCall    // the last 64 calls that have no output
	last           *response     // the one that began last
	run            *agentrun.Run // the session's own; nil: it is in a declared run, or has none
}

// do lets f look at a frame. The functions that f returns are called when mu is free
// again: they write spans and update the run.
func (c *conversation) do(f func(*conversation, time.Time) []func()) {
	now := time.Now()
	telemetry.Locked(&c.mu, func() []func() { return f(c, now) })
}

// counted returns f, or an empty frame if f would begin a response after the end.
func (c *conversation) counted(f wire.Frame) wire.Frame {
	if c.closed && (f.Kind == wire.FrameCreateSent || f.Kind == wire.FrameBegan) {
		return wire.Frame{}
	}
	return f
}

func (c *conversation) received(f wire.Frame, now time.Time) []func() {
	switch f.Kind {
	case wire.FrameBegan:
		after := c.makeRoom(now)
		r := c.oldestAsked()
		if r == nil {
			r = c.begin(f.ProviderTools, now)
			r.unasked = true
		} else {
			after = append(after, c.accepted(r)...)
		}
		c.open[f.State] = r
		r.rec.Follow(f.State, c.wire.Model(), now)
		return after
	case wire.FrameProgress:
		if r := c.open[f.State]; r != nil {
			r.rec.Follow(f.State, c.wire.Model(), now)
		}
	case wire.FrameDone:
		r := c.open[f.State]
		if r == nil {
			return nil
		}
		delete(c.open, f.State)
		for i := range f.State.Calls {
			if call := &f.State.Calls[i]; call.Ready && call.ID != "" {
				c.calls = remember(c.calls, call.ID)
				c.made = remember(c.made, madeCall{call.ID, call.Name, now, r})
			}
		}
		r.rec.Follow(f.State, c.wire.Model(), now)
		return r.end(record.Ending{Reason: record.EOF, Abort: c.cancelled(&f, now)}, now)
	case wire.FrameError:
		return c.refused(&f, now)
	case wire.FrameHistoryChanged:
		c.changed = true
	}
	return nil
}

func (c *conversation) sent(f wire.Frame, now time.Time) []func() {
	switch f.Kind {
	case wire.FrameCreateSent:
		// Where one goroutine writes and another reads, a response may be reported before
		// what asked for it. A server refuses to begin a second one beside it.
		for _, r := range c.open {
			if r.unasked {
				r.unasked, r.eventID = false, f.EventID
				return c.accepted(r)
			}
		}
		r := c.begin(f.ProviderTools, now)
		r.eventID = f.EventID
		r.rec.RequestWritten(now)
		c.asked = append(c.asked, r)
		if len(c.asked) > maxAsked { // no answers come
			lost := c.asked[0]
			c.asked = slices.Delete(c.asked, 0, 1)
			return lost.end(record.Ending{Reason: record.EOF}, now)
		}
	case wire.FrameOutputSent:
		c.outputs = remember(c.outputs, f.CallID)
		tool := agentrun.Of(c.ctx).ToolOf(f.CallID)
		call, known := c.answered(f.CallID)
		if f.EventID == "" { // nothing could name it
			if tool == nil && known && c.run != nil {
				return c.observe(call, now, semconv.OutputDeliverySent, "")
			}
			return []func(){tool.RecordOutputSent}
		}
		c.refusable = remember(c.refusable, sentOutput{f.EventID, f.CallID, now, call})
		tool.OutputWritten() // now, before the refusal is read: no span leaves by it
	case wire.FrameHistoryChanged:
		c.changed = true
	}
	return nil
}

func (c *conversation) unsent(f wire.Frame, err error, now time.Time) []func() {
	switch f.Kind {
	case wire.FrameCreateSent:
		r := c.begin(f.ProviderTools, now)
		return r.end(record.Ending{Reason: record.Failed, Err: err, Stage: semconv.TransportStageWrite}, now)
	case wire.FrameOutputSent:
		tool := agentrun.Of(c.ctx).ToolOf(f.CallID)
		if call, known := c.answered(f.CallID); tool == nil && known {
			return c.observe(call, now, semconv.OutputDeliveryFailed, errorTypeOf(err))
		}
		return []func(){func() { tool.RecordOutputFailure(err) }}
	}
	return nil
}

func (c *conversation) close(err error) {
	if err == nil {
		c.endAll(record.Ending{Reason: record.Closed})
		return
	}
	c.endAll(record.Ending{Reason: record.Failed, Err: err})
}

func (c *conversation) abandoned() { c.endAll(record.Ending{Reason: record.Dropped}) }

// endAll ends every response that has not ended, and lets none begin.
func (c *conversation) endAll(e record.Ending) {
	c.do(func(c *conversation, now time.Time) (after []func()) {
		c.closed = true
		for _, r := range c.asked {
			after = append(after, r.end(e, now)...)
		}
		for _, r := range c.open {
			after = append(after, r.end(e, now)...)
		}
		c.asked = nil
		clear(c.open)
		return append(after, c.endRun(now)...)
	})
}

// remember appends last to a list of at most 64, without the oldest if the list is full.
func remember[T any](list []T, last T) []T {
	if len(list) == classify.MaxIDs {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, last)
}
