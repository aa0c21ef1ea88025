package llmclassify

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// abandonedSpans are the spans of td that stand for runs whose end never came.
func abandonedSpans(td ptrace.Traces) (found []ptrace.Span) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if span.Name() == semconv.SpanRunAbandoned {
					found = append(found, span)
				}
			}
		}
	}
	return found
}

// Acceptance case 22: the process was killed, and its run span never comes. Its
// spans go out with their own verdicts, and the run is judged once, on a span of
// no length beneath the run's id.
func TestRunAbandoned(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	parts := []spanSpec{
		requestSpan(2, 1, 0.1, 1).answered("tool_calls", counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"call_1"}}),
		toolSpan(3, 1.1, 1.9, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded),
		requestSpan(4, 1, 2, 40).history([]string{"call_1"}, []string{"call_1"}).answered("stop", answer),
	}
	h.consume(t, parts[:2]...)
	h.pass(t, xMaxHold)
	h.consume(t, parts[2])
	h.pass(t, xMaxHold)
	before := h.out()
	out := spansOf(before)
	require.Len(t, out, 3)
	for _, span := range out {
		assert.Equal(t, early(semconv.TriggerHoldExpired), verdictOf(span), "nothing failed in it")
	}
	h.sink.Reset()
	h.pass(t, xRunTimeout-xMaxHold-1)
	require.Empty(t, h.sink.AllTraces(), "it was heard of less than an hour ago")
	h.pass(t, 1)

	td := h.out()
	require.Equal(t, 1, td.SpanCount())
	span := abandonedSpans(td)[0]
	want := failure(semconv.ClassRunAbandoned, semconv.CauseMissingEnd, semconv.PhaseUnknown, semconv.OriginUnknown).
		because(confirm, semconv.RetryReasonToolSideEffect).on(semconv.RunOutcomeIncomplete)
	want.trigger, want.confidence = semconv.TriggerRunExpired, semconv.ConfidenceLow
	assert.Equal(t, want, verdictOf(span))
	assert.Equal(t, traceID(1), span.TraceID())
	assert.Equal(t, spanID(1), span.ParentSpanID())
	assert.False(t, span.SpanID().IsEmpty())
	assert.Equal(t, at(40), span.StartTimestamp(), "when it was last heard of")
	assert.Equal(t, span.StartTimestamp(), span.EndTimestamp())
	assert.Equal(t, ptrace.SpanKindInternal, span.Kind())
	service, _ := td.ResourceSpans().At(0).Resource().Attributes().Get(string(otelsemconv.ServiceNameKey))
	assert.Equal(t, agentService, service.Str())
	timeline, ok := span.Attributes().Get(string(semconv.RunTimelineKey))
	require.True(t, ok)
	assert.Positive(t, timeline.Slice().Len())
	assert.Equal(t, telemetry.Load{}, h.Load())
	checkGolden(t, "22_run_abandoned", tracesOf(t, parts...), append2(before, td))

	h.sink.Reset()
	h.consume(t, runSpan(1, 0, 41, 2, 1))
	assert.Equal(t, map[byte]verdict{1: early(semconv.TriggerLate)}, verdicts(h.out()), "a run is judged once")
}

// append2 is both, one after the other.
func append2(a, b ptrace.Traces) ptrace.Traces {
	all := ptrace.NewTraces()
	for _, td := range []ptrace.Traces{a, b} {
		for _, rs := range td.ResourceSpans().All() {
			rs.CopyTo(all.ResourceSpans().AppendEmpty())
		}
	}
	return all
}

// verdicts are what the spans of td say, by span.
func verdicts(td ptrace.Traces) map[byte]verdict {
	found := map[byte]verdict{}
	for id, span := range spansOf(td) {
		if v := verdictOf(span); span.Name() != semconv.SpanRunAbandoned {
			found[id[7]] = v
		}
	}
	return found
}

// A failure that its requests tell of is the abandoned run's.
func TestRunAbandonedAfterFailure(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, requestSpan(2, 1, 0.1, 2).cut(semconv.PhaseReasoning, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{reasoning: 2}))
	h.pass(t, xRunTimeout)
	spans := abandonedSpans(h.out())
	require.Len(t, spans, 1)
	v := verdictOf(spans[0])
	assert.Equal(t, semconv.CauseConnectionReset, v.cause)
	assert.Equal(t, semconv.RunOutcomeFailed, v.outcome)
	assert.Equal(t, semconv.TriggerRunExpired, v.trigger)
}

