package llmclassify

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// words are what a span says of its run and of itself; empty where it says nothing.
func (v verdict) words() string {
	words := []string{}
	if v.outcome != semconv.RunOutcomeUnset {
		words = append(words, v.outcome.String())
	}
	if v.class != semconv.ClassUnset {
		words = append(words, v.class.String()+"/"+v.cause.String(), v.safety.String())
	}
	return strings.Join(words, " ")
}

// TestCompletionUnnamed is TestCompletion for spans of the GenAI conventions, which
// name no run and announce nothing: whose a span is, parents and times have to tell.
// One span a call, in every order or some of many, each span once and twice.
func TestCompletionUnnamed(t *testing.T) {
	const (
		refused    = "provider_error/rate_limited user_confirmed_retry"
		limited    = "output_limited/max_output_tokens no_retry"
		lost       = "stream_interrupted/connection_reset user_confirmed_retry"
		wentWell   = "succeeded"
		recovered  = "recovered"
		incomplete = "incomplete unclassified/unknown user_confirmed_retry"
	)
	rateLimited := func(id, parent byte, from, to float64) spanSpec {
		return chatSpan(id, parent, from, to).failed("RateLimitError").with(otelsemconv.HTTPResponseStatusCode(429))
	}
	reset := func(id, parent byte, from, to float64) spanSpec {
		return chatSpan(id, parent, from, to).streaming().failed("ECONNRESET")
	}
	for _, tt := range []struct {
		name  string
		runs  int
		spans []spanSpec
		want  map[byte]string
	}{
		{
			"several runs in a trace", 2,
			[]spanSpec{
				rateLimited(2, 1, 0.1, 0.3), chatSpan(3, 1, 0.4, 1).finished("stop"), agentSpan(1, 0, 0, 3),
				chatSpan(12, 11, 4, 5).finished("length"), agentSpan(11, 0, 3.5, 6),
			},
			map[byte]string{2: refused, 1: recovered, 12: limited, 11: "limited " + limited},
		},
		{
			"runs at the same time in a trace", 2,
			[]spanSpec{
				reset(2, 1, 1, 2).failed("ECONNRESET"), agentSpan(1, 9, 0, 4).failed("ECONNRESET"),
				chatSpan(12, 11, 1, 2).finished("stop"), agentSpan(11, 9, 0, 4), otherSpan(9, 0, 0, 5),
			},
			map[byte]string{2: lost, 1: "failed " + lost, 11: wentWell},
		},
		{
			"an agent as a tool of another", 2,
			[]spanSpec{
				chatSpan(2, 1, 0.1, 1).finished("tool_use"), callSpan(3, 1, 1.1, 2.5, "call_1"),
				reset(11, 10, 1.3, 1.4), agentSpan(10, 3, 1.2, 2.4).failed("ECONNRESET"),
				chatSpan(4, 1, 2.6, 2.9).finished("end_turn"), agentSpan(1, 0, 0, 3),
			},
			map[byte]string{11: lost, 10: "failed " + lost, 1: wentWell},
		},
		{
			"a run whose spans come from several services", 1,
			[]spanSpec{
				chatSpan(2, 1, 0.1, 1).finished("tool_use").in("worker"), callSpan(3, 1, 1.1, 1.9, "call_1").in("tools"),
				rateLimited(4, 3, 1.2, 1.3).in("tools"), chatSpan(5, 3, 1.4, 1.8).finished("stop").in("tools"),
				chatSpan(6, 1, 2, 2.5).finished("stop").in("worker"), agentSpan(1, 0, 0, 3),
			},
			map[byte]string{4: refused, 1: recovered},
		},
		{
			"a service whose clock is ahead", 1,
			[]spanSpec{
				rateLimited(2, 1, 100.1, 100.2).in("worker"), chatSpan(3, 1, 100.3, 101).finished("stop").in("worker"), agentSpan(1, 0, 0, 3),
			},
			map[byte]string{2: refused, 1: recovered},
		},
		{
			"a service whose clock is behind, and a parent that never comes", 1,
			[]spanSpec{
				rateLimited(2, 99, 9.2, 9.4).in("worker"), chatSpan(3, 99, 9.5, 10.2).finished("stop").in("worker"), agentSpan(1, 0, 10, 13),
			},
			map[byte]string{2: refused, 1: recovered},
		},
		{
			"a parent that never comes", 1,
			[]spanSpec{reset(2, 99, 0.1, 0.3), chatSpan(3, 98, 0.4, 1).finished("stop"), agentSpan(1, 0, 0, 3)},
			map[byte]string{2: lost, 1: recovered},
		},
		{
			"a parent that passed by", 1,
			[]spanSpec{
				reset(2, 8, 0.1, 0.3), otherSpan(8, 1, 0.05, 0.35), callSpan(4, 8, 0.31, 0.33, "call_1"),
				chatSpan(3, 1, 0.4, 1).finished("stop"), agentSpan(1, 0, 0, 3),
			},
			map[byte]string{2: lost, 1: recovered},
		},
		{
			"parents in a circle", 1,
			[]spanSpec{
				rateLimited(2, 3, 0.1, 0.3), chatSpan(3, 2, 0.4, 1).finished("stop"), chatSpan(5, 1, 1.1, 2).finished("stop"), agentSpan(1, 0, 0, 3),
			},
			map[byte]string{2: refused, 1: wentWell}, // whose the two are cannot be told
		},
		{
			"a span that is its own parent", 1,
			[]spanSpec{chatSpan(2, 1, 0.1, 1).finished("length"), agentSpan(1, 1, 0, 3)},
			map[byte]string{2: limited, 1: "limited " + limited},
		},
		{
			"a request that is its own parent", 1,
			[]spanSpec{chatSpan(2, 2, 0.1, 1).finished("length"), chatSpan(3, 1, 1.1, 2).finished("stop"), agentSpan(1, 0, 0, 3)},
			map[byte]string{2: limited, 1: wentWell},
		},
		{
			"a request alone, at the root, and one alone beneath a span that passed by", 1,
			[]spanSpec{
				chatSpan(2, 0, 0.1, 1).finished("length"), rateLimited(4, 8, 10, 10.2), otherSpan(8, 0, 9, 12),
				agentSpan(1, 0, 0, 3),
			},
			map[byte]string{2: limited, 4: refused, 1: incomplete},
		},
		{
			"times that are not set", 1,
			[]spanSpec{chatSpan(2, 1, -t0Seconds, -t0Seconds).finished("length"), agentSpan(1, 0, -t0Seconds, -t0Seconds)},
			map[byte]string{2: limited, 1: "limited " + limited},
		},
		{
			"a run of which no other span comes", 1,
			[]spanSpec{agentSpan(1, 99, 0, 3)},
			map[byte]string{1: incomplete},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for n, order := range orders(len(tt.spans)) {
				h := newHarness(t, defaultConfig(), nil)
				sent := 0
				for _, i := range order {
					for range n%2 + 1 {
						h.consume(t, tt.spans[i])
						sent++
					}
					h.pass(t, 10*time.Millisecond)
				}
				h.pass(t, xMaxHold)
				require.Equal(t, sent, h.out().SpanCount(), "order %v", order)
				runs := 0
				found := map[byte]string{}
				eachSpan(h.out(), func(span ptrace.Span) {
					v := verdictOf(span)
					if v.outcome != semconv.RunOutcomeUnset {
						runs++
					}
					if said := v.words(); said != "" {
						if before, ok := found[span.SpanID()[7]]; ok && v.outcome == semconv.RunOutcomeUnset {
							require.Contains(t, before, said, "the second delivery says what the first does")
							return
						}
						found[span.SpanID()[7]] = said
					}
				})
				require.Equal(t, tt.want, found, "order %v", order)
				require.Equal(t, tt.runs, runs, "a run is judged once, order %v", order)
				h.pass(t, xRunTimeout)
				require.Empty(t, abandonedSpans(h.out()), "order %v", order)
				require.Equal(t, telemetry.Load{}, h.Load(), "order %v", order)
			}
		})
	}
}

