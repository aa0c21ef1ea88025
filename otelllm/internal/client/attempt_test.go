package client

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

func TestHTTPVersion(t *testing.T) {
	for _, tt := range []struct {
		major, minor int
		want         string
	}{
		{0, 0, ""}, // a transport that does not set it
		{1, 0, "1.0"},
		{1, 1, "1.1"},
		{2, 0, "2"},
		{3, 0, "3"},
	} {
		assert.Equal(t, tt.want, httpVersion(&http.Response{ProtoMajor: tt.major, ProtoMinor: tt.minor}))
	}
}

func TestBrokeOff(t *testing.T) {
	for _, tt := range []struct {
		name  string
		facts classify.Request
		want  bool
	}{
		{"early end", classify.Request{Ended: semconv.StreamEndEOF, Status: 200}, true},
		{"read error", classify.Request{Ended: semconv.StreamEndReadError, Status: 200}, true},
		{"watchdog", classify.Request{Ended: semconv.StreamEndWatchdog, Status: 200}, true},
		{"complete", classify.Request{Ended: semconv.StreamEndTerminalEvent, Status: 200}, false},
		{"closed", classify.Request{Ended: semconv.StreamEndConsumerClosed, Status: 200}, false},
		{"cancelled", classify.Request{Ended: semconv.StreamEndCancelled, Status: 200}, false},
		{"not read", classify.Request{Status: 200}, false},
		{"no response", classify.Request{Ended: semconv.StreamEndReadError}, false},
		{"watchdog before the response", classify.Request{Ended: semconv.StreamEndWatchdog}, false},
		{"error response", classify.Request{Ended: semconv.StreamEndReadError, Status: 503}, false},
		{"aborted", classify.Request{Ended: semconv.StreamEndReadError, Status: 200, Abort: classify.Abort{Source: semconv.AbortSourceUser}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, brokeOff(&tt.facts))
		})
	}
}

type testKey struct{}

// The mark ends with RoundTrip. The values of the caller's context stay.
func TestMark(t *testing.T) {
	a := &attempt{}
	caller := context.WithValue(t.Context(), testKey{}, "value")
	ctx := a.mark(caller)
	derived := context.WithValue(ctx, testKey{}, "other")
	assert.Equal(t, true, derived.Value(attemptKey{}))
	assert.Equal(t, "value", ctx.Value(testKey{}))
	assert.Nil(t, caller.Value(attemptKey{}))

	a.marked.over.Store(true)
	assert.Nil(t, derived.Value(attemptKey{}))
	assert.Equal(t, "value", ctx.Value(testKey{}))
}
