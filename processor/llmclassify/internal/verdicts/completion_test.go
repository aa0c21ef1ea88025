package verdicts

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// Acceptance case 22: the process was killed, and its run span never comes. Its
// spans go out with their own verdicts, and the run is judged once, on a span of
// no length beneath the run's id.
func TestRunAbandoned(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	parts := []harness.Span{
		harness.RequestSpan(2, 1, 0.1, 1).Answered("tool_calls", harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"call_1"}}),
		harness.ToolSpan(3, 1.1, 1.9, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded),
		harness.RequestSpan(4, 1, 2, 40).History([]string{"call_1"}, []string{"call_1"}).Answered("stop", harness.Answer),
	}
	h.Consume(t, parts[:2]...)
	h.Pass(t, harness.MaxHold)
	h.Consume(t, parts[2])
	h.Pass(t, harness.MaxHold)
	before := h.Out()
	out := harness.SpansOf(before)
	require.Len(t, out, 3)
	for _, span := range out {
		assert.Equal(t, harness.EarlyVerdict(semconv.TriggerHoldExpired), harness.VerdictOf(span), "nothing failed in it")
	}
	h.Sink.Reset()
	h.Pass(t, harness.RunTimeout-harness.MaxHold-1)
	require.Empty(t, h.Sink.AllTraces(), "it was heard of less than an hour ago")
	h.Pass(t, 1)

	td := h.Out()
	require.Equal(t, 1, td.SpanCount())
	span := harness.AbandonedSpans(td)[0]
	want := harness.Failure(semconv.ClassRunAbandoned, semconv.CauseMissingEnd, semconv.PhaseUnknown, semconv.OriginUnknown).
		Because(harness.Confirm, semconv.RetryReasonToolSideEffect).On(semconv.RunOutcomeIncomplete)
	want.Trigger, want.Confidence = semconv.TriggerRunExpired, semconv.ConfidenceLow
	assert.Equal(t, want, harness.VerdictOf(span))
	assert.Equal(t, harness.TraceID(1), span.TraceID())
	assert.Equal(t, harness.SpanID(1), span.ParentSpanID())
	assert.False(t, span.SpanID().IsEmpty())
	assert.Equal(t, harness.At(40), span.StartTimestamp(), "when it was last heard of")
	assert.Equal(t, span.StartTimestamp(), span.EndTimestamp())
	assert.Equal(t, ptrace.SpanKindInternal, span.Kind())
	service, _ := td.ResourceSpans().At(0).Resource().Attributes().Get(string(otelsemconv.ServiceNameKey))
	assert.Equal(t, harness.AgentService, service.Str())
	timeline, ok := span.Attributes().Get(string(semconv.RunTimelineKey))
	require.True(t, ok)
	assert.Positive(t, timeline.Slice().Len())
	assert.Equal(t, telemetry.Load{}, h.Load())
	harness.CheckGolden(t, "22_run_abandoned", harness.TracesOf(t, parts...), append2(before, td))

	h.Sink.Reset()
	h.Consume(t, harness.RunSpan(1, 0, 41, 2, 1))
	assert.Equal(t, map[byte]harness.Verdict{1: harness.EarlyVerdict(semconv.TriggerLate)}, harness.Verdicts(h.Out()), "a run is judged once")
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

// A failure that its requests tell of is the abandoned run's.
func TestRunAbandonedAfterFailure(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 2).Cut(semconv.PhaseReasoning, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Reasoning: 2}))
	h.Pass(t, harness.RunTimeout)
	spans := harness.AbandonedSpans(h.Out())
	require.Len(t, spans, 1)
	v := harness.VerdictOf(spans[0])
	assert.Equal(t, semconv.CauseConnectionReset, v.Cause)
	assert.Equal(t, semconv.RunOutcomeFailed, v.Outcome)
	assert.Equal(t, semconv.TriggerRunExpired, v.Trigger)
}

// LLM spans whose parent is never seen are judged as a run in the end, too; that it
// was abandoned is not known.
func TestParentNeverSeen(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.ChatSpan(2, 9, 0.1, 0.4).Failed("RateLimitError"), harness.ChatSpan(3, 9, 0.5, 1).Finished("stop"))
	h.Pass(t, harness.RunTimeout)
	spans := harness.AbandonedSpans(h.Out())
	require.Len(t, spans, 1)
	assert.Equal(t, harness.Verdict{Outcome: semconv.RunOutcomeRecovered, Recovered: 1, Trigger: semconv.TriggerRunExpired}, harness.VerdictOf(spans[0]))
	assert.Equal(t, harness.SpanID(9), spans[0].ParentSpanID())
}

