package verdicts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// TestCompletionWithoutRunID is TestCompletion for spans of the GenAI conventions, which
// name no run and announce nothing: whose a span is, parents and times have to tell.
// One span a call, in every order or some of many, each span once and twice.
func TestCompletionWithoutRunID(t *testing.T) {
	const (
		refused    = "provider_error/rate_limited user_confirmed_retry"
		limited    = "output_limited/max_output_tokens no_retry"
		lost       = "stream_interrupted/connection_reset user_confirmed_retry"
		wentWell   = "succeeded"
		recovered  = "recovered"
		incomplete = "incomplete unclassified/unknown user_confirmed_retry"
	)
	rateLimited := func(id, parent byte, from, to float64) harness.Span {
		return harness.ChatSpan(id, parent, from, to).Failed("RateLimitError").With(otelsemconv.HTTPResponseStatusCode(429))
	}
	reset := func(id, parent byte, from, to float64) harness.Span {
		return harness.ChatSpan(id, parent, from, to).Streaming().Failed("ECONNRESET")
	}
	for _, tt := range []struct {
		name  string
		runs  int
		spans []harness.Span
		want  map[byte]string
	}{
		{
			"several runs in a trace", 2,
			[]harness.Span{
				rateLimited(2, 1, 0.1, 0.3), harness.ChatSpan(3, 1, 0.4, 1).Finished("stop"), harness.AgentSpan(1, 0, 0, 3),
				harness.ChatSpan(12, 11, 4, 5).Finished("length"), harness.AgentSpan(11, 0, 3.5, 6),
			},
			map[byte]string{2: refused, 1: recovered, 12: limited, 11: "limited " + limited},
		},
		{
			"runs at the same time in a trace", 2,
			[]harness.Span{
				reset(2, 1, 1, 2).Failed("ECONNRESET"), harness.AgentSpan(1, 9, 0, 4).Failed("ECONNRESET"),
				harness.ChatSpan(12, 11, 1, 2).Finished("stop"), harness.AgentSpan(11, 9, 0, 4), harness.OtherSpan(9, 0, 0, 5),
			},
			map[byte]string{2: lost, 1: "failed " + lost, 11: wentWell},
		},
		{
			"an agent as a tool of another", 2,
			[]harness.Span{
				harness.ChatSpan(2, 1, 0.1, 1).Finished("tool_use"), harness.CallSpan(3, 1, 1.1, 2.5, "call_1"),
				reset(11, 10, 1.3, 1.4), harness.AgentSpan(10, 3, 1.2, 2.4).Failed("ECONNRESET"),
				harness.ChatSpan(4, 1, 2.6, 2.9).Finished("end_turn"), harness.AgentSpan(1, 0, 0, 3),
			},
			map[byte]string{11: lost, 10: "failed " + lost, 1: wentWell},
		},
		{
			"a run whose spans come from several services", 1,
			[]harness.Span{
				harness.ChatSpan(2, 1, 0.1, 1).Finished("tool_use").In("worker"), harness.CallSpan(3, 1, 1.1, 1.9, "call_1").In("tools"),
				rateLimited(4, 3, 1.2, 1.3).In("tools"), harness.ChatSpan(5, 3, 1.4, 1.8).Finished("stop").In("tools"),
				harness.ChatSpan(6, 1, 2, 2.5).Finished("stop").In("worker"), harness.AgentSpan(1, 0, 0, 3),
			},
			map[byte]string{4: refused, 1: recovered},
		},
		{
			"a service whose clock is ahead", 1,
			[]harness.Span{
				rateLimited(2, 1, 100.1, 100.2).In("worker"), harness.ChatSpan(3, 1, 100.3, 101).Finished("stop").In("worker"), harness.AgentSpan(1, 0, 0, 3),
			},
			map[byte]string{2: refused, 1: recovered},
		},
		{
			"a service whose clock is behind, and a parent that never comes", 1,
			[]harness.Span{
				rateLimited(2, 99, 9.2, 9.4).In("worker"), harness.ChatSpan(3, 99, 9.5, 10.2).Finished("stop").In("worker"), harness.AgentSpan(1, 0, 10, 13),
			},
			map[byte]string{2: refused, 1: recovered},
		},
		{
			"a parent that never comes", 1,
			[]harness.Span{reset(2, 99, 0.1, 0.3), harness.ChatSpan(3, 98, 0.4, 1).Finished("stop"), harness.AgentSpan(1, 0, 0, 3)},
			map[byte]string{2: lost, 1: recovered},
		},
		{
			"a parent that passed by", 1,
			[]harness.Span{
				reset(2, 8, 0.1, 0.3), harness.OtherSpan(8, 1, 0.05, 0.35), harness.CallSpan(4, 8, 0.31, 0.33, "call_1"),
				harness.ChatSpan(3, 1, 0.4, 1).Finished("stop"), harness.AgentSpan(1, 0, 0, 3),
			},
			map[byte]string{2: lost, 1: recovered},
		},
		{
			"parents in a circle", 1,
			[]harness.Span{
				rateLimited(2, 3, 0.1, 0.3), harness.ChatSpan(3, 2, 0.4, 1).Finished("stop"), harness.ChatSpan(5, 1, 1.1, 2).Finished("stop"), harness.AgentSpan(1, 0, 0, 3),
			},
			map[byte]string{2: refused, 1: wentWell}, // whose the two are cannot be told
		},
		{
			"a span that is its own parent", 1,
			[]harness.Span{harness.ChatSpan(2, 1, 0.1, 1).Finished("length"), harness.AgentSpan(1, 1, 0, 3)},
			map[byte]string{2: limited, 1: "limited " + limited},
		},
		{
			"a request that is its own parent", 1,
			[]harness.Span{harness.ChatSpan(2, 2, 0.1, 1).Finished("length"), harness.ChatSpan(3, 1, 1.1, 2).Finished("stop"), harness.AgentSpan(1, 0, 0, 3)},
			map[byte]string{2: limited, 1: wentWell},
		},
		{
			"a request alone, at the root, and one alone beneath a span that passed by", 1,
			[]harness.Span{
				harness.ChatSpan(2, 0, 0.1, 1).Finished("length"), rateLimited(4, 8, 10, 10.2), harness.OtherSpan(8, 0, 9, 12),
				harness.AgentSpan(1, 0, 0, 3),
			},
			map[byte]string{2: limited, 4: refused, 1: incomplete},
		},
		{
			"times that are not set", 1,
			[]harness.Span{harness.ChatSpan(2, 1, -t0Seconds, -t0Seconds).Finished("length"), harness.AgentSpan(1, 0, -t0Seconds, -t0Seconds)},
			map[byte]string{2: limited, 1: "limited " + limited},
		},
		{
			"a run of which no other span comes", 1,
			[]harness.Span{harness.AgentSpan(1, 99, 0, 3)},
			map[byte]string{1: incomplete},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for n, order := range orders(len(tt.spans)) {
				h := harness.New(t, harness.DefaultConfig(), nil)
				sent := 0
				for _, i := range order {
					for range n%2 + 1 {
						h.Consume(t, tt.spans[i])
						sent++
					}
					h.Pass(t, 10*time.Millisecond)
				}
				h.Pass(t, harness.MaxHold)
				require.Equal(t, sent, h.Out().SpanCount(), "order %v", order)
				runs := 0
				found := map[byte]string{}
				harness.EachSpan(h.Out(), func(span ptrace.Span) {
					v := harness.VerdictOf(span)
					if v.Outcome != semconv.RunOutcomeUnset {
						runs++
					}
					if said := v.Words(); said != "" {
						if before, ok := found[span.SpanID()[7]]; ok && v.Outcome == semconv.RunOutcomeUnset {
							require.Contains(t, before, said, "the second delivery says what the first does")
							return
						}
						found[span.SpanID()[7]] = said
					}
				})
				require.Equal(t, tt.want, found, "order %v", order)
				require.Equal(t, tt.runs, runs, "a run is judged once, order %v", order)
				h.Pass(t, harness.RunTimeout)
				require.Empty(t, harness.AbandonedSpans(h.Out()), "order %v", order)
				require.Equal(t, telemetry.Load{}, h.Load(), "order %v", order)
			}
		})
	}
}

