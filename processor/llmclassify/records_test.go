package llmclassify

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
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

// A run is judged once, over all ends of processes: what comes of it late is late,
// however it was judged, however the process ended and however many shards the next
// one has.
func TestLateAfterRestart(t *testing.T) {
	request := requestSpan(2, 1, 0.1, 1).answered("stop", answer)
	run := runSpan(1, 0, 3, 1, 0)
	late := []spanSpec{
		requestSpan(3, 1, 1.5, 2).answered("stop", answer),                                    // names the run
		chatSpan(4, 1, 1.5, 2).finished("stop"),                                               // is beneath it
		chatSpan(5, 2, 1.5, 2).finished("stop"),                                               // is beneath a span of it
		chatSpan(6, 5, 1.6, 2).finished("stop"),                                               // is beneath a late one
		toolSpan(7, 1.5, 2, "call", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded), // names the run
	}
	beneathOther := append(slices.Clone(late), chatSpan(8, 9, 1.5, 2).finished("stop"))
	for name, tt := range map[string]struct {
		judge func(*testing.T, *harness)
		late  []spanSpec
	}{
		"held": {func(t *testing.T, h *harness) {
			t.Helper()
			h.consume(t, request)
			h.consume(t, run)
		}, late},
		"held, with another span": {func(t *testing.T, h *harness) {
			t.Helper()
			h.consume(t, request)
			h.consume(t, otherSpan(9, 2, 0.2, 0.3))
			h.consume(t, run)
		}, beneathOther},
		"whole": {func(t *testing.T, h *harness) {
			t.Helper()
			h.consume(t, request, run)
		}, late},
		"whole, with another span": {func(t *testing.T, h *harness) {
			t.Helper()
			h.consume(t, request, run, otherSpan(9, 1, 0.2, 0.3))
		}, beneathOther},
		"whole, with others' runs": {func(t *testing.T, h *harness) {
			t.Helper()
			h.consume(t, finishedRun(7)[0], request, run, finishedRun(8)[0], finishedRun(8)[1])
		}, late},
		"of no agent's": {func(t *testing.T, h *harness) {
			t.Helper()
			h.consume(t, chatSpan(2, 1, 0.1, 1).finished("stop"), agentSpan(1, 0, 0, 3))
			h.pass(t, defaultSettle)
		}, late},
		"its end never came": {func(t *testing.T, h *harness) {
			t.Helper()
			h.consume(t, request)
			h.pass(t, defaultMaxHold)
			h.pass(t, defaultRunTimeout)
		}, late},
	} {
		for _, end := range []string{"killed", "stopped", "stopped twice"} {
			t.Run(name+", "+end, func(t *testing.T) {
				d := newDisk()
				h := newHarnessOn(t, d, defaultConfig(), nil, t0)
				tt.judge(t, h)
				require.NotEmpty(t, runOutcomes(h.out()))
				if end != "killed" {
					require.NoError(t, h.Shutdown(t.Context()))
				}
				cfg := defaultConfig()
				if end == "stopped twice" {
					cfg.Shards = 3
					h = newHarnessOn(t, d, cfg, nil, h.clock.Now())
					require.NoError(t, h.Shutdown(t.Context()))
					cfg.Shards = 2
				}
				h = newHarnessOn(t, d, cfg, nil, h.clock.Now().Add(time.Second))
				h.sink.Reset()
				for _, s := range tt.late {
					h.consume(t, s)
				}
				h.consume(t, run) // once more
				spans := spansOf(h.out())
				require.Len(t, spans, len(tt.late)+1)
				for id, span := range spans {
					assert.Equal(t, semconv.TriggerLate, verdictOf(span).trigger, "%s", id)
				}
				h.pass(t, defaultRunTimeout)
				h.pass(t, defaultRunTimeout)
				for _, span := range abandonedSpans(h.out()) {
					assert.NotEqual(t, traceID(1), span.TraceID())
				}
				if !strings.Contains(name, "others") {
					assert.Empty(t, runOutcomes(h.out()))
					assert.Empty(t, d.entries())
				}
				assert.Equal(t, load{}, h.load())
			})
		}
	}
}