// Runs in one trace expire each in its own time, and a run that is heard of lives.
func TestSeveralRunsExpire(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer), harness.RequestSpan(12, 11, 0.1, 1).Answered("stop", harness.Answer))
	for range 4 {
		h.Pass(t, harness.RunTimeout/2)
		h.Consume(t, harness.RequestSpan(12, 11, 3000, 3001).Answered("stop", harness.Answer)) // sent again and again: a sign of life
	}
	spans := harness.AbandonedSpans(h.Out())
	require.Len(t, spans, 1)
	assert.Equal(t, harness.SpanID(1), spans[0].ParentSpanID())
	h.Consume(t, harness.RunSpan(11, 0, 5000, 1, 0))
	assert.Equal(t, semconv.RunOutcomeSucceeded, harness.Outcomes(h.Out())[11])
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// TestCompletion sends whole traces, one span a call, in every order or some of
// many, each span twice, and looks at what is said in the end.
func TestCompletion(t *testing.T) {
	call := harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"call_1"}}
	cutOff := func(s harness.Span) harness.Span {
		return s.Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{})
	}
	for _, tt := range []struct {
		name  string
		spans []harness.Span
		want  map[byte]semconv.RunOutcome
	}{
		{
			name: "several runs in a trace",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer), harness.RunSpan(1, 0, 3, 1, 0),
				harness.RequestSpan(12, 11, 4, 5).Answered("length", harness.Answer), harness.RunSpan(11, 3.5, 6, 1, 0),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded, 11: semconv.RunOutcomeLimited},
		},
		{
			name: "an agent as a tool of another",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 1).Answered("tool_calls", call),
				harness.ToolSpan(3, 1.1, 5, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded),
				harness.RunSpan(11, 1.2, 4.8, 1, 0).Under(3), cutOff(harness.RequestSpan(12, 11, 1.3, 2)),
				harness.RequestSpan(4, 1, 5.1, 6).History([]string{"call_1"}, []string{"call_1"}).Answered("stop", harness.Answer),
				harness.RunSpan(1, 0, 7, 2, 1),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded, 11: semconv.RunOutcomeFailed},
		},
		{
			name: "a run whose spans come from several services",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 1).Answered("tool_calls", call),
				harness.ToolSpan(3, 1.1, 1.9, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded).In("tools"),
				cutOff(harness.RequestSpan(4, 1, 2, 2.5).History([]string{"call_1"}, []string{"call_1"}).In("worker")),
				harness.RequestSpan(5, 1, 2.6, 3).With(semconv.RequestAttempt(2)).History([]string{"call_1"}, []string{"call_1"}).Answered("stop", harness.Answer).In("worker"),
				harness.RunSpan(1, 0, 4, 3, 1),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeRecovered},
		},
		{
			name: "a service whose clock is ahead",
			spans: []harness.Span{
				cutOff(harness.RequestSpan(2, 1, 100.1, 100.4).In("worker")),
				harness.RequestSpan(3, 1, 100.5, 101).With(semconv.RequestAttempt(2)).Answered("stop", harness.Answer).In("worker"),
				harness.RunSpan(1, 0, 3, 2, 0),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeRecovered},
		},
		{
			name: "times that are not set",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, -t0Seconds, -t0Seconds).Answered("stop", harness.Answer), harness.RunSpan(1, -t0Seconds, -t0Seconds, 1, 0),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded},
		},
		{
			name: "a span that ends before it starts",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 2, 0.1).Answered("stop", harness.Answer), harness.RunSpan(1, 3, 0, 1, 0),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded},
		},
		{
			name: "parents in a circle",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer).Under(3),
				harness.RequestSpan(3, 1, 1.1, 2).Answered("stop", harness.Answer).Under(2),
				harness.RunSpan(1, 0, 3, 2, 0).Under(2),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded},
		},
		{
			name: "a span that is its own parent",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer).Under(2), harness.RunSpan(1, 0, 3, 1, 0).Under(1),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded},
		},
		{
			name: "a request that names its run and hangs under nothing",
			spans: []harness.Span{
				harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer).Under(0), harness.RunSpan(1, 0, 3, 1, 0).Under(77),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded},
		},
		{
			name: "a run id of zeros is not one",
			spans: []harness.Span{
				harness.RequestSpan(2, 0, 0.1, 1).Answered("stop", harness.Answer).With(semconv.RunID("0000000000000000")).Under(1), harness.AgentSpan(1, 0, 0, 3),
			},
			want: map[byte]semconv.RunOutcome{1: semconv.RunOutcomeSucceeded},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for n, order := range orders(len(tt.spans)) {
				h := harness.New(t, harness.DefaultConfig(), nil)
				sent := 0
				for _, i := range order {
					h.Consume(t, tt.spans[i])
					sent++
					if n%2 == 1 {
						h.Consume(t, tt.spans[i]) // delivered twice
						sent++
					}
					h.Pass(t, 10*time.Millisecond)
				}
				h.Pass(t, harness.MaxHold)
				out := h.Out()
				require.Equal(t, sent, out.SpanCount(), "order %v", order)
				found := map[byte]semconv.RunOutcome{}
				judged := 0
				for _, rs := range out.ResourceSpans().All() {
					for _, span := range rs.ScopeSpans().At(0).Spans().All() {
						if v := harness.VerdictOf(span); v.Outcome != semconv.RunOutcomeUnset {
							found[span.SpanID()[7]] = v.Outcome
							judged++
						}
					}
				}
				assert.Equal(t, tt.want, found, "order %v", order)
				assert.Len(t, tt.want, judged, "once each, order %v", order)
				h.Pass(t, harness.RunTimeout)
				assert.Empty(t, harness.AbandonedSpans(h.Out()), "order %v", order)
				assert.Equal(t, telemetry.Load{}, h.Load(), "order %v", order)
			}
		})
	}
}

