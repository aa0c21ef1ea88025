package llmclassify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/semconv"
)

// A run without a request of its own went as the runs within it went. In one call
// their order says nothing; spans that come one by one come as they end.
func TestRunOverRuns(t *testing.T) {
	const (
		well    = semconv.RunOutcomeSucceeded
		unknown = semconv.RunOutcomeIncomplete
	)
	finished := func(id, parent byte, from, to float64) spanSpec {
		return chatSpan(id, parent, from, to).finished("stop")
	}
	for _, tt := range []struct {
		name  string
		spans []spanSpec // as they end
		want  map[byte]semconv.RunOutcome
	}{
		{
			"beneath it",
			[]spanSpec{finished(11, 10, 1.1, 1.9), agentSpan(10, 1, 1, 2), finished(21, 20, 2.1, 2.9), agentSpan(20, 1, 2, 3), agentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: well, 20: well, 1: well},
		},
		{
			"beneath it, by this project's client",
			[]spanSpec{requestSpan(11, 10, 1.1, 1.9).answered("stop", answer), runSpan(10, 1, 2, 1, 0).under(1), agentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: well, 1: well},
		},
		{
			"in a tool of it",
			[]spanSpec{finished(11, 10, 1.1, 1.9), agentSpan(10, 4, 1, 2), callSpan(4, 1, 0.9, 2.1, "call_7"), agentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: well, 1: well},
		},
		{
			"beneath spans that are no part of a run",
			[]spanSpec{finished(11, 10, 1.1, 1.9), agentSpan(10, 8, 1, 2), otherSpan(8, 9, 0.8, 2.1), otherSpan(9, 1, 0.5, 2.2), agentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: well, 1: well},
		},
		{
			"ending with it, by a clock of whole milliseconds",
			[]spanSpec{finished(11, 10, 1.1, 1.9), agentSpan(10, 8, 1, 4.0004), otherSpan(8, 9, 0.8, 4), otherSpan(9, 1, 0.5, 4), agentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: well, 1: well},
		},
		{
			"two deep",
			[]spanSpec{finished(11, 10, 1.1, 1.9), agentSpan(10, 2, 1, 2), agentSpan(2, 1, 0.5, 3), agentSpan(1, 0, 0, 3)},
			map[byte]semconv.RunOutcome{10: well, 2: well, 1: well},
		},
		{
			"one of them did not go well",
			[]spanSpec{
				chatSpan(11, 10, 1.1, 1.9).failed("InternalServerError"), agentSpan(10, 1, 1, 2).failed("InternalServerError"),
				finished(21, 20, 2.1, 2.9), agentSpan(20, 1, 2, 3), agentSpan(1, 0, 0, 4),
			},
			map[byte]semconv.RunOutcome{10: semconv.RunOutcomeFailed, 20: well, 1: unknown},
		},
		{
			"nothing is known of one of them",
			[]spanSpec{agentSpan(10, 1, 1, 2), agentSpan(1, 0, 0, 4)},
			map[byte]semconv.RunOutcome{10: unknown, 1: unknown},
		},
		{
			"a run beside it says nothing of it",
			[]spanSpec{finished(11, 10, 1.1, 1.9), agentSpan(10, 9, 1, 2), agentSpan(1, 9, 0, 4), otherSpan(9, 0, 0, 5)},
			map[byte]semconv.RunOutcome{10: well, 1: unknown},
		},
		{
			"a run before it says nothing of it",
			[]spanSpec{finished(11, 10, 1.1, 1.9), agentSpan(10, 8, 1, 2), otherSpan(8, 0, 0, 2), agentSpan(1, 0, 3, 4)},
			map[byte]semconv.RunOutcome{10: well, 1: unknown},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, order := range orders(len(tt.spans)) {
				h := newHarness(t, defaultConfig(), nil)
				var spans []spanSpec
				for _, i := range order {
					spans = append(spans, tt.spans[i])
				}
				h.consume(t, spans...)
				h.pass(t, defaultMaxHold)
				require.Equal(t, len(spans), h.out().SpanCount())
				require.Equal(t, tt.want, outcomes(h.out()), "order %v", order)
			}
			h := newHarness(t, defaultConfig(), nil)
			for _, s := range tt.spans {
				h.consume(t, s)
				h.pass(t, 2*defaultSettle)
			}
			h.pass(t, defaultMaxHold)
			assert.Equal(t, tt.want, outcomes(h.out()), "one by one")
			assert.Equal(t, load{}, h.load())
		})
	}
}

// What is kept of runs that were judged is bounded in time, number and memory.
func TestEndedRunsAreBounded(t *testing.T) {
	now := t0
	run := func(id, parent byte) *assemble.Item {
		return &assemble.Item{ID: spanID(id), Parent: spanID(parent), Start: at(1), End: at(2)}
	}
	outer := func(trace byte) *assemble.Release {
		return &assemble.Release{Trace: traceID(trace), Run: &assemble.Item{ID: spanID(1), Start: at(0), End: at(9)}}
	}
	wentWell := &assemble.Diagnoses{Run: &classify.Diagnosis{Outcome: semconv.RunOutcomeRecovered}}
	well := func(e *endedRuns, trace byte) classify.Fact { return e.of(outer(trace), nil).Well }

	e := newEndedRuns(time.Minute, 1<<20)
	e.add(now, traceID(1), run(2, 0), wentWell)
	assert.Equal(t, classify.NotObserved, well(e, 1), "a root is within none")
	e.add(now, traceID(1), run(2, 9), wentWell)
	assert.Equal(t, classify.Yes, well(e, 1))
	assert.Equal(t, classify.NotObserved, well(e, 2))
	assert.Equal(t, assemble.Inner{}, e.of(&assemble.Release{Trace: traceID(1)}, nil), "there is no run span")
	now = now.Add(time.Minute)
	e.add(now, traceID(2), run(2, 9), wentWell)
	assert.Equal(t, classify.Yes, well(e, 1), "for a period at least")
	now = now.Add(time.Minute)
	e.add(now, traceID(3), run(2, 9), wentWell)
	assert.Equal(t, classify.NotObserved, well(e, 1), "for two at most")

	for range 3 * maxEnded {
		e.add(now, traceID(4), run(2, 9), wentWell)
	}
	assert.Len(t, e.now[traceID(4)], maxEnded)

	e = newEndedRuns(time.Hour, 20*endedSize)
	for n := range uint64(1000) {
		e.add(now, numbered(n), run(2, 9), wentWell)
		require.LessOrEqual(t, len(e.now)+len(e.previous), 20)
	}
	assert.NotEmpty(t, e.now)

	e = newEndedRuns(time.Hour, 1)
	e.add(now, traceID(1), run(2, 9), wentWell)
	assert.Equal(t, classify.NotObserved, well(e, 1))
	assert.NotPanics(t, func() { e.add(now, pcommon.TraceID{}, run(2, 9), wentWell) })
}