// Wherever a process is killed, a run is either judged after it or known to have
// been: the copies of the disk are all that it ever held, from the first span to the
// last note, with what had come out by then.
func TestKilledAtEachWrite(t *testing.T) {
	for name, calls := range map[string][][]spanSpec{
		"held":   {{requestSpan(2, 1, 0.1, 1).answered("stop", answer)}, {runSpan(1, 0, 3, 1, 0)}},
		"whole":  {finishedRun(1)},
		"passed": {append(finishedRun(1), otherSpan(9, 1, 0.1, 0.2))},
	} {
		t.Run(name, func(t *testing.T) {
			d := &recording{disk: newDisk()}
			next := new(flakyNext)
			d.out = next
			h := newHarness(t, defaultConfig(), next)
			h.openOn(t, d.disk)
			var acknowledged []int // after how many writes each call was
			d.disk.wrote = d.record
			for _, specs := range calls {
				h.consume(t, specs...)
				acknowledged = append(acknowledged, len(d.moments))
			}
			require.Len(t, runOutcomes(spansIn(next)), 1)
			for n, m := range d.moments {
				noted := m.disk.hasJudged()
				h := newHarnessOn(t, m.disk, defaultConfig(), nil, t0.Add(time.Second))
				for c, specs := range calls {
					if n+1 < acknowledged[c] { // its sender sends it again
						h.consume(t, specs...)
					}
				}
				h.pass(t, defaultMaxHold)
				if noted {
					assert.Equal(t, 1, m.judged, "it is noted when it has come out")
					assert.Empty(t, runOutcomes(h.out()), "it was judged")
				} else {
					assert.Len(t, runOutcomes(h.out()), 1, "it is judged")
				}
				// Late, in both cases.
				h.consume(t, requestSpan(3, 1, 1.5, 2).answered("stop", answer))
				assert.Equal(t, semconv.TriggerLate, verdictOf(spansOf(h.out())[spanID(3)]).trigger)
				h.pass(t, 2*defaultRunTimeout)
				assert.LessOrEqual(t, len(runOutcomes(h.out())), 1)
				assert.Empty(t, m.disk.entries())
			}
		})
	}
}

func (d *disk) hasJudged() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.content["judged"] != nil
}

// moment is what a disk held at a time, and how many runs had been judged by then.
type moment struct {
	disk   *disk
	judged int
}

// recording keeps what a disk held after each write.
type recording struct {
	*disk
	out     *flakyNext
	moments []moment
}

func (r *recording) record() {
	c := newDisk()
	c.content = maps.Clone(r.content)
	r.moments = append(r.moments, moment{c, len(runOutcomes(spansIn(r.out)))})
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

// A process that is killed when the spans of a run have gone and that is not noted
// yet brings the run again, and judges it once on what is there.
func TestKilledBeforeTheNote(t *testing.T) {
	d := newDisk()
	var left *disk
	next := &flakyNext{fail: func(ptrace.Traces) error {
		left = d.copied() // nothing can be noted before this returns
		return nil
	}}
	h := newHarnessOn(t, d, defaultConfig(), next, t0)
	h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer))
	h.consume(t, runSpan(1, 0, 3, 1, 0))
	want := verdicts(spansIn(next))
	require.Equal(t, ran(semconv.RunOutcomeSucceeded, 0), want[1])

	h = newHarnessOn(t, left, defaultConfig(), nil, t0)
	assert.Equal(t, want, verdicts(h.out()))
	h.consume(t, requestSpan(3, 1, 1.5, 2).answered("stop", answer))
	h.pass(t, 2*defaultRunTimeout)
	assert.Len(t, runOutcomes(h.out()), 1)
	assert.Empty(t, left.entries())
}

// A run whose verdict waits for the next consumer is not noted as judged.
func TestKilledWhileAVerdictWaits(t *testing.T) {
	d := newDisk()
	next := &flakyNext{fail: down}
	h := newHarnessOn(t, d, defaultConfig(), next, t0)
	h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer))
	h.consume(t, runSpan(1, 0, 3, 1, 0))
	h.consume(t, finishedRun(2)...)                                  // joins it
	h.consume(t, requestSpan(3, 1, 1.5, 2).answered("stop", answer)) // late for this process
	left := d.copied()

	h = newHarnessOn(t, left, defaultConfig(), nil, t0)
	assert.Len(t, runOutcomes(h.out()), 2)
	assert.Equal(t, semconv.TriggerLate, verdictOf(spansOf(h.out())[spanID(3)]).trigger, "it stands behind the others")
	h.pass(t, 2*defaultRunTimeout)
	assert.Len(t, runOutcomes(h.out()), 2)

	next.fail = nil
	h = newHarnessOn(t, d, defaultConfig(), nil, t0) // the other one lives on
	assert.Len(t, runOutcomes(h.out()), 2)
}

