package llmclassify

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

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/worker"
	"github.com/otelllm/otelllm-go/semconv"
)

// copied is another disk of the same content.
func (d *disk) copied() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := newDisk()
	c.content = maps.Clone(d.content)
	return c
}

// runOutcomes are the verdicts on runs in td, one for each span that has one.
func runOutcomes(td ptrace.Traces) (list []semconv.RunOutcome) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				if v := verdictOf(span); v.outcome != semconv.RunOutcomeUnset {
					list = append(list, v.outcome)
				}
			}
		}
	}
	return list
}

func spansIn(next *flakyNext) ptrace.Traces {
	all := ptrace.NewTraces()
	for _, td := range next.AllTraces() {
		c := ptrace.NewTraces()
		td.CopyTo(c)
		c.ResourceSpans().MoveAndAppendTo(all.ResourceSpans())
	}
	return all
}

// Wherever a process is killed, each span that was acknowledged comes out of it or of the next one, and
// the run is judged on all of it.
func TestKilledAtEachWrite(t *testing.T) {
	for name, calls := range map[string][][]spanSpec{
		"held":   {{requestSpan(2, 1, 0.1, 1).answered("stop", answer)}, {runSpan(1, 0, 3, 1, 0)}},
		"whole":  {finishedRun(1)},
		"passed": {append(finishedRun(1), otherSpan(9, 1, 0.1, 0.2))},
	} {
		d := newDisk()
		next := new(flakyNext)
		h := newHarnessOn(t, d, defaultConfig(), next, t0)
		type moment struct {
			left *disk
			out  ptrace.Traces
		}
		var moments []moment
		var acknowledged []int // after how many writes each call was
		d.wrote = func() {
			left := newDisk()
			left.content = maps.Clone(d.content)
			moments = append(moments, moment{left, spansIn(next)})
		}
		for _, specs := range calls {
			h.consume(t, specs...)
			acknowledged = append(acknowledged, len(moments))
		}
		require.Len(t, runOutcomes(spansIn(next)), 1, name)
		for n, m := range moments {
			h := newHarnessOn(t, m.left, defaultConfig(), nil, t0.Add(time.Second))
			for c, specs := range calls {
				if n+1 < acknowledged[c] { // its sender sends it again
					h.consume(t, specs...)
				}
			}
			h.pass(t, xMaxHold)
			out := h.out()
			m.out.ResourceSpans().MoveAndAppendTo(out.ResourceSpans())
			for id := range spansOf(spansIn(next)) {
				assert.Contains(t, spansOf(out), id, "%s, after write %d", name, n)
			}
			assert.NotEmpty(t, runOutcomes(out), "%s, after write %d", name, n)
			h.pass(t, 2*xRunTimeout)
			assert.Empty(t, m.left.entries(), name)
		}
	}
}

// A process that is killed while spans wait for the next consumer brings them again.
func TestKilledWhileAVerdictWaits(t *testing.T) {
	d := newDisk()
	next := &flakyNext{fail: down}
	h := newHarnessOn(t, d, defaultConfig(), next, t0)
	h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer))
	h.consume(t, runSpan(1, 0, 3, 1, 0))
	h.consume(t, finishedRun(2)...) // joins it
	left := d.copied()

	h = newHarnessOn(t, left, defaultConfig(), nil, t0)
	assert.Len(t, runOutcomes(h.out()), 2)
	h.pass(t, 2*xRunTimeout)
	assert.Len(t, runOutcomes(h.out()), 2)
	assert.Empty(t, left.entries())

	next.fail = nil
	h = newHarnessOn(t, d, defaultConfig(), nil, t0) // the other one lives on
	assert.Len(t, runOutcomes(h.out()), 2)
}

// What was forgotten of a trace stays forgotten after a restart: the verdict on its run is
// as careful as it would have been without one. A run within it that was judged before is
// forgotten by the restart itself.
func TestForgottenStaysForgotten(t *testing.T) {
	shown := requestSpan(2, 1, 0.1, 0.5).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2})
	refused := requestSpan(4, 1, 79, 79.5).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
	run := runSpan(1, 0, 80, 0, 0).failed("429")
	run.attrs = slices.DeleteFunc(run.attrs, func(kv attribute.KeyValue) bool {
		return kv.Key == semconv.RunRequestsKey || kv.Key == semconv.RunToolsKey
	})
	within := []spanSpec{requestSpan(11, 10, 0.1, 0.5).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2}), runSpan(10, 0, 1, 1, 0).under(1)}
	facts := defaultConfig()
	facts.MaxFactBytes = 1
	kept := defaultConfig()
	for name, tt := range map[string]struct {
		cfg    *Config
		limits trace.Limits
		before [][]spanSpec
	}{
		"facts, for max_fact_bytes":                             {facts, trace.Limits{}, [][]spanSpec{{shown}}},
		"facts, as there are many":                              {kept, trace.Limits{Kept: 1}, [][]spanSpec{{shown, refused}}},
		"a run within it, at once":                              {kept, trace.Limits{}, [][]spanSpec{within}},
		"a run within it, in pieces":                            {kept, trace.Limits{}, [][]spanSpec{within[:1], within[1:]}},
		"a run within it, as there are many, then it is killed": {facts, trace.Limits{}, [][]spanSpec{within}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kill := range []bool{false, true} {
				d := newDisk()
				h := newHarness(t, tt.cfg, nil)
				h.Limits = tt.limits
				h.openOn(t, d)
				for _, spans := range tt.before {
					h.consume(t, spans...)
				}
				h.pass(t, 2*xMaxHold)
				if kill {
					h = newHarnessOn(t, d, tt.cfg, nil, h.clock.Now())
				}
				h.consume(t, refused, run)
				h.pass(t, xMaxHold)
				v := verdicts(h.out())[1]
				require.Equal(t, semconv.RunOutcomeFailed, v.outcome, "killed %v", kill)
				require.Greater(t, v.safety, semconv.RetrySafetySafeAutoRetry, "killed %v: %s", kill, v.words())
			}
		})
	}
}

// A call whose LLM spans find no place waits before anything of it is forwarded.
func TestCallWaitsForAPlace(t *testing.T) {
	next := new(flakyNext)
	h := newHarnessOn(t, newDisk(), defaultConfig(), next, t0)
	send := func(ctx context.Context, i byte) error {
		return h.inside.ConsumeTraces(ctx, tracesOf(t, append(finishedRun(i), otherSpan(9, 1, 0.1, 0.2).of(i))...))
	}
	for i := range byte(worker.MaxDeliveries) {
		require.NoError(t, send(t.Context(), i+1))
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, send(done, 100), context.Canceled)
	assert.Equal(t, worker.MaxDeliveries, next.SpanCount())
	h.settle(t.Context())
	require.NoError(t, send(t.Context(), 100))
	require.Equal(t, ran(semconv.RunOutcomeSucceeded, 0), verdicts(spansIn(next))[1])
}