// A retry after a long back-off, of a producer that names no run: the failed
// request's span has long gone, and with it all but its facts.
func TestRetryAfterLongBackOffWithoutRunID(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.ChatSpan(2, 1, 0.1, 0.4).Failed("RateLimitError").With(otelsemconv.HTTPResponseStatusCode(429)))
	h.Pass(t, harness.MaxHold)
	v := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(2)])
	assert.Equal(t, semconv.CauseRateLimited, v.Cause)
	assert.Equal(t, semconv.TriggerHoldExpired, v.Trigger)
	h.Pass(t, 15*time.Minute)
	h.Consume(t, harness.ChatSpan(3, 1, 930, 931).Finished("stop"))
	h.Consume(t, harness.AgentSpan(1, 0, 0, 932))
	h.Pass(t, harness.Settle)
	v = harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)])
	assert.Equal(t, semconv.RunOutcomeRecovered, v.Outcome)
	assert.Equal(t, 1, v.Recovered)
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// A run that lasts for hours is judged on all of its requests, as long as it is
// heard of within run_timeout.
func TestRunOfHours(t *testing.T) {
	const requests = 6
	every := harness.RunTimeout - harness.MaxHold
	h := harness.New(t, harness.DefaultConfig(), nil)
	for i := range requests {
		id, from := byte(i+2), float64(i)*every.Seconds()
		r := harness.RequestSpan(id, 1, from, from+1)
		if i == 1 {
			r = r.Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{})
		} else {
			r = r.Answered("stop", harness.Answer)
		}
		h.Consume(t, r)
		h.Pass(t, harness.MaxHold)
		require.Contains(t, harness.SpansOf(h.Out()), harness.SpanID(id), "its span is out within max_hold")
		h.Pass(t, every-harness.MaxHold)
	}
	h.Consume(t, harness.RunSpan(1, 0, requests*every.Seconds(), requests, 0))
	span := harness.SpansOf(h.Out())[harness.SpanID(1)]
	assert.Equal(t, harness.Ran(semconv.RunOutcomeRecovered, 1), harness.VerdictOf(span))
	timeline, _ := span.Attributes().Get(string(semconv.RunTimelineKey))
	assert.Contains(t, timeline.Slice().AsRaw(), "+17850.000s request 6: sent")
	h.Pass(t, harness.RunTimeout)
	assert.Empty(t, harness.AbandonedSpans(h.Out()))
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// A run that is silent for longer than run_timeout is judged without its end, and that
// once, however often it is heard of and silent again.
func TestRunSilentAgainAndAgain(t *testing.T) {
	const requests = 8
	every := harness.RunTimeout + harness.MaxHold
	h := harness.New(t, harness.DefaultConfig(), nil)
	for i := range requests {
		id, from := byte(i+2), float64(i)*every.Seconds()
		h.Consume(t, harness.RequestSpan(id, 1, from, from+1).Answered("stop", harness.Answer))
		h.Pass(t, every)
		if i > 0 {
			require.Equal(t, harness.EarlyVerdict(semconv.TriggerLate), harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(id)]))
		}
		require.Len(t, harness.AbandonedSpans(h.Out()), 1)
	}
	h.Consume(t, harness.RunSpan(1, 0, requests*every.Seconds(), requests, 0))
	assert.Equal(t, harness.EarlyVerdict(semconv.TriggerLate), harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]))
	h.Pass(t, 2*harness.RunTimeout)
	assert.Len(t, harness.AbandonedSpans(h.Out()), 1)
	assert.Equal(t, telemetry.Load{}, h.Load())
}
