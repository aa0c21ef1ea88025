package session

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
)

// spans is a provider of spans that stay in this process: each is sampled, has no limits, and is
// given to ended. The SDK's spans are made for any number of readers, so each is copied twice
// before it is exported; these have one reader.
type spans struct {
	noop.TracerProvider

	ended func(*span) // is called once a span, and must not block
	last  atomic.Pointer[tracer]
}

// Tracer implements trace.TracerProvider.
func (p *spans) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	if last := p.last.Load(); last != nil && last.scope.name == name { // the library looks its tracer up for each span
		return last
	}
	config := trace.NewTracerConfig(options...)
	t := &tracer{provider: p, scope: scope{name, config.InstrumentationVersion()}}
	p.last.Store(t)
	return t
}

// scope is the instrumentation that makes a span.
type scope struct{ name, version string }

type tracer struct {
	noop.Tracer

	provider *spans
	scope    scope
}

// Start implements trace.Tracer.
func (t *tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	config := trace.NewSpanStartConfig(options...)
	s := &span{tracer: t, name: name, kind: trace.ValidateSpanKind(config.SpanKind()), start: config.Timestamp(), recording: true}
	if s.start.IsZero() {
		s.start = time.Now()
	}
	if !config.NewRoot() {
		s.parent = trace.SpanContextFromContext(ctx)
	}
	id := trace.SpanContextConfig{TraceID: s.parent.TraceID(), TraceState: s.parent.TraceState(), SpanID: newSpanID(), TraceFlags: trace.FlagsSampled}
	if !s.parent.IsValid() {
		s.parent, id.TraceID = trace.SpanContext{}, newTraceID()
	}
	s.context = trace.NewSpanContext(id)
	s.attrs = few.Get().(*[fewAttributes]attribute.KeyValue)[:0]
	s.add(config.Attributes()) // which are the caller's
	s.links = config.Links()
	return trace.ContextWithSpan(ctx, s), s
}

// An open span has few attributes, and gets the others as it ends: of open spans there may be thousands.
const fewAttributes, manyAttributes = 12, 40

// few and many are memory for the attributes of spans. Some spans have more.
var (
	few  = sync.Pool{New: func() any { return new([fewAttributes]attribute.KeyValue) }}
	many = sync.Pool{New: func() any { return new([manyAttributes]attribute.KeyValue) }}
)

// add adds attributes.
func (s *span) add(attrs []attribute.KeyValue) {
	if len(s.attrs)+len(attrs) > cap(s.attrs) && cap(s.attrs) == fewAttributes {
		list := append(many.Get().(*[manyAttributes]attribute.KeyValue)[:0], s.attrs...)
		s.dropAttributes()
		s.attrs = list
	}
	s.attrs = append(s.attrs, attrs...)
}

// giveBack gives back the memory for the attributes of a span that has been written. It does not
// change any more.
func (s *span) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropAttributes()
}

// dropAttributes removes the attributes, and gives their memory back.
func (s *span) dropAttributes() {
	clear(s.attrs)
	switch list := s.attrs; cap(list) {
	case fewAttributes:
		few.Put((*[fewAttributes]attribute.KeyValue)(list[:fewAttributes]))
	case manyAttributes:
		many.Put((*[manyAttributes]attribute.KeyValue)(list[:manyAttributes]))
	}
	s.attrs = nil
}

func newTraceID() (id trace.TraceID) {
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())   //nolint:gosec // no secret
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1) //nolint:gosec // no secret; zero is no id
	return id
}

func newSpanID() (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1) //nolint:gosec // as above
	return id
}

// span is a span of a [spans].
type span struct {
	noop.Span

	tracer *tracer
	kind   trace.SpanKind
	start  time.Time

	mu sync.Mutex
	// Everything below is guarded by mu until the span has ended, and does not change then.
	context, parent trace.SpanContext
	recording       bool
	name            string
	end             time.Time
	status          codes.Code
	message         string
	attrs           []attribute.KeyValue // the last one of a key counts
	events          []event
	links           []trace.Link
}

// event is an event of a span.
type event struct {
	name  string
	at    time.Time
	attrs []attribute.KeyValue
}

// change calls f if the span has not ended.
func (s *span) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording {
		f()
	}
}

// SpanContext implements trace.Span.
func (s *span) SpanContext() trace.SpanContext {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.context
}

// TracerProvider implements trace.Span.
func (s *span) TracerProvider() trace.TracerProvider { return s.tracer.provider }

// IsRecording implements trace.Span.
func (s *span) IsRecording() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recording
}

// Attributes is for who asks whether the span is that of a run.
func (s *span) Attributes() []attribute.KeyValue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.attrs) // whose memory is used again
}

// SetName implements trace.Span.
func (s *span) SetName(name string) { s.change(func() { s.name = name }) }

// SetStatus implements trace.Span: Ok is final, and Error outweighs Unset.
func (s *span) SetStatus(code codes.Code, message string) {
	s.change(func() {
		if s.status <= code || s.status == codes.Error && code == codes.Ok {
			s.status, s.message = code, message
		}
	})
}

// SetAttributes implements trace.Span.
func (s *span) SetAttributes(attrs ...attribute.KeyValue) {
	s.change(func() { s.add(attrs) })
}

// AddEvent implements trace.Span.
func (s *span) AddEvent(name string, options ...trace.EventOption) {
	config := trace.NewEventConfig(options...)
	s.change(func() {
		if s.events == nil {
			s.events = make([]event, 0, 4) // those of a text answer
		}
		s.events = append(s.events, event{name, config.Timestamp(), config.Attributes()})
	})
}

// AddLink implements trace.Span. A link of a request is to its run, which is known only once the
// request's body has been read: until then the request has a trace of its own. Nothing of that
// has left this process, so it becomes what it is: a child of the run.
func (s *span) AddLink(l trace.Link) {
	s.change(func() {
		s.links = append(s.links, l)
		if !s.parent.IsValid() {
			s.parent, s.context = l.SpanContext, s.context.WithTraceID(l.SpanContext.TraceID())
		}
	})
}

// End implements trace.Span.
func (s *span) End(options ...trace.SpanEndOption) {
	config := trace.NewSpanEndConfig(options...)
	ended := false
	s.change(func() {
		s.recording, ended = false, true
		if s.end = config.Timestamp(); s.end.IsZero() {
			s.end = time.Now()
		}
	})
	if ended {
		s.tracer.provider.ended(s)
	}
}

// put writes the span, which has ended, into one of OTLP.
func (s *span) put(to ptrace.Span) {
	to.SetName(s.name)
	to.SetStartTimestamp(pcommon.NewTimestampFromTime(s.start))
	to.SetEndTimestamp(pcommon.NewTimestampFromTime(s.end))
	engine.PutContext(to, s.context, s.parent)
	engine.PutKind(to, s.kind)
	engine.PutStatus(to, s.status, s.message)
	engine.PutAttributes(to.Attributes(), s.attrs)
	to.Events().EnsureCapacity(len(s.events))
	for i := range s.events {
		e := to.Events().AppendEmpty()
		e.SetName(s.events[i].name)
		e.SetTimestamp(pcommon.NewTimestampFromTime(s.events[i].at))
		engine.PutAttributes(e.Attributes(), s.events[i].attrs)
	}
	for i := range s.links {
		engine.PutLink(to, s.links[i].SpanContext, s.links[i].Attributes)
	}
}