// t0Seconds makes a time that is not set.
var t0Seconds = float64(harness.T0.Unix())

// orders are all orders of n things, or some of many.
func orders(n int) (list [][]int) {
	all, step := 1, 1
	for i := 2; i <= n; i++ {
		all *= i
	}
	if most := 120 / sample.Every(10); all > most {
		step = all/most + 1 | 1
	}
	for nth := 0; nth < all; nth += step {
		var order, rest []int
		for i := range n {
			rest = append(rest, i)
		}
		for which := nth; len(rest) > 0; {
			i := which % len(rest)
			which /= len(rest)
			order, rest = append(order, rest[i]), slices.Delete(rest, i, i+1)
		}
		list = append(list, order)
	}
	return list
}

// A retry after a long back-off makes the failure good, long after the failed
// request's span has gone.
func TestRetryAfterLongBackOff(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 0.4).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded").With(semconv.RetryAfter(540)))
	h.Pass(t, harness.MaxHold)
	v := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(2)])
	assert.Equal(t, semconv.CauseRateLimited, v.Cause)
	assert.Equal(t, semconv.TriggerHoldExpired, v.Trigger)
	h.Pass(t, 9*time.Minute)
	h.Consume(t, harness.RequestSpan(3, 1, 570, 571).With(semconv.RequestAttempt(2)).Answered("stop", harness.Answer), harness.RunSpan(1, 0, 572, 2, 0))
	assert.Equal(t, harness.Ran(semconv.RunOutcomeRecovered, 1), harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]))
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// A span beneath one whose run was judged is late, whatever lies between them.
func TestLateSpanBeneathAJudgedOne(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.OtherSpan(9, 2, 0.1, 0.2), harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer), harness.RunSpan(1, 0, 3, 1, 0))
	h.Sink.Reset()
	h.Pass(t, 10*time.Second)
	h.Consume(t, harness.ChatSpan(6, 2, 0.3, 0.5).In(harness.GatewayService), harness.ChatSpan(7, 9, 0.3, 0.5).Finished("length").In(harness.GatewayService))
	got := harness.Verdicts(h.Out())
	require.Len(t, got, 2)
	assert.Equal(t, harness.EarlyVerdict(semconv.TriggerLate), got[6])
	assert.Equal(t, semconv.TriggerLate, got[7].Trigger)
	assert.Equal(t, semconv.CauseMaxOutputTokens, got[7].Cause)
	h.Pass(t, harness.RunTimeout)
	assert.Empty(t, harness.AbandonedSpans(h.Out()), "a run is judged once")
}

// TestLaggingShard: a run whose end has come, and waits for its shard, is not given up.
func TestLaggingShard(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer))
	h.Clock.Advance(harness.MaxHold)
	require.NoError(t, h.Processor.ConsumeTraces(t.Context(), harness.TracesOf(t, harness.RunSpan(1, 0, 2, 1, 0))))
	require.Zero(t, h.Sink.SpanCount(), "the shard has not had its turn")
	for h.Shards[0].Turn(t.Context()) {
	}
	out := harness.SpansOf(h.Out())
	require.Len(t, out, 2)
	assert.Equal(t, harness.Verdict{Outcome: semconv.RunOutcomeSucceeded, Trigger: semconv.TriggerComplete}, harness.VerdictOf(out[harness.SpanID(1)]))
	assert.Zero(t, harness.VerdictOf(out[harness.SpanID(2)]), "nor does its request go early")
}