// A call that is refused leaves no note: its runs come again.
func TestRefusedRunIsNotNoted(t *testing.T) {
	d := newDisk()
	next := &flakyNext{fail: down}
	h := newHarnessOn(t, d, defaultConfig(), next, t0)
	specs := append(finishedRun(1), otherSpan(9, 1, 0.1, 0.2))
	require.ErrorIs(t, h.ConsumeTraces(t.Context(), tracesOf(t, specs...)), errDown)
	h = newHarnessOn(t, d, defaultConfig(), nil, t0)
	h.consume(t, specs...)
	assert.Len(t, runOutcomes(h.out()), 1)
}

// The spans of a run that came in several names are noted apart, and the verdict with
// its own.
func TestJudgedInSeveralNames(t *testing.T) {
	cfg := defaultConfig()
	cfg.MetadataKeys = []string{"tenant"}
	d := newDisk()
	var left []*disk
	d.wrote = func() {
		c := newDisk()
		c.content = maps.Clone(d.content)
		left = append(left, c)
	}
	h := newHarnessOn(t, d, cfg, nil, t0)
	as := func(tenant string, specs ...spanSpec) {
		ctx := client.NewContext(t.Context(), client.Info{Metadata: client.NewMetadata(map[string][]string{"tenant": {tenant}})})
		require.NoError(t, h.ConsumeTraces(ctx, tracesOf(t, specs...)))
	}
	as("a", requestSpan(2, 1, 0.1, 1).answered("stop", answer))
	as("b", runSpan(1, 0, 3, 1, 0))
	require.Len(t, runOutcomes(h.out()), 1)
	for i, d := range left {
		h := newHarnessOn(t, d, cfg, nil, t0)
		if i >= len(left)-2 { // one of the two names is noted
			assert.LessOrEqual(t, len(runOutcomes(h.out())), 1)
		}
		h.consume(t, runSpan(1, 0, 3, 1, 0), requestSpan(3, 1, 1.5, 2).answered("stop", answer))
		h.pass(t, 2*defaultRunTimeout)
		assert.LessOrEqual(t, len(runOutcomes(h.out())), 1)
		if i < len(left)-1 {
			continue
		}
		assert.Empty(t, runOutcomes(h.out()))
	}
}

// What is remembered is remembered for no less than run_timeout, and is forgotten.
func TestForgottenAfterRestart(t *testing.T) {
	d := newDisk()
	h := newHarnessOn(t, d, defaultConfig(), nil, t0)
	h.consume(t, finishedRun(1)...)
	h = newHarnessOn(t, d.copied(), defaultConfig(), nil, t0.Add(2*defaultRunTimeout-time.Second))
	h.consume(t, requestSpan(3, 1, 1.5, 2).answered("stop", answer))
	assert.Equal(t, semconv.TriggerLate, verdictOf(spansOf(h.out())[spanID(3)]).trigger)

	h = newHarnessOn(t, d, defaultConfig(), nil, t0.Add(2*defaultRunTimeout))
	h.consume(t, finishedRun(1)...)
	assert.Len(t, runOutcomes(h.out()), 1, "so long after it is a run of its own")
}

// A run of which something came late is remembered from then on.
func TestRememberedFromTheLastThatCame(t *testing.T) {
	d := newDisk()
	h := newHarnessOn(t, d, defaultConfig(), nil, t0)
	h.consume(t, finishedRun(1)...)
	for n := range 5 {
		h.pass(t, defaultRunTimeout*9/10)
		if n%2 == 0 {
			h = newHarnessOn(t, d, defaultConfig(), nil, h.clock.Now())
		}
		h.sink.Reset()
		h.consume(t, requestSpan(byte(n+3), 1, 1.5, 2).answered("stop", answer))
		assert.Equal(t, map[pcommon.SpanID]semconv.Trigger{spanID(byte(n + 3)): semconv.TriggerLate}, triggersOf(h.out()))
	}
}

func triggersOf(td ptrace.Traces) map[pcommon.SpanID]semconv.Trigger {
	found := map[pcommon.SpanID]semconv.Trigger{}
	for id, span := range spansOf(td) {
		found[id] = verdictOf(span).trigger
	}
	return found
}