func eachSpan(td ptrace.Traces, do func(ptrace.Span)) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				do(span)
			}
		}
	}
}

// A retry after a long back-off, of a producer that names no run: the failed
// request's span has long gone, and with it all but its facts.
func TestRetryAfterLongBackOffUnnamed(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, chatSpan(2, 1, 0.1, 0.4).failed("RateLimitError").with(otelsemconv.HTTPResponseStatusCode(429)))
	h.pass(t, xMaxHold)
	v := verdictOf(spansOf(h.out())[spanID(2)])
	assert.Equal(t, semconv.CauseRateLimited, v.cause)
	assert.Equal(t, semconv.TriggerHoldExpired, v.trigger)
	h.pass(t, 15*time.Minute)
	h.consume(t, chatSpan(3, 1, 930, 931).finished("stop"))
	h.consume(t, agentSpan(1, 0, 0, 932))
	h.pass(t, xSettle)
	v = verdictOf(spansOf(h.out())[spanID(1)])
	assert.Equal(t, semconv.RunOutcomeRecovered, v.outcome)
	assert.Equal(t, 1, v.recovered)
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// A run that lasts for hours is judged on all of its requests, as long as it is
// heard of within run_timeout.
func TestRunOfHours(t *testing.T) {
	const requests = 6
	every := xRunTimeout - xMaxHold
	h := newHarness(t, defaultConfig(), nil)
	for i := range requests {
		id, from := byte(i+2), float64(i)*every.Seconds()
		r := requestSpan(id, 1, from, from+1)
		if i == 1 {
			r = r.cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{})
		} else {
			r = r.answered("stop", answer)
		}
		h.consume(t, r)
		h.pass(t, xMaxHold)
		require.Contains(t, spansOf(h.out()), spanID(id), "its span is out within max_hold")
		h.pass(t, every-xMaxHold)
	}
	h.consume(t, runSpan(1, 0, requests*every.Seconds(), requests, 0))
	span := spansOf(h.out())[spanID(1)]
	assert.Equal(t, ran(semconv.RunOutcomeRecovered, 1), verdictOf(span))
	timeline, _ := span.Attributes().Get(string(semconv.RunTimelineKey))
	assert.Contains(t, timeline.Slice().AsRaw(), "+17850.000s request 6: sent")
	h.pass(t, xRunTimeout)
	assert.Empty(t, abandonedSpans(h.out()))
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// A run that is silent for longer than run_timeout is judged without its end, and that
// once, however often it is heard of and silent again.
func TestRunSilentAgainAndAgain(t *testing.T) {
	const requests = 8
	every := xRunTimeout + xMaxHold
	h := newHarness(t, defaultConfig(), nil)
	for i := range requests {
		id, from := byte(i+2), float64(i)*every.Seconds()
		h.consume(t, requestSpan(id, 1, from, from+1).answered("stop", answer))
		h.pass(t, every)
		if i > 0 {
			require.Equal(t, early(semconv.TriggerLate), verdictOf(spansOf(h.out())[spanID(id)]))
		}
		require.Len(t, abandonedSpans(h.out()), 1)
	}
	h.consume(t, runSpan(1, 0, requests*every.Seconds(), requests, 0))
	assert.Equal(t, early(semconv.TriggerLate), verdictOf(spansOf(h.out())[spanID(1)]))
	h.pass(t, 2*xRunTimeout)
	assert.Len(t, abandonedSpans(h.out()), 1)
	assert.Equal(t, telemetry.Load{}, h.Load())
}
