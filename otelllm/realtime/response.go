package realtime

import (
	"slices"
	"time"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/abort"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// maxAsked bounds the responses that have been requested and have not begun.
const maxAsked = 8

// response is one response of a session.
type response struct {
	rec     record.Recorder
	eventID string // of the response.create that asked for it
	unasked bool   // it began before the request for it was reported
}

// Complete implements [record.Source]. A response exists once its request was sent.
func (*response) Complete(e record.Ending, _ *spanfacts.Request) record.Ending {
	e.Sent, e.SentKnown = true, true
	return e
}

// Settled implements [record.Source].
func (*response) Settled(*spanfacts.Request) {}

// begin starts the span of a response, with the session's mu held.
func (c *conversation) begin(providerTools []string, now time.Time) *response {
	c.startRun(now)
	id := spanfacts.Identity{
		Operation: otelsemconv.GenAIOperationNameChat.Value.AsString(),
		Provider:  c.with.Provider,
		Model:     c.wire.Model(),
		Stream:    classify.Yes,
		UserAgent: c.userAgent,
	}
	agentrun.Of(c.ctx).Identify(&id)
	_, span := record.StartSpan(c.ctx, c.with.TracerProvider, record.ClientKind, &id, now)
	r := &response{}
	r.rec.Init(c.ctx, &c.with.Record, span, &id, now)
	f := r.rec.Facts()
	f.Bytes, f.Streams, f.ProviderTools = -1, true, providerTools
	if !c.changed {
		f.HistoryCalls, f.HistoryOutputs = slices.Clone(c.calls), slices.Clone(c.outputs)
	}
	r.rec.Begin(r)
	c.last = r
	return r
}

func (c *conversation) oldestAsked() *response {
	if len(c.asked) == 0 {
		return nil
	}
	r := c.asked[0]
	c.asked = slices.Delete(c.asked, 0, 1)
	return r
}

// makeRoom ends the oldest open response if the reader follows no more: no later frame is
// matched to it.
func (c *conversation) makeRoom(now time.Time) []func() {
	if len(c.open) < wire.MaxOpenResponses {
		return nil
	}
	var oldest *wire.State
	for st, r := range c.open {
		if oldest == nil || r.rec.Start().Before(c.open[oldest].rec.Start()) {
			oldest = st
		}
	}
	r := c.open[oldest]
	delete(c.open, oldest)
	return r.end(record.Ending{Reason: record.Dropped}, now)
}

// cancelled returns who cancelled a response. It is the zero value if the response came to
// its end.
func (c *conversation) cancelled(f *wire.Frame, now time.Time) classify.Abort {
	switch {
	case !f.Cancelled:
		return classify.Abort{}
	case f.CancelReason == wire.CancelTurnDetected: // a person began to speak
		return classify.Abort{Source: semconv.AbortSourceUser, Reason: f.CancelReason}
	}
	if a := abort.Of(c.ctx, now); a.Source != semconv.AbortSourceUnset {
		return a
	}
	return classify.Abort{Source: semconv.AbortSourceApplication, Reason: classify.SanitizeCode(f.CancelReason)}
}

// end ends the response. It returns what writes the span, to be called when the session's
// mu is free; nil: the response had ended already.
func (r *response) end(e record.Ending, now time.Time) []func() {
	if finish := r.rec.Settle(now, func() record.Ending { return e }); finish != nil {
		return []func(){finish}
	}
	return nil
}
