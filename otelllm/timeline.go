package otelllm

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

const (
	// maxEvents bounds the events of a span.
	maxEvents = 32
	// maxOnce is how many kinds of event come at most once on a request's span. Room
	// for them is kept, so that no number of tool calls pushes out how it ended.
	maxOnce = 8
)

// timeline collects the events of a request's span: when each fact came to be.
// A nil timeline collects nothing.
type timeline struct {
	moments []moment
	calls   int // events about single calls

	written                               time.Time // the request, whole; zero: it was not
	progressed, text, reasoning, finished bool
	begun                                 int    // calls of which the beginning is told
	completed                             uint64 // calls of which the completion is told, a bit each
}

type moment struct {
	name     string
	at       time.Time
	id, tool string // of a call; both empty for the others
}

func (t *timeline) mark(name string, at time.Time) {
	if t != nil {
		t.moments = append(t.moments, moment{name: name, at: at})
	}
}

// once marks a moment the first time that it is there.
func (t *timeline) once(done *bool, there bool, name string, at time.Time) {
	if there && !*done {
		*done = true
		t.mark(name, at)
	}
}

// progress tells what is new in a response's state.
func (t *timeline) progress(st *wire.State, at time.Time) {
	if t == nil {
		return
	}
	t.once(&t.progressed, st.Events > 0, semconv.EventStreamFirstProgress, at)
	t.once(&t.reasoning, st.ReasoningChunks > 0, semconv.EventStreamReasoningStarted, at)
	t.once(&t.text, st.TextChunks > 0, semconv.EventStreamTextStarted, at)
	for i := t.begun; i < len(st.Calls); i++ {
		t.call(semconv.EventStreamToolInputStarted, &st.Calls[i], at)
	}
	t.begun = len(st.Calls)
	for i := range st.Calls {
		if bit := uint64(1) << (i % 64); st.Calls[i].Completed && t.completed&bit == 0 {
			t.completed |= bit
			t.call(semconv.EventStreamToolInputCompleted, &st.Calls[i], at)
		}
	}
	t.once(&t.finished, st.Complete, semconv.EventStreamFinish, at)
}

func (t *timeline) call(name string, c *wire.Call, at time.Time) {
	if t.calls == maxEvents-maxOnce {
		return
	}
	t.calls++
	t.moments = append(t.moments, moment{name, at, c.ID, c.Name})
}

// end tells how the attempt ended.
func (t *timeline) end(c conclusion, at time.Time) {
	switch {
	case t == nil:
	case c.watchdog.Kind != semconv.WatchdogKindUnset:
		t.mark(semconv.EventWatchdogFired, at)
	case c.abort.Source != semconv.AbortSourceUnset:
		t.mark(semconv.EventAbort, at)
	case c.due, c.end == semconv.StreamEndReadError:
		t.mark(semconv.EventStreamInterrupted, at)
	}
}

// requestWritten takes when the request had been written, which the transport may
// say at any time.
func (t *timeline) requestWritten(at time.Time) {
	if t != nil {
		t.written = at
	}
}

// write puts the events on the span.
func (t *timeline) write(span trace.Span) {
	if t == nil {
		return
	}
	if !t.written.IsZero() {
		span.AddEvent(semconv.EventRequestWritten, trace.WithTimestamp(t.written))
	}
	for i := range t.moments {
		m := &t.moments[i]
		if m.id == "" && m.tool == "" {
			span.AddEvent(m.name, trace.WithTimestamp(m.at))
			continue
		}
		span.AddEvent(m.name, trace.WithTimestamp(m.at), trace.WithAttributes(callAttributes(m)...))
	}
}

func callAttributes(m *moment) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 2)
	if m.id != "" {
		attrs = append(attrs, otelsemconv.GenAIToolCallID(m.id))
	}
	if m.tool != "" {
		attrs = append(attrs, otelsemconv.GenAIToolName(m.tool))
	}
	return attrs
}
