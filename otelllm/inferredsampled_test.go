package otelllm

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// notSampled is a sampler that leaves out some traces, counted from 0.
type notSampled struct {
	from, until int64
	traces      atomic.Int64
}

func (s *notSampled) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	in := sdktrace.AlwaysSample()
	if parent := trace.SpanContextFromContext(p.ParentContext); parent.IsValid() {
		if !parent.IsSampled() {
			in = sdktrace.NeverSample()
		}
	} else if n := s.traces.Add(1) - 1; n >= s.from && n < s.until {
		in = sdktrace.NeverSample()
	}
	return in.ShouldSample(p)
}

func (*notSampled) Description() string { return "" }

// A run whose first request was not sampled begins in its middle, where its client sends no
// id of the conversation. The history of what is recorded shows that tools ran: its verdict
// is the same as that of the complete run.
func TestInferredRunBeginsInItsMiddle(t *testing.T) {
	const id = "call_0f9a8b7c6d5e4f30"
	for name, words := range agentWords {
		for _, missing := range []int64{0, 1} {
			t.Run(fmt.Sprint(name, "/", missing), func(t *testing.T) {
				r := newRecorder(t, sdktrace.WithSampler(&notSampled{until: missing}))
				s := script{answers: []func(http.ResponseWriter){streamed(words.call(id)), unavailable}}
				url, rt := s.start(t)+words.path, inferring(r, time.Millisecond, WithVerdicts()).NewTransport(base(t))
				for n := range 2 {
					_, err := call(t.Context(), rt, url, words.body("fix it", n, id))
					require.NoError(t, err)
				}
				run := r.runs(t, 1)[0]
				assert.Equal(t, 2-missing, run.get(semconv.RunRequestsKey))
				d := r.Diagnosis()
				assert.Equal(t, semconv.RunOutcomeFailed, d.Outcome)
				assert.Equal(t, classify.UserConfirmedRetry, d.Retry.Safety)
				assert.Equal(t, classify.UserConfirmedRetry.String(), run.get(semconv.RetrySafetyKey))
				if name != "gemini" || missing == 0 { // it has no ids that show which tools ran
					assert.Equal(t, semconv.RetryReasonToolStateUnknown, d.Retry.Reason)
				}
			})
		}
	}
}

// A run of a client that sends an id of its conversation is sampled as a whole, or not at
// all.
func TestInferredRunIsSampledAsAWhole(t *testing.T) {
	const id = "call_0f9a8b7c6d5e4f30"
	words := agentWords["chat"]
	r := newRecorder(t, sdktrace.WithSampler(&notSampled{from: 1, until: 2}))
	s := script{}
	url, rt := s.start(t)+words.path, inferring(r, time.Minute).NewTransport(base(t))
	send := func(session, body string, answer func(http.ResponseWriter)) {
		s.answers = append(s.answers, answer)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Session-Id", session)
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	send("one", words.body("fix it", 0, id), streamed(words.text))
	send("two", words.body("fix it", 0, id), streamed(words.call(id)))
	send("two", words.body("fix it", 1, id), unavailable)
	send("two", words.body("fix it", 1, id), streamed(words.call(id)))
	send("two", words.body("fix it", 2, id), streamed(words.text))
	send("three", words.body("fix it", 0, id), streamed(words.text))
	runs := r.runs(t, 2)
	assert.Equal(t, "one", runs[0].get("gen_ai.conversation.id"))
	assert.Equal(t, "three", runs[1].get("gen_ai.conversation.id"))
	assert.Len(t, r.requests(), 2)
}
