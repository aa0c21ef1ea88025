package property

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/worker"
	"github.com/otelllm/otelllm-go/semconv"
)

// runOutcomes are the verdicts on runs in td, one for each span that has one.
func runOutcomes(td ptrace.Traces) (list []semconv.RunOutcome) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if v := harness.VerdictOf(span); v.Outcome != semconv.RunOutcomeUnset {
					list = append(list, v.Outcome)
				}
			}
		}
	}
	return list
}

// Wherever a process is killed, each span that was acknowledged comes out of it or of the next one, and
// the run is judged on all of it.
func TestKillAtEachWrite(t *testing.T) {
	for name, calls := range map[string][][]harness.Span{
		"held":   {{harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer)}, {harness.RunSpan(1, 0, 3, 1, 0)}},
		"whole":  {harness.FinishedRun(1)},
		"passed": {append(harness.FinishedRun(1), harness.OtherSpan(9, 1, 0.1, 0.2))},
	} {
		d := harness.NewDisk()
		next := new(harness.FlakyNext)
		h := harness.NewOn(t, d, harness.DefaultConfig(), next, harness.T0)
		type moment struct {
			left *harness.Disk
			out  ptrace.Traces
		}
		var moments []moment
		var acknowledged []int // after how many writes each call was
		d.Wrote = func() {
			left := harness.NewDisk()
			left.Content = maps.Clone(d.Content)
			moments = append(moments, moment{left, harness.OutOf(&next.TracesSink)})
		}
		for _, specs := range calls {
			h.Consume(t, specs...)
			acknowledged = append(acknowledged, len(moments))
		}
		require.Len(t, runOutcomes(harness.OutOf(&next.TracesSink)), 1, name)
		for n, m := range moments {
			h := harness.NewOn(t, m.left, harness.DefaultConfig(), nil, harness.T0.Add(time.Second))
			for c, specs := range calls {
				if n+1 < acknowledged[c] { // its sender sends it again
					h.Consume(t, specs...)
				}
			}
			h.Pass(t, harness.MaxHold)
			out := h.Out()
			m.out.ResourceSpans().MoveAndAppendTo(out.ResourceSpans())
			for id := range harness.SpansOf(harness.OutOf(&next.TracesSink)) {
				assert.Contains(t, harness.SpansOf(out), id, "%s, after write %d", name, n)
			}
			assert.NotEmpty(t, runOutcomes(out), "%s, after write %d", name, n)
			h.Pass(t, 2*harness.RunTimeout)
			assert.Empty(t, m.left.Entries(), name)
		}
	}
}

// A process that is killed while spans wait for the next consumer brings them again.
func TestKillWhileAVerdictWaits(t *testing.T) {
	d := harness.NewDisk()
	next := &harness.FlakyNext{Fail: harness.Down}
	h := harness.NewOn(t, d, harness.DefaultConfig(), next, harness.T0)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer))
	h.Consume(t, harness.RunSpan(1, 0, 3, 1, 0))
	h.Consume(t, harness.FinishedRun(2)...) // joins it
	left := d.Copied()

	h = harness.NewOn(t, left, harness.DefaultConfig(), nil, harness.T0)
	assert.Len(t, runOutcomes(h.Out()), 2)
	h.Pass(t, 2*harness.RunTimeout)
	assert.Len(t, runOutcomes(h.Out()), 2)
	assert.Empty(t, left.Entries())

	next.Fail = nil
	h = harness.NewOn(t, d, harness.DefaultConfig(), nil, harness.T0) // the other one lives on
	assert.Len(t, runOutcomes(h.Out()), 2)
}

// What was forgotten of a trace stays forgotten after a restart: the verdict on its run is
// as careful as it would have been without one. A run within it that was judged before is
// forgotten by the restart itself.
func TestForgottenFactsOverARestart(t *testing.T) {
	shown := harness.RequestSpan(2, 1, 0.1, 0.5).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 2})
	refused := harness.RequestSpan(4, 1, 79, 79.5).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
	run := harness.RunSpan(1, 0, 80, 0, 0).Failed("429")
	run.Attrs = slices.DeleteFunc(run.Attrs, func(kv attribute.KeyValue) bool {
		return kv.Key == semconv.RunRequestsKey || kv.Key == semconv.RunToolsKey
	})
	within := []harness.Span{harness.RequestSpan(11, 10, 0.1, 0.5).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 2}), harness.RunSpan(10, 0, 1, 1, 0).Under(1)}
	facts := harness.DefaultConfig()
	facts.MaxFactBytes = 1
	kept := harness.DefaultConfig()
	for name, tt := range map[string]struct {
		cfg    *llmclassify.Config
		limits trace.Limits
		before [][]harness.Span
	}{
		"facts, for max_fact_bytes":                             {facts, trace.Limits{}, [][]harness.Span{{shown}}},
		"facts, as there are many":                              {kept, trace.Limits{Kept: 1}, [][]harness.Span{{shown, refused}}},
		"a run within it, at once":                              {kept, trace.Limits{}, [][]harness.Span{within}},
		"a run within it, in pieces":                            {kept, trace.Limits{}, [][]harness.Span{within[:1], within[1:]}},
		"a run within it, as there are many, then it is killed": {facts, trace.Limits{}, [][]harness.Span{within}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kill := range []bool{false, true} {
				d := harness.NewDisk()
				h := harness.New(t, tt.cfg, nil)
				h.Limits = tt.limits
				h.OpenOn(t, d)
				for _, spans := range tt.before {
					h.Consume(t, spans...)
				}
				h.Pass(t, 2*harness.MaxHold)
				if kill {
					h = harness.NewOn(t, d, tt.cfg, nil, h.Clock.Now())
				}
				h.Consume(t, refused, run)
				h.Pass(t, harness.MaxHold)
				v := harness.Verdicts(h.Out())[1]
				require.Equal(t, semconv.RunOutcomeFailed, v.Outcome, "killed %v", kill)
				require.Greater(t, v.Safety, semconv.RetrySafetySafeAutoRetry, "killed %v: %s", kill, v.Words())
			}
		})
	}
}

// A call whose LLM spans find no place waits before anything of it is forwarded.
func TestCallWaitsForAPlace(t *testing.T) {
	next := new(harness.FlakyNext)
	h := harness.NewOn(t, harness.NewDisk(), harness.DefaultConfig(), next, harness.T0)
	send := func(ctx context.Context, i byte) error {
		return h.Processor.ConsumeTraces(ctx, harness.TracesOf(t, append(harness.FinishedRun(i), harness.OtherSpan(9, 1, 0.1, 0.2).Of(i))...))
	}
	for i := range byte(worker.MaxDeliveries) {
		require.NoError(t, send(t.Context(), i+1))
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, send(done, 100), context.Canceled)
	assert.Equal(t, worker.MaxDeliveries, next.SpanCount())
	h.Settle(t.Context())
	require.NoError(t, send(t.Context(), 100))
	require.Equal(t, harness.Ran(semconv.RunOutcomeSucceeded, 0), harness.Verdicts(harness.OutOf(&next.TracesSink))[1])
}