// LLM spans whose parent is never seen are judged as a run in the end, too; that it
// was abandoned is not known.
func TestParentNeverSeen(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, chatSpan(2, 9, 0.1, 0.4).failed("RateLimitError"), chatSpan(3, 9, 0.5, 1).finished("stop"))
	h.pass(t, xRunTimeout)
	spans := abandonedSpans(h.out())
	require.Len(t, spans, 1)
	assert.Equal(t, verdict{outcome: semconv.RunOutcomeRecovered, recovered: 1, trigger: semconv.TriggerRunExpired}, verdictOf(spans[0]))
	assert.Equal(t, spanID(9), spans[0].ParentSpanID())
}

// Runs in one trace expire each in its own time, and a run that is heard of lives.
func TestSeveralRunsExpire(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer), requestSpan(12, 11, 0.1, 1).answered("stop", answer))
	for range 4 {
		h.pass(t, xRunTimeout/2)
		h.consume(t, requestSpan(12, 11, 3000, 3001).answered("stop", answer)) // sent again and again: a sign of life
	}
	spans := abandonedSpans(h.out())
	require.Len(t, spans, 1)
	assert.Equal(t, spanID(1), spans[0].ParentSpanID())
	h.consume(t, runSpan(11, 0, 5000, 1, 0))
	assert.Equal(t, semconv.RunOutcomeSucceeded, outcomes(h.out())[11])
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// TestCompletion sends whole traces, one span a call, in every order or some of
// many, each span twice, and looks at what is said in the end.
func TestCompletion(t *testing.T) {
	call := counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"call_1"}}
	cutOff := func(s spanSpec) spanSpec {
		return s.cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{})
	}
	for _, tt := range []struct {
		name  string
		spans []spanSpec
		want  map[byte]semconv.RunOutcome
	}{
		{
			name: "several runs in a trace",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 1).answered("stop", answer), runSpan(1, 0, 3, 1, 0),
				requestSpan(12, 11, 4, 5).answered("length", answer), runSpan(11, 3.5, 6, 1, 0),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded, 11: semconv.RunOutcomeLimited},
		},
		{
			name: "an agent as a tool of another",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 1).answered("tool_calls", call),
				toolSpan(3, 1.1, 5, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded),
				runSpan(11, 1.2, 4.8, 1, 0).under(3), cutOff(requestSpan(12, 11, 1.3, 2)),
				requestSpan(4, 1, 5.1, 6).history([]string{"call_1"}, []string{"call_1"}).answered("stop", answer),
				runSpan(1, 0, 7, 2, 1),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded, 11: semconv.RunOutcomeFailed},
		},
		{
			name: "a run whose spans come from several services",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 1).answered("tool_calls", call),
				toolSpan(3, 1.1, 1.9, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded).in("tools"),
				cutOff(requestSpan(4, 1, 2, 2.5).history([]string{"call_1"}, []string{"call_1"}).in("worker")),
				requestSpan(5, 1, 2.6, 3).with(semconv.RequestAttempt(2)).history([]string{"call_1"}, []string{"call_1"}).answered("stop", answer).in("worker"),
				runSpan(1, 0, 4, 3, 1),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeRecovered},
		},
		{
			name: "a service whose clock is ahead",
			spans: []spanSpec{
				cutOff(requestSpan(2, 1, 100.1, 100.4).in("worker")),
				requestSpan(3, 1, 100.5, 101).with(semconv.RequestAttempt(2)).answered("stop", answer).in("worker"),
				runSpan(1, 0, 3, 2, 0),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeRecovered},
		},
		{
			name: "times that are not set",
			spans: []spanSpec{
				requestSpan(2, 1, -t0Seconds, -t0Seconds).answered("stop", answer), runSpan(1, -t0Seconds, -t0Seconds, 1, 0),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded},
		},
		{
			name: "a span that ends before it starts",
			spans: []spanSpec{
				requestSpan(2, 1, 2, 0.1).answered("stop", answer), runSpan(1, 3, 0, 1, 0),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded},
		},
		{
			name: "parents in a circle",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 1).answered("stop", answer).under(3),
				requestSpan(3, 1, 1.1, 2).answered("stop", answer).under(2),
				runSpan(1, 0, 3, 2, 0).under(2),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded},
		},
		{
			name: "a span that is its own parent",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 1).answered("stop", answer).under(2), runSpan(1, 0, 3, 1, 0).under(1),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded},
		},
		{
			name: "a request that names its run and hangs under nothing",
			spans: []spanSpec{
				requestSpan(2, 1, 0.1, 1).answered("stop", answer).under(0), runSpan(1, 0, 3, 1, 0).under(77),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded},
		},
		{
			name: "a run id of zeros is not one",
			spans: []spanSpec{
				requestSpan(2, 0, 0.1, 1).answered("stop", answer).with(semconv.RunID("0000000000000000")).under(1), agentSpan(1, 0, 0, 3),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for n, order := range orders(len(tt.spans)) {
				h := newHarness(t, defaultConfig(), nil)
				sent := 0
				for _, i := range order {
					h.consume(t, tt.spans[i])
					sent++
					if n%2 == 1 {
						h.consume(t, tt.spans[i]) // delivered twice
						sent++
					}
					h.pass(t, 10*time.Millisecond)
				}
				h.pass(t, xMaxHold)
				out := h.out()
				require.Equal(t, sent, out.SpanCount(), "order %v", order)
				found := map[byte]semconv.RunOutcome{}
				judged := 0
				for _, rs := range out.ResourceSpans().All() {
					for _, span := range rs.ScopeSpans().At(0).Spans().All() {
						if v := verdictOf(span); v.outcome != semconv.RunOutcomeUnset {
							found[span.SpanID()[7]] = v.outcome
							judged++
						}
					}
				}
				assert.Equal(t, tt.want, found, "order %v", order)
				assert.Len(t, tt.want, judged, "once each, order %v", order)
				h.pass(t, xRunTimeout)
				assert.Empty(t, abandonedSpans(h.out()), "order %v", order)
				assert.Equal(t, telemetry.Load{}, h.Load(), "order %v", order)
			}
		})
	}
}

