// Package inferred keeps the runs of agents that declare none. It opens and ends their spans by the findings of package
// kinship, and records the tools that requests show.
package inferred

import (
	"cmp"
	"context"
	"encoding/hex"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/kinship"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// Runs are the inferred runs of one Instrumentation. The zero value has none, and the default bounds. It is safe for
// concurrent use.
type Runs struct {
	known atomic.Bool // a recorded run has begun

	mu sync.Mutex
	// Everything below is guarded by mu.
	tracker *kinship.Tracker    // nil: nothing has begun
	timerAt time.Time           // when the earliest of the timers fires; zero: no timer is set
	agents  map[string]struct{} // the names that runs have, see maxAgents
}

// maxAgents bounds the different names of agents, which are names of spans: they come from user agents, and behind a
// gateway anyone may send any.
const maxAgents = 64

// agentName returns the name of a run's agent: [unknownAgent] for a new name beyond maxAgents.
func (r *Runs) agentName(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.agents[name]; known || name == unknownAgent {
		return name
	}
	if len(r.agents) == maxAgents {
		return unknownAgent
	}
	if r.agents == nil {
		r.agents = map[string]struct{}{}
	}
	r.agents[name] = struct{}{}
	return name
}

// run is an inferred run, as the Data of a [kinship.Run].
type run struct {
	start sync.Once // of the run itself; it calls code that the application has registered

	// start sets the following fields.
	*agentrun.Run                   // nil: it was over before it could start
	parent        trace.SpanContext // of its span

	// Everything below is guarded by Runs.mu.
	pending int              // requests that have not ended
	newest  *kinship.Request // a run ends as this one does
	last    lastRequest
}

// lastRequest is the end of the newest request of a run.
type lastRequest struct {
	end       time.Time         // end of the last request to end
	facts     *classify.Request // nil: it did not fail, or it was not recorded
	errorType string
}

// conversation is the Data of a [kinship.Conversation].
type conversation struct {
	id   string            // "": its client sends it with each request
	last trace.SpanContext // of the newest run
}

const (
	idDigits          = 16 // of an id that is made here
	conversationBytes = int(unsafe.Sizeof(conversation{})) + idDigits
	runBytes          = int(unsafe.Sizeof(run{}) + unsafe.Sizeof(classify.Request{})) // with the facts of its last request
)

// begun is a request that was added, with the calls before it that it shows.
type begun struct {
	*kinship.Request

	calls    []kinship.Observed
	madeUp   []kinship.Call
	previous kinship.Previous
	from     time.Time // end of the answer with the calls; zero: it is still being read
}

// add adds a request to the tracker.
func (r *Runs) add(now time.Time, limits kinship.Config, c *Client, q *Request) (b begun, over []ending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tracker == nil {
		limits.DataBytes = conversationBytes
		r.tracker = kinship.NewTracker(limits)
	}
	k := r.tracker.Begin(now, c.sent, q.soFar)
	b = begun{Request: k.Request, calls: k.Observed, madeUp: k.MadeUp, previous: k.Previous}
	if k.Before != nil {
		_, b.from = k.Before.Answer()
	}
	over = r.endings(k.Ended)
	q.kin = k.Request
	known, ok := k.Run.Data.(*run)
	switch {
	case ok:
		if q.run != nil {
			// Another request of the run has been added while this one, as the first of all, opened one.
			over = append(over, ending{run: q.run, how: agentrun.InferredEnd{At: now, By: semconv.RunEndUnclear}})
		}
		q.run = known
	case q.run == nil:
		q.run = &run{}
	default: // it has started
		conv := &conversation{last: idsOf(q.run.Span())}
		if c.conversationID == "" {
			conv.id = q.run.ConversationID
		}
		k.Run.Conversation().Data = conv
	}
	if !ok {
		k.Run.Data = q.run
		over = append(over, r.endings(r.tracker.Keep(k.Run, runBytes+agentrun.MinBytes))...)
	}
	if q.run.Run != nil {
		q.run.Unsettle()
	}
	q.run.pending++
	q.run.newest = k.Request
	r.schedule()
	return b, over
}

// observed returns the executions that a request shows. A call without an output does not count. If the output never comes, the
// histories on the requests' spans show that. Outputs that the agent made up are shown as interruptions.
func observed(b *begun, now time.Time) (list []agentrun.Observed) {
	from := b.from
	if from.IsZero() {
		from = now
	}
	for _, call := range b.calls {
		if !call.Sent {
			continue
		}
		outcome := semconv.ToolOutcomeUnset
		switch call.Result {
		case wire.ResultFailed:
			outcome = semconv.ToolOutcomeFailed
		case wire.ResultInterrupted:
			outcome = semconv.ToolOutcomeInterrupted
		case wire.ResultUnknown:
		}
		list = append(list, agentrun.Observed{CallID: call.ID, Name: call.Name, From: from, To: now, Outcome: outcome})
	}
	for _, call := range b.madeUp {
		list = append(list, agentrun.Observed{CallID: call.ID, Name: call.Name, From: now, To: now, Outcome: semconv.ToolOutcomeInterrupted})
	}
	return list
}

var previousOf = [...]semconv.RunPrevious{
	kinship.Unknown:   semconv.RunPreviousUnset,
	kinship.Settled:   semconv.RunPreviousSettled,
	kinship.Unsettled: semconv.RunPreviousUnsettled,
}

// start starts a run.
func (r *Runs) start(ctx context.Context, now time.Time, s *Source, c *Client, kin *kinship.Run) {
	r.mu.Lock()
	o := kin.Data.(*run) //nolint:forcetypeassert // as add set it
	conv, _ := kin.Conversation().Data.(*conversation)
	if conv == nil {
		conv = &conversation{}
		if c.conversationID == "" {
			conv.id = newID()
		}
		kin.Conversation().Data = conv
	}
	previous := conv.last
	r.mu.Unlock()
	o.open(ctx, now, s, c, cmp.Or(c.conversationID, conv.id), previous)
	r.mu.Lock()
	conv.last = idsOf(o.Span())
	r.mu.Unlock()
}

// idsOf returns the ids of a span, without the trace state: its size is up to the caller.
func idsOf(span trace.Span) trace.SpanContext {
	return span.SpanContext().WithTraceState(trace.TraceState{})
}

// open starts the run itself and its span.
func (o *run) open(ctx context.Context, now time.Time, s *Source, c *Client, conversationID string, previous trace.SpanContext) {
	config := s.Run
	config.Agent, config.ConversationID = s.Runs.agentName(c.agent), conversationID
	o.parent = trace.SpanContextFromContext(ctx)
	o.Run = agentrun.StartInferred(ctx, config, now, previous)
}

// newID returns the id of a conversation whose client sends none.
func newID() string {
	var id [idDigits / 2]byte
	for i, n := 0, rand.Uint64(); i < len(id); i++ { //nolint:gosec // it is no secret
		id[i] = byte(n >> (8 * i))
	}
	return hex.EncodeToString(id[:])
}
