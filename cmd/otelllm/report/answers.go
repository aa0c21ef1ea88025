package report

import (
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// Text returns an attribute that is a string, or "".
func (r *Record) Text(key attribute.Key) string {
	s, _ := r.Attributes[string(key)].(string)
	return s
}

// Number returns an attribute that is a whole number, or 0. In a record that was read from JSON
// all numbers are floating-point ones.
func (r *Record) Number(key attribute.Key) int64 {
	switch n := r.Attributes[string(key)].(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

// Unfollowed reports whether the answer to a model call that belongs to no run is a redirect. If
// the request had been sent to another place, both would be in a run: it got no answer.
func (r *Record) Unfollowed() bool {
	status := r.Number(otelsemconv.HTTPResponseStatusCodeKey)
	return r.Kind == RecordRequest && status >= 300 && status < 400 && r.Text(semconv.FailureClassKey) == ""
}

// Unreadable reports whether the answer to a model call could not be read to its end, so that it
// is not known what it was.
func (r *Record) Unreadable() bool {
	return r.Attributes[string(semconv.StreamUnreadKey)] == true && r.Text(semconv.StreamEndKey) == ""
}

// Asked returns how often a run asked the same, if it did so again after a whole answer; 0 if it
// did not. The same at the same time is asked by two sub-agents.
func (r *Record) Asked() (times int) {
	for i := 1; i < len(r.Requests); i++ {
		before, attempt := &r.Requests[i-1], int(r.Requests[i].Number(semconv.RequestAttemptKey))
		if attempt > 1 && !r.Requests[i].Start.Before(before.End) && before.Text(semconv.FailureClassKey) == "" && before.Text(semconv.StreamEndKey) == semconv.StreamEndTerminalEvent.String() {
			times = max(times, attempt)
		}
	}
	return times
}
