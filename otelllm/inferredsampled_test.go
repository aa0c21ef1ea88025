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

// A run whose first request was not sampled begins in its middle, if nothing was recorded
// before. The history of what is recorded shows that tools ran: its verdict is as careful as
// that of the complete run.
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

// Once a run is known, the others are sampled as a whole, or not at all.
func TestInferredRunIsSampledAsAWhole(t *testing.T) {
	const id = "call_0f9a8b7c6d5e4f30"
	words := agentWords["chat"]
	for _, header := range []string{"", "Session-Id"} {
		r := newRecorder(t, sdktrace.WithSampler(&notSampled{from: 1, until: 2}))
		s := script{}
		with := inferring(r, time.Minute)
		url, rt := s.start(t)+words.path, with.NewTransport(base(t))
		send := func(agent string, n int, answer func(http.ResponseWriter)) {
			s.mu.Lock()
			s.answers = append(s.answers, answer)
			s.mu.Unlock()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(words.body(agent, n, id)))
			require.NoError(t, err)
			if header != "" {
				req.Header.Set(header, agent)
			}
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		send("one", 0, streamed(words.text))
		send("two", 0, streamed(words.call(id)))
		send("two", 1, unavailable)
		send("two", 1, streamed(words.call(id)))
		send("two", 2, streamed(words.text))
		send("three", 0, streamed(words.text))
		with.EndInferredRuns()
		for _, run := range r.runs(t, 2) {
			assert.Equal(t, int64(1), run.get(semconv.RunRequestsKey))
		}
		assert.Len(t, r.requests(), 2, header)
	}
}
