package record

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

const (
	// MaxEvents bounds the events of a span.
	MaxEvents = 32
	// maxOnce is how many kinds of event occur at most once on a request's span. Room is
	// reserved for them, so that many tool calls cannot push out how the request ended.
	maxOnce = 8
)

// timeline collects the events of a request's span: when each fact was observed.
// A nil timeline collects nothing.
type timeline struct {
	moments []moment
	calls   int // events about single calls

	written                               int64 // when the whole request had been; 0: not known
	progressed, text, reasoning, finished bool
	begun                                 int    // calls whose start is recorded
	completed                             uint64 // a bit for each call whose completion is recorded

	first [4]moment // the memory of the first moments
}

// moment is small, because an open stream keeps all of its moments.
type moment struct {
	at   int64 // nanoseconds of the Unix epoch
	call int8  // index of the call in the state, which has at most 64; ofNoCall: none
	what event
}

// event is a kind of event.
type event uint8

const (
	responseStarted event = iota
	firstProgress
	textStarted
	reasoningStarted
	toolInputStarted
	toolInputCompleted
	streamFinish
	streamInterrupted
	aborted
	watchdogFired
)

var eventNames = [...]string{
	responseStarted:    semconv.EventResponseStarted,
	firstProgress:      semconv.EventStreamFirstProgress,
	textStarted:        semconv.EventStreamTextStarted,
	reasoningStarted:   semconv.EventStreamReasoningStarted,
	toolInputStarted:   semconv.EventStreamToolInputStarted,
	toolInputCompleted: semconv.EventStreamToolInputCompleted,
	streamFinish:       semconv.EventStreamFinish,
	streamInterrupted:  semconv.EventStreamInterrupted,
	aborted:            semconv.EventAbort,
	watchdogFired:      semconv.EventWatchdogFired,
}

// ofNoCall is the call of a moment that concerns the whole response.
const ofNoCall = -1

// begin starts to collect, with room for the events of a text answer.
func (t *timeline) begin() *timeline {
	t.moments = t.first[:0]
	return t
}

func (t *timeline) mark(what event, at time.Time) {
	if t != nil {
		t.moments = append(t.moments, moment{at.UnixNano(), ofNoCall, what})
	}
}

// once marks an event the first time that its fact is there.
func (t *timeline) once(done *bool, there bool, what event, at time.Time) {
	if there && !*done {
		*done = true
		t.mark(what, at)
	}
}

// progress marks what is new in a response's state.
func (t *timeline) progress(st *wire.State, at time.Time) {
	if t == nil {
		return
	}
	t.once(&t.progressed, st.Events > 0, firstProgress, at)
	t.once(&t.reasoning, st.ReasoningChunks > 0, reasoningStarted, at)
	t.once(&t.text, st.TextChunks > 0, textStarted, at)
	for i := t.begun; i < len(st.Calls); i++ {
		t.call(toolInputStarted, i, at)
	}
	t.begun = len(st.Calls)
	for i := range st.Calls {
		if bit := uint64(1) << (i % 64); st.Calls[i].Completed && t.completed&bit == 0 {
			t.completed |= bit
			t.call(toolInputCompleted, i, at)
		}
	}
	t.once(&t.finished, st.Complete, streamFinish, at)
}

func (t *timeline) call(what event, i int, at time.Time) {
	if t.calls == MaxEvents-maxOnce {
		return
	}
	t.calls++
	t.moments = append(t.moments, moment{at.UnixNano(), int8(i), what})
}

// end marks how the request ended.
func (t *timeline) end(o outcome, at time.Time) {
	switch {
	case t == nil:
	case o.watchdog.Kind != semconv.WatchdogKindUnset, o.abort.Source == semconv.AbortSourceWatchdog:
		t.mark(watchdogFired, at)
	case o.abort.Source != semconv.AbortSourceUnset:
		t.mark(aborted, at)
	case o.due, o.end == semconv.StreamEndReadError:
		t.mark(streamInterrupted, at)
	}
}

// requestWritten sets when the request had been written, which the transport may report
// at any time. The zero time changes nothing.
func (t *timeline) requestWritten(at time.Time) {
	if t != nil && !at.IsZero() {
		t.written = at.UnixNano()
	}
}

// write adds the events to the span. Calls are those of the response's state.
func (t *timeline) write(span trace.Span, calls []wire.Call, mem *scratch) {
	if t == nil {
		return
	}
	// Events of one Read have the same time, so its option is made once.
	last, options := int64(0), mem.options[:0]
	stamped := func(at int64) []trace.EventOption {
		if at != last || len(options) == 0 {
			last, options = at, append(options[:0], trace.WithTimestamp(time.Unix(0, at)))
		}
		return options
	}
	if t.written != 0 {
		span.AddEvent(semconv.EventRequestWritten, stamped(t.written)...)
	}
	for i := range t.moments {
		m := &t.moments[i]
		options := stamped(m.at)
		if call := int(m.call); call >= 0 && call < len(calls) {
			options = append(options, trace.WithAttributes(appendCall(mem.call[:0], &calls[call])...))
		}
		span.AddEvent(eventNames[m.what], options...)
	}
}

func appendCall(dst []attribute.KeyValue, c *wire.Call) []attribute.KeyValue {
	if c.ID != "" {
		dst = append(dst, otelsemconv.GenAIToolCallID(c.ID))
	}
	if c.Name != "" {
		dst = append(dst, otelsemconv.GenAIToolName(c.Name))
	}
	return dst
}