// t0Seconds makes a time that is not set.
var t0Seconds = float64(t0.Unix())

// orders are all of a few, or some of many.
func orders(n int) (list [][]int) {
	first := make([]int, n)
	for i := range first {
		first[i] = i
	}
	var permute func(k int, order []int)
	permute = func(k int, order []int) {
		if k == n {
			list = append(list, slices.Clone(order))
			return
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			permute(k+1, order)
			order[k], order[i] = order[i], order[k]
		}
	}
	permute(0, first)
	if len(list) > 120 {
		var some [][]int
		for i := 0; i < len(list); i += len(list)/120 + 1 {
			some = append(some, list[i])
		}
		return some
	}
	return list
}

// A retry after a long back-off makes the failure good, long after the failed
// request's span has gone.
func TestRetryAfterLongBackOff(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, requestSpan(2, 1, 0.1, 0.4).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded").with(semconv.RetryAfter(540)))
	h.pass(t, xMaxHold)
	v := verdictOf(spansOf(h.out())[spanID(2)])
	assert.Equal(t, semconv.CauseRateLimited, v.cause)
	assert.Equal(t, semconv.TriggerHoldExpired, v.trigger)
	h.pass(t, 9*time.Minute)
	h.consume(t, requestSpan(3, 1, 570, 571).with(semconv.RequestAttempt(2)).answered("stop", answer), runSpan(1, 0, 572, 2, 0))
	assert.Equal(t, ran(semconv.RunOutcomeRecovered, 1), verdictOf(spansOf(h.out())[spanID(1)]))
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// A span beneath one whose run was judged is late, whatever lies between them.
func TestLateBeneathWhatWasJudged(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, otherSpan(9, 2, 0.1, 0.2), requestSpan(2, 1, 0.1, 1).answered("stop", answer), runSpan(1, 0, 3, 1, 0))
	h.sink.Reset()
	h.pass(t, 10*time.Second)
	h.consume(t, chatSpan(6, 2, 0.3, 0.5).in(gatewayService), chatSpan(7, 9, 0.3, 0.5).finished("length").in(gatewayService))
	got := verdicts(h.out())
	require.Len(t, got, 2)
	assert.Equal(t, early(semconv.TriggerLate), got[6])
	assert.Equal(t, semconv.TriggerLate, got[7].trigger)
	assert.Equal(t, semconv.CauseMaxOutputTokens, got[7].cause)
	h.pass(t, xRunTimeout)
	assert.Empty(t, abandonedSpans(h.out()), "a run is judged once")
}

// TestLaggingShard: a run whose end has come, and waits for its shard, is not given up.
func TestLaggingShard(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer))
	h.clock.advance(xMaxHold)
	require.NoError(t, h.inside.ConsumeTraces(t.Context(), tracesOf(t, runSpan(1, 0, 2, 1, 0))))
	require.Zero(t, h.sink.SpanCount(), "the shard has not had its turn")
	for h.Shards[0].Turn(t.Context()) {
	}
	out := spansOf(h.out())
	require.Len(t, out, 2)
	assert.Equal(t, verdict{outcome: semconv.RunOutcomeSucceeded, trigger: semconv.TriggerComplete}, verdictOf(out[spanID(1)]))
	assert.Zero(t, verdictOf(out[spanID(2)]), "nor does its request go early")
}