// What is unreadable on the disk keeps nothing from starting.
func TestUnreadableJudged(t *testing.T) {
	d := newDisk()
	h := newHarnessOn(t, d, defaultConfig(), nil, t0)
	h.consume(t, finishedRun(1)...)
	h.consume(t, finishedRun(2)[0])
	for key := range d.content {
		if strings.HasPrefix(key, "judged") {
			d.content[key] = []byte("what is this")
		}
	}
	h = newHarnessOn(t, d, defaultConfig(), nil, t0)
	h.consume(t, finishedRun(2)[1])
	assert.Len(t, runOutcomes(h.out()), 1)
	assert.NotEmpty(t, slices.DeleteFunc(slices.Collect(maps.Keys(d.content)), func(key string) bool { return !strings.HasPrefix(key, "aside.judged") }))

	d.fail = errDown
	err := h.store.journal.Recall(t.Context(), t0, time.Hour, 0, nil)
	require.ErrorIs(t, err, errDown)
	assert.False(t, consumererror.IsPermanent(err))
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
		limits hold.Limits
		before [][]spanSpec
	}{
		"facts, for max_fact_bytes":                             {facts, hold.Limits{}, [][]spanSpec{{shown}}},
		"facts, as there are many":                              {kept, hold.Limits{Kept: 1}, [][]spanSpec{{shown, refused}}},
		"a run within it, at once":                              {kept, hold.Limits{}, [][]spanSpec{within}},
		"a run within it, in pieces":                            {kept, hold.Limits{}, [][]spanSpec{within[:1], within[1:]}},
		"a run within it, as there are many, then it is killed": {facts, hold.Limits{}, [][]spanSpec{within}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kill := range []bool{false, true} {
				d := newDisk()
				h := newHarness(t, tt.cfg, nil)
				h.limits = tt.limits
				h.openOn(t, d)
				for _, spans := range tt.before {
					h.consume(t, spans...)
				}
				h.pass(t, 2*defaultMaxHold)
				if kill {
					h = newHarnessOn(t, d, tt.cfg, nil, h.clock.Now())
				}
				h.consume(t, refused, run)
				h.pass(t, defaultMaxHold)
				v := verdicts(h.out())[1]
				require.Equal(t, semconv.RunOutcomeFailed, v.outcome, "killed %v", kill)
				require.Greater(t, v.safety, semconv.RetrySafetySafeAutoRetry, "killed %v: %s", kill, v.words())
			}
		})
	}
}

// Nothing waits for the disk once spans of a call are forwarded: it might outlast the
// sender's patience, and they would come twice. The shard writes that their runs were judged.
func TestNothingWaitsForTheDiskAfterForwarding(t *testing.T) {
	d := newDisk()
	next := new(flakyNext)
	h := newHarnessOn(t, d, defaultConfig(), next, t0)
	asked := make(chan struct{}, 1)
	forwarded := false
	d.asks = func() {
		if forwarded {
			asked <- struct{}{}
			select {} // for ever
		}
	}
	next.fail = func(ptrace.Traces) error {
		forwarded = true
		return nil
	}
	returned := make(chan error)
	td := tracesOf(t, append(finishedRun(1), otherSpan(9, 1, 0.1, 0.2))...)
	go func() { returned <- h.classifier.ConsumeTraces(t.Context(), td) }()
	select {
	case err := <-returned:
		require.NoError(t, err)
	case <-asked:
		require.Fail(t, "the call waits for the disk")
	}
	assert.Equal(t, 3, next.SpanCount())
	assert.False(t, d.hasJudged())

	d.asks = nil
	h.settle(t.Context())
	assert.True(t, d.hasJudged())
	h = newHarnessOn(t, d, defaultConfig(), nil, h.clock.Now())
	h.consume(t, requestSpan(3, 1, 1.5, 2).answered("stop", answer), chatSpan(4, 9, 1.5, 2).finished("stop"))
	for _, id := range []byte{3, 4} {
		assert.Equal(t, semconv.TriggerLate, verdictOf(spansOf(h.out())[spanID(id)]).trigger)
	}
}

// A call whose records find no place waits before anything of it is forwarded.
func TestRecordsHavePlaces(t *testing.T) {
	next := new(flakyNext)
	h := newHarnessOn(t, newDisk(), defaultConfig(), next, t0)
	send := func(ctx context.Context, i byte) error {
		return h.classifier.ConsumeTraces(ctx, tracesOf(t, append(finishedRun(i), otherSpan(9, 1, 0.1, 0.2).of(i))...))
	}
	for i := range byte(maxDeliveries) {
		require.NoError(t, send(t.Context(), i+1))
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, send(done, 100), context.Canceled)
	assert.Equal(t, 3*maxDeliveries, next.SpanCount())
	h.settle(t.Context())
	require.NoError(t, send(t.Context(), 100))
	require.Equal(t, ran(semconv.RunOutcomeSucceeded, 0), verdicts(spansIn(next))[1])
}
