// Package inferred keeps the runs of agents that declare none. It opens and ends their
// spans by what package kinship finds out, and records the tools that requests show.
package inferred

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"hash/maphash"
	"math/rand/v2"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/kinship"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// Runs are the inferred runs of one Instrumentation. The zero value has none, and the
// default bounds. It is safe for concurrent use.
type Runs struct {
	known atomic.Bool // a recorded run has begun

	mu sync.Mutex
	// Everything below is guarded by mu.
	tracker *kinship.Tracker    // nil: nothing has begun
	timerAt time.Time           // when the earliest of the timers fires; zero: no timer is set
	agents  map[string]struct{} // the names that runs have, see maxAgents
}

// maxAgents bounds the different names of agents, which are names of spans: they come from
// user agents, and behind a gateway anyone may send any.
const maxAgents = 64

// agentName returns the name of a run's agent: [unknownAgent] for one that is new when there
// are enough.
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
	start sync.Once // of the run itself; it calls what the application has registered

	// The following is set by start.
	*agentrun.Run                   // nil: it was over before it could start
	parent        trace.SpanContext // of its span

	// Everything below is guarded by Runs.mu.
	pending int              // requests that have not ended
	newest  *kinship.Request // a run ends as this one does
	last    lastRequest
}

// lastRequest is what is known of the newest request of a run, once it has ended.
type lastRequest struct {
	end       time.Time         // when the last of all requests ended
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

// Source begins requests in runs.
type Source struct {
	Runs   *Runs
	Limits kinship.Config  // the same for all Sources of Runs
	Run    agentrun.Config // of the runs, without the agent and the conversation
}

// Infers reports whether the requests under ctx belong to inferred runs: unless another
// instrumentation's run is right above them, or their parent is not sampled. Then they will
// hardly be, and reading their bodies would be in vain. Their caller knows whether they
// belong to a declared run. A nil *Source infers none.
func (s *Source) Infers(ctx context.Context) bool {
	if s == nil {
		return false
	}
	span := trace.SpanFromContext(ctx)
	if sc := span.SpanContext(); sc.IsValid() && !sc.IsSampled() {
		return false
	}
	return !isRun(span)
}

// isRun reports whether a span of this process is that of an agent's run, in the words of
// the GenAI conventions, OpenInference or OpenLLMetry.
func isRun(span trace.Span) bool {
	s, ok := span.(interface{ Attributes() []attribute.KeyValue })
	if !ok || !span.IsRecording() {
		return false
	}
	for _, a := range s.Attributes() {
		switch a.Key {
		case otelsemconv.GenAIOperationNameKey:
			return a.Value == otelsemconv.GenAIOperationNameInvokeAgent.Value
		case "openinference.span.kind":
			return a.Value.AsString() == "AGENT"
		case "traceloop.span.kind":
			return a.Value.AsString() == "agent" || a.Value.AsString() == "workflow"
		}
	}
	return false
}

// Request is a request that belongs to an inferred run. A nil *Request belongs to none.
type Request struct {
	runs *Runs
	kin  *kinship.Request
	run  *run

	// Attempt is its number among the attempts of one call, from 1.
	Attempt int

	live atomic.Pointer[agentrun.OpenRequest] // nil: it has not begun

	ended bool // Runs.mu guards it
}

// Run returns the run that the request belongs to, or nil.
func (q *Request) Run() *agentrun.Run {
	if q == nil {
		return nil
	}
	return q.run.Run
}

// Recorded reports whether the run is recorded and goes on. Otherwise the request has to be
// dropped.
func (q *Request) Recorded() bool {
	return q != nil && q.run.Run != nil && q.run.Recording() && !q.run.Over()
}

// Context returns the context to start the request's span with: it is a child of the run's
// span, unless the run has ended, or the caller has a span of its own and it is not the one
// that the run's span is a child of. Ctx is the caller's.
func (q *Request) Context(ctx context.Context) context.Context {
	if q == nil || q.run.Run == nil || q.run.Over() {
		return ctx
	}
	caller := trace.SpanContextFromContext(ctx)
	if caller.IsValid() && !caller.Equal(q.run.parent) {
		return ctx
	}
	return trace.ContextWithSpan(ctx, q.run.Span())
}

// Begin finds the run that a request with these headers belongs to, or opens one. Body
// calls read with the request's body, if it can be read; it is not called if no run is
// known and a new one would not be recorded: a process that records nothing pays nothing. Ctx is the caller's: the span of
// a new run is a child of that in ctx.
//
// So a run may begin in its middle: where the sampler left out a request that came before
// all that is known, as after the start of a process. That tools ran before it then shows in
// its history alone. Later, what belongs to a run that is not recorded is not recorded
// either, as far as kinship finds it.
func (s *Source) Begin(ctx context.Context, now time.Time, h http.Header, body func(read func([]byte))) *Request {
	return s.BeginWith(ctx, now, ReadHeaders(h), func(t *wire.Transcript) (ok bool) {
		body(func(b []byte) { ok = t.Read(b) })
		return ok
	})
}

// BeginLater is Begin for a request whose body is read as it is sent: call what it returns
// with the body. The headers are read at once. By then they may belong to the caller again,
// who may change them.
func (s *Source) BeginLater(ctx context.Context, now time.Time, h http.Header) func(body []byte) *Request {
	c := ReadHeaders(h)
	return func(body []byte) *Request {
		return s.BeginWith(ctx, now, c, func(t *wire.Transcript) bool { return t.Read(body) })
	}
}

// BeginWith is Begin for a client whose headers have been read. Read reads the transcript of
// the request, as [wire.Transcript.Read] does.
func (s *Source) BeginWith(ctx context.Context, now time.Time, c Client, read func(*wire.Transcript) bool) *Request {
	r := s.Runs
	q := &Request{runs: r}
	done := false
	defer func() {
		if !done { // the application's SDK panicked
			q.Drop(now)
		}
	}()
	if !r.known.Load() {
		q.run = &run{}
		q.run.start.Do(func() { q.run.open(ctx, now, s, &c, cmp.Or(c.conversationID, newID()), trace.SpanContext{}) })
		if !q.Recorded() {
			done = true
			return q
		}
		r.known.Store(true)
	}
	tr := transcripts.Get().(*wire.Transcript) //nolint:forcetypeassert // the pool holds nothing else
	defer transcripts.Put(tr)
	if !read(tr) {
		*tr = wire.Transcript{}
	}
	c.sent.Transcript = tr
	c.sent.Client += recordedBy(ctx, s.Run.TracerProvider)
	if sc := trace.SpanContextFromContext(ctx); sc.IsRemote() {
		id := sc.TraceID()
		c.sent.Trace = binary.LittleEndian.Uint64(id[8:])
	}
	begun, over := r.add(now, s.Limits, &c, q)
	q.run.start.Do(func() { r.start(ctx, now, s, &c, begun.Run) })
	end(over)
	if q.Recorded() {
		for _, o := range observed(&begun, now) {
			q.run.Observe(o) //nolint:contextcheck // the span is the run's child, not the caller's
		}
	}
	q.Attempt = begun.Attempt
	done = true
	return q
}

var providerSeed = maphash.MakeSeed()

// recordedBy returns a hash of the provider of a run's span. Spans of two providers do not
// belong to one run: a trace would have a part of it.
func recordedBy(ctx context.Context, given trace.TracerProvider) uint64 {
	p := telemetry.Provider(ctx, given)
	if !reflect.ValueOf(p).Comparable() {
		return 0
	}
	return maphash.Comparable(providerSeed, p)
}

var transcripts = sync.Pool{New: func() any { return new(wire.Transcript) }}

// begun is a request that was added, with what it shows of the calls before it.
type begun struct {
	*kinship.Request

	calls []kinship.Observed
	from  time.Time // when the answer with the calls ended; zero: it is still being read
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
	b = begun{Request: k.Request, calls: k.Observed}
	if k.Before != nil {
		_, b.from = k.Before.Answer()
	}
	over = r.endings(k.Ended)
	q.kin = k.Request
	known, ok := k.Run.Data.(*run)
	switch {
	case ok:
		if q.run != nil {
			// Another request of the run has been added while this one, as the first of
			// all, opened one.
			over = append(over, ending{q.run, agentrun.InferredEnd{At: now, By: semconv.RunEndUnclear}})
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
	q.run.pending++
	q.run.newest = k.Request
	r.schedule()
	return b, over
}

// observed returns the executions that a request shows. A call without an output is not one.
// If the output never comes, the histories on the requests' spans show that.
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
	return list
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

// Follow takes the request once it has begun, to see how far it has come.
func (q *Request) Follow(open agentrun.OpenRequest) {
	if q != nil {
		q.live.Store(&open)
	}
}

// soFar returns how the request would end now.
func (q *Request) soFar() kinship.Answer {
	open := q.live.Load()
	if open == nil {
		return kinship.Answer{}
	}
	facts, ended := (*open).Snapshot(time.Now())
	if !ended {
		facts = (*open).SoFar()
		if facts.Open && facts.Status < 400 {
			return kinship.Answer{}
		}
	}
	calls := make([]wire.Call, 0, len(facts.CallIDs))
	for _, id := range facts.CallIDs {
		calls = append(calls, wire.Call{ID: id, Completed: true})
	}
	return answerOf(&facts, calls, "")
}

// Ended takes the facts of the request once they are final, and the calls of its response.
func (q *Request) Ended(f *spanfacts.Request, calls []wire.Call) {
	if q == nil {
		return
	}
	answer := answerOf(&f.Request, calls, f.ResponseID)
	answer.Way = f.ErrorType
	last := lastRequest{end: f.End, errorType: f.ErrorType}
	if answer.Result != kinship.Answered {
		facts := f.Request
		last.facts = &facts
	}
	q.end(f.End, answer, last)
}

// Drop ends a request that is not recorded. What comes of it is not known: the next request
// may repeat it or have the outputs of its calls. So the requests of a run that is not
// sampled stay in it, and none of them begins one that is.
func (q *Request) Drop(now time.Time) {
	if q != nil && q.kin != nil {
		q.end(now, kinship.Answer{Result: kinship.Unobserved}, lastRequest{end: now})
	}
}

func (q *Request) end(now time.Time, answer kinship.Answer, last lastRequest) {
	r := q.runs
	end(r.endRequest(now, q, answer, last))
}

// endRequest returns the runs that are over by the end of q. It returns none after the
// first call.
func (r *Runs) endRequest(now time.Time, q *Request, answer kinship.Answer, last lastRequest) []ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.ended {
		return nil
	}
	q.ended = true
	o := q.run
	o.pending--
	if o.last.end.After(last.end) {
		last.end = o.last.end
	}
	if o.newest == q.kin {
		o.last = last
	} else {
		o.last.end = last.end
	}
	defer r.schedule()
	over := r.tracker.End(now, q.kin, answer)
	if o.Run != nil {
		over = append(over, r.tracker.Keep(q.kin.Run, runBytes+o.Bytes())...)
	}
	return r.endings(over)
}

// answerOf returns how a request ended, as far as kinship asks.
func answerOf(f *classify.Request, calls []wire.Call, responseID string) kinship.Answer {
	a := kinship.Answer{
		Result: kinship.Answered, ResponseID: responseID, Continues: f.Finish == classify.FinishPaused || f.Finish == classify.FinishCompacted,
		Queued: f.Background && f.Finish == classify.FinishWaiting,
		Text:   f.Text.N() > 0 || f.Reasoning.N() > 0,
	}
	for i := range calls {
		if c := &calls[i]; c.Completed {
			a.Calls = append(a.Calls, kinship.Call{ID: c.ID, Name: c.Name})
		}
	}
	a.Unnamed = f.Unread || max(f.ToolCalls.N(), f.ToolInputsCompleted.N()) > len(a.Calls)
	switch {
	case f.Abort.Source != semconv.AbortSourceUnset && f.Abort.Source != semconv.AbortSourceWatchdog:
		a.Result = kinship.Stopped
	case f.Finish >= classify.FinishMaxTokens && f.Ended == semconv.StreamEndTerminalEvent:
	case classify.Failed(f):
		a.Result = kinship.Failed
	}
	return a
}

// ending is a run that is to be ended, when mu is free.
type ending struct {
	run *run
	how agentrun.InferredEnd
}

var endedBy = [...]semconv.RunEnd{
	kinship.Finished: semconv.RunEndAnswer,
	kinship.Broken:   semconv.RunEndFailure,
	kinship.Idle:     semconv.RunEndIdle,
	kinship.Unclear:  semconv.RunEndUnclear,
	kinship.Evicted:  semconv.RunEndEvicted,
}

// endings returns how the runs that are over ended, with mu held.
func (r *Runs) endings(over []kinship.Ended) (list []ending) {
	for _, e := range over {
		o, ok := e.Run.Data.(*run)
		if !ok {
			continue
		}
		e.Run.Data = nil // the tracker may remember the run for long, but no request joins it
		at, by := o.last.end, endedBy[e.Reason]
		if o.pending > 0 {
			at = time.Now()
		}
		if by == semconv.RunEndFailure && o.last.facts == nil {
			by = semconv.RunEndUnclear // it is not known how the request ended
		}
		list = append(list, ending{o, agentrun.InferredEnd{
			At: at, By: by, Last: o.last.facts, ErrorType: o.last.errorType, Repeated: e.Run.Repeated(),
		}})
	}
	return list
}

// end ends runs. One that has not started yet never does.
func end(list []ending) {
	for _, e := range list {
		e.run.start.Do(func() {})
		if e.run.Run != nil {
			e.run.EndInferred(e.how)
		}
	}
}

// maxTimer bounds how far ahead a timer is set.
const maxTimer = time.Minute

// schedule sets a timer, with mu held, to the time at which the next run is over unless
// something happens. No timer is stopped or reset, since that is a fatal error for one that
// was set in another bubble of testing/synctest. One that fires too early changes nothing.
func (r *Runs) schedule() {
	at, ok := r.tracker.Deadline()
	if !ok {
		return
	}
	now := time.Now()
	if latest := now.Add(maxTimer); at.After(latest) {
		at = latest
	}
	// A timer in the past fires now, or its bubble is gone.
	if r.timerAt.After(now) && !at.Before(r.timerAt) {
		return
	}
	r.timerAt = at
	time.AfterFunc(at.Sub(now), func() { r.expire(at) })
}

// expire ends the runs that have waited for too long, when the timer of this time fires.
func (r *Runs) expire(timer time.Time) {
	defer telemetry.Recover()
	now := time.Now()
	r.mu.Lock()
	if r.timerAt.Equal(timer) {
		r.timerAt = time.Time{}
	}
	ended := r.endings(r.tracker.Expire(now))
	r.schedule()
	r.mu.Unlock()
	end(ended)
}

// EndWaiting ends the runs that wait for their next request, as if they had waited for long
// enough.
func (r *Runs) EndWaiting() {
	defer telemetry.Recover()
	end(r.endWaiting())
}

func (r *Runs) endWaiting() []ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tracker == nil {
		return nil
	}
	var over []ending
	for {
		at, ok := r.tracker.Deadline()
		if !ok {
			return over
		}
		over = append(over, r.endings(r.tracker.Expire(at))...)
	}
}

// Shutdown ends all runs and forgets all requests. Requests that begin later begin new
// runs.
func (r *Runs) Shutdown() {
	defer telemetry.Recover()
	end(r.shutdown())
}

func (r *Runs) shutdown() []ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tracker == nil {
		return nil
	}
	over := r.endings(r.tracker.Shutdown())
	for i := range over {
		over[i].how.By = semconv.RunEndShutdown
	}
	return over
}
