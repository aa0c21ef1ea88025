package otelllm

import (
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// StreamError is what the reader of a response gets under [WithStreamErrors] when
// the stream broke off: where the body came to a clean end without the protocol's
// last word, which SDKs take for a whole answer, and in place of any other error
// of reading it. errors.Is and errors.As reach the error that it wraps:
// io.ErrUnexpectedEOF for the clean end, else the original.
type StreamError struct {
	// Diagnosis is the verdict on this request, on what has been seen so far.
	Diagnosis classify.Diagnosis

	err error
}

// Error implements error. It is the diagnosis's summary, and the error's own text.
func (e *StreamError) Error() string {
	return "otelllm: " + e.Diagnosis.Summary + " (" + e.err.Error() + ")"
}

// Unwrap returns the error of the body.
func (e *StreamError) Unwrap() error { return e.err }

// brokeOff: a response broke off that was no error by itself, and not by this
// side's will. A request that got no response has an error already.
func brokeOff(f *classify.Request) bool {
	switch f.Ended {
	case semconv.StreamEndEOF, semconv.StreamEndReadError, semconv.StreamEndWatchdog:
		return f.Status > 0 && f.Status < 400 && f.Abort.Source == semconv.AbortSourceUnset
	default:
		return false
	}
}
