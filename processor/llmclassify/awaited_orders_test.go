package llmclassify

import (
	"encoding/binary"
	"math"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// limitedRequest is a request, at the root of its trace, that was refused by its provider.
func limitedRequest(from float64) spanSpec {
	return requestSpan(1, 0, from, from+3).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
}

// beneathRequest is a request beneath that one, which showed text.
func beneathRequest() spanSpec {
	s := requestSpan(2, 0, 0.1, 1).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2})
	s.parent = 1
	return s
}

// firstVerdict is the verdict on the first span, which is out.
func (h *harness) firstVerdict(t *testing.T) verdict {
	t.Helper()
	s, out := spansOf(h.out())[spanID(1)]
	require.True(t, out, "it still waits")
	return verdictOf(s)
}

// All of a run was refused. Its span comes again first, more than max_hold after it ended.
func TestRefusedRunComesAgainFirst(t *testing.T) {
	h, next := newFlakyHarness(t, defaultConfig())
	h.clock.advance(2 * time.Second)
	h.refuse(t, next, shownBefore(1))
	h.refuse(t, next, uncountedRun(1, 2)...)
	h.pass(t, 40*time.Second) // the pause of the senders
	h.consume(t, uncountedRun(1, 2)...)
	h.pass(t, defaultSettle)
	h.consume(t, shownBefore(1))
	h.pass(t, defaultMaxHold)
	assert.NotEqual(t, safe, h.firstVerdict(t).safety)
}

// An inner run that is complete in its call waits for a place in the lane of another trace of
// that call, while the run around it settles.
func TestCompleteRunIsOnItsWay(t *testing.T) {
	cfg := defaultConfig()
	cfg.Shards = 2
	h, _ := newFlakyHarness(t, cfg)
	var traces [2][]byte // by shard
	for n := byte(1); n < 50; n++ {
		i := h.shards.index(traceID(n))
		traces[i] = append(traces[i], n)
	}
	busy, other, own := traces[0][0], traces[0][1], traces[1][0]
	for i := range byte(maxDeliveries) { // shard 0 is busy, its inbox is full
		require.NoError(t, h.classifier.ConsumeTraces(t.Context(), tracesOf(t, requestSpan(100+i, 99, 0, 1).of(busy))))
	}
	call := tracesOf(t, append(finishedRun(other),
		runSpan(11, 1.01, 1.06, 1, 0).failed("x").under(1).of(own),
		requestSpan(12, 11, 1.01, 1.05).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2}).of(own))...)
	done := make(chan error)
	go func() { done <- h.classifier.ConsumeTraces(t.Context(), call) }()
	require.Eventually(t, func() bool { // it waits for a place
		return len(h.shards.of(h.tenants.others, traceID(own)).awaited.of(traceID(own)).Spans) > 0
	}, time.Minute, time.Millisecond)
	run := uncountedRun(1, 2)
	require.NoError(t, h.classifier.ConsumeTraces(t.Context(), tracesOf(t, run[0].of(own), run[1].of(own))))
	l := h.shards[1].lane(h.tenants.others)
	d, _ := l.inbox.take()
	l.receive(t.Context(), &d)
	l.tick(t.Context(), h.clock.advance(defaultSettle))
	l.judgeAll(t.Context())
	h.settle(t.Context()) // shard 0 goes on
	require.NoError(t, <-done)
	h.settle(t.Context())
	h.pass(t, defaultMaxHold)
	for _, rs := range h.out().ResourceSpans().All() {
		for _, span := range rs.ScopeSpans().At(0).Spans().All() {
			if span.SpanID() == spanID(1) && span.TraceID() == traceID(own) {
				assert.NotEqual(t, safe, verdictOf(span).safety)
			}
		}
	}
}

// What is beneath a request without a run was refused, and forgotten to make room.
func TestForgottenBeneathRequest(t *testing.T) {
	cfg := defaultConfig()
	cfg.MaxFactBytes = 64 << 10
	h, next := newFlakyHarness(t, cfg)
	h.refuse(t, next, beneathRequest())
	for trace := byte(10); trace < 200; trace++ {
		h.refuse(t, next, shownBefore(1).of(trace))
	}
	h.consume(t, limitedRequest(0))
	h.pass(t, defaultMaxHold)
	assert.NotEqual(t, safe, h.firstVerdict(t).safety)
}

// A request whose parent never comes goes early. What is beneath it was refused.
func TestEarlyRequestAwaits(t *testing.T) {
	h, next := newFlakyHarness(t, defaultConfig())
	h.refuse(t, next, beneathRequest())
	r := limitedRequest(0)
	r.parent = 77
	h.consume(t, r)
	h.pass(t, defaultMaxHold)
	assert.NotEqual(t, safe, h.firstVerdict(t).safety)
}

// What goes early because it was held for max_hold is judged as if a call of its trace that is on
// its way had come before. What was refused makes it no less careful than if it were here.
func TestEarlyAwaits(t *testing.T) {
	const request, parent, run = 3, 77, 1 // neither the parent nor the run comes
	limited := func(from, to float64) spanSpec {
		return requestSpan(request, run, from, to).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
	}
	broke := requestSpan(request, run, 0.1, 0.5).refused(500, semconv.ProviderErrorKindServerError, "")
	unowned := func(s spanSpec, parent byte) spanSpec {
		s = s.without(semconv.RunIDKey)
		s.parent = parent
		return s
	}
	alone := unowned(limited(0.1, 0.5), parent)
	tool := func(from, to float64, call string) spanSpec {
		return toolSpan(4, from, to, call, semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)
	}
	nameless := tool(2, 3, "").without(otelsemconv.GenAIToolCallIDKey)
	shown := func(service string, from float64) spanSpec {
		return unowned(requestSpan(5, 0, from, from+0.3).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2}), request).in(service)
	}
	quota := func(from float64) spanSpec {
		return unowned(requestSpan(5, 0, from, from+0.3).refused(429, semconv.ProviderErrorKindQuotaExhausted, "insufficient_quota"), request).in(gatewayService)
	}
	answered := requestSpan(5, run, 2, 3).answered("stop", answer)
	idempotent := toolSpan(4, 3, 4, "call_1", semconv.ToolEffectIdempotent, semconv.ToolOutcomeFailed).failed("x")
	maker := func(from float64) spanSpec {
		return requestSpan(request, run, from, 2.9).
			cut(semconv.PhaseToolInput, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{inputs: 1, openIDs: []string{"call_1"}})
	}
	for name, tt := range map[string]struct {
		goes, comes spanSpec
		want        semconv.RetrySafety // with all of it here
	}{
		"another request, later":                      {limited(0.1, 0.5), answered, safe},
		"another request, later, of none":             {alone, unowned(answered, parent), safe},
		"a tool without an id, later":                 {limited(0.1, 0.5), nameless, confirm},
		"a tool without an id and a run, later":       {limited(0.1, 0.5), unowned(nameless, run), confirm},
		"a tool, the request ended before it began":   {limited(5, 2.5), tool(4, 4.5, "call_1"), confirm},
		"a tool, long before":                         {limited(5, 5.5), tool(1, 4.5, "call_1"), confirm},
		"a tool, long before, beneath something else": {limited(5, 5.5), unowned(tool(1, 4.5, "call_1"), request), confirm},
		"beneath it":                                {alone, shown("", 0.2), confirm},
		"beneath it, later":                         {alone, shown("", 3), confirm},
		"a gateway's, whose clock is wrong":         {broke, quota(5.2), semconv.RetrySafetyNoRetry},
		"of a tool, the request that made its call": {idempotent, maker(0.1), semconv.RetrySafetyNoRetry},
		"of a tool, and it had just begun":          {idempotent, maker(2.5), semconv.RetrySafetyNoRetry},
	} {
		t.Run(name, func(t *testing.T) {
			verdict := func(h *harness) semconv.RetrySafety {
				span, out := spansOf(h.out())[spanID(tt.goes.id)]
				require.True(t, out)
				return verdictOf(span).safety
			}
			h, _ := newFlakyHarness(t, defaultConfig())
			h.consume(t, tt.goes, tt.comes)
			h.pass(t, defaultMaxHold)
			require.Equal(t, tt.want, verdict(h), "here")

			for _, longer := range []bool{false, true} {
				h, next := newFlakyHarness(t, defaultConfig())
				h.consume(t, tt.goes)
				next.fail = func(ptrace.Traces) error {
					next.fail = nil
					h.pass(t, defaultMaxHold)
					require.NotContains(t, spansOf(h.out()), spanID(tt.goes.id))
					if longer {
						h.pass(t, time.Second)
					}
					return nil
				}
				require.NoError(t, h.ConsumeTraces(t.Context(), tracesOf(t, tt.comes, otherSpan(90, 0, 0, 1).of(9))))
				h.pass(t, 5*time.Millisecond)
				if longer {
					assert.NotEqual(t, safe, verdict(h), "for long on its way")
				} else {
					assert.Equal(t, tt.want, verdict(h), "on its way")
				}
			}

			if tt.want == safe {
				return
			}
			h, next := newFlakyHarness(t, defaultConfig())
			h.consume(t, tt.goes)
			h.refuse(t, next, tt.comes)
			h.pass(t, defaultMaxHold)
			assert.NotEqual(t, safe, verdict(h), "refused")
		})
	}
}

// A span may end at any time.
func TestAwaitedEndOfTime(t *testing.T) {
	for name, end := range map[string]pcommon.Timestamp{"of a second": at(2), "the last of all": math.MaxUint64} {
		h, next := newFlakyHarness(t, defaultConfig())
		f := newForest(t)
		f.addRefused(pcommon.SpanID{}, 1, 2)
		f.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SetEndTimestamp(end)
		s := shownBefore(1).without(semconv.RunIDKey)
		s.parent = 77
		h.refuse(t, next, s)
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		h.pass(t, 2*defaultMaxHold)
		assert.Equal(t, confirm, verdictOf(spansOf(h.out())[spanID(1)]).safety, name)
	}
}

// A refused call with many traces leaves no memory behind.
func TestManyRefusedTracesLeaveNoMemory(t *testing.T) {
	cfg := tenantConfig()
	cfg.MaxFactBytes = 1 << 20
	h, next := newFlakyHarness(t, cfg)
	next.fail = down
	call := func(tenant int) ptrace.Traces {
		td := ptrace.NewTraces()
		spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
		for i := range 60_000 {
			s := spans.AppendEmpty()
			var id pcommon.TraceID
			binary.LittleEndian.PutUint64(id[:], uint64(i)+1)
			s.SetTraceID(id)
			s.SetSpanID(spanID(1))
			s.Attributes().PutStr("gen_ai.operation.name", "chat")
		}
		spans.AppendEmpty().SetSpanID(spanID(2))
		return ofTenant(strconv.Itoa(tenant), td)
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	require.Error(t, h.ConsumeTraces(t.Context(), call(0)))
	before := heap()
	const tenants = 10
	for i := range tenants {
		require.Error(t, h.ConsumeTraces(t.Context(), call(i+1)))
	}
	for range 3 {
		h.clock.advance(defaultRunTimeout)
		h.shards[0].rotate()
	}
	require.Zero(t, h.tables()[refusedTable])
	assert.Less(t, (heap()-before)/tenants, int64(1<<20))
	runtime.KeepAlive(h)
}

// A request without a run that began long after what was lost does not lack that.
func TestLaterRequestAwaitsNothing(t *testing.T) {
	h, next := newFlakyHarness(t, defaultConfig())
	h.refuse(t, next, requestSpan(9, 8, 1, 2))
	h.pass(t, 5*time.Minute)
	h.consume(t, limitedRequest(300))
	h.pass(t, defaultSettle)
	assert.Equal(t, safe, h.firstVerdict(t).safety)
}

// A run does not wait for what began after it had ended: a later turn of its session.
func TestEarlierRunAwaitsNothing(t *testing.T) {
	for name, happens := range map[string]func(*testing.T, *harness, *flakyNext){
		"refused": func(t *testing.T, h *harness, next *flakyNext) {
			h.refuse(t, next, requestSpan(9, 8, 3.1, 3.5))
			h.pass(t, defaultSettle)
		},
		"slow next consumer, all is taken": func(t *testing.T, h *harness, next *flakyNext) {
			for i := range byte(9) {
				next.fail = func(ptrace.Traces) error { next.fail = nil; h.pass(t, 3*time.Second); return nil }
				from := 4 + 3*float64(i)
				h.consume(t, requestSpan(100+i, 99, from, from+0.5).answered("stop", answer), otherSpan(200+i, 0, 0, 1).of(9))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, next := newFlakyHarness(t, defaultConfig())
			h.clock.advance(2 * time.Second)
			h.consume(t, uncountedRun(1, 2)...)
			h.clock.advance(time.Second)
			happens(t, h, next)
			assert.Equal(t, safe, h.firstVerdict(t).safety)
		})
	}
}

// A span that is here is not awaited: a copy of it was refused, or its sender gave up on a
// call, sent it again, and the first call fails after that.
func TestRefusedCopy(t *testing.T) {
	call := []spanSpec{uncountedRun(1, 2)[1], otherSpan(90, 0, 0, 1).of(9)}
	for name, happens := range map[string]func(*testing.T, *harness, *flakyNext){
		"later": func(t *testing.T, h *harness, next *flakyNext) {
			h.consume(t, call[0])
			h.refuse(t, next, call[0])
		},
		"timed out": func(t *testing.T, h *harness, next *flakyNext) {
			next.fail = func(ptrace.Traces) error {
				next.fail = nil
				h.consume(t, call...)
				return errDown
			}
			require.Error(t, h.ConsumeTraces(t.Context(), tracesOf(t, call...)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, next := newFlakyHarness(t, defaultConfig())
			happens(t, h, next)
			h.consume(t, uncountedRun(1, 2)[0])
			h.pass(t, defaultSettle)
			assert.Equal(t, safe, h.firstVerdict(t).safety)
		})
	}
}

// After a permanent error the sender does not send the spans again: the run lacks them at once.
func TestPermanentErrorIsNotWaitedFor(t *testing.T) {
	h, next := newFlakyHarness(t, defaultConfig())
	next.fail = func(ptrace.Traces) error { return consumererror.NewPermanent(errDown) }
	require.Error(t, h.ConsumeTraces(t.Context(), tracesOf(t, shownBefore(1), otherSpan(90, 0, 0, 1).of(9))))
	next.fail = nil
	h.consume(t, uncountedRun(1, 2)...)
	h.pass(t, defaultSettle)
	assert.Equal(t, confirm, h.firstVerdict(t).safety)
}

// A span that came again does not make one that is lost look new.
func TestLostSpanStaysOld(t *testing.T) {
	h, next := newFlakyHarness(t, defaultConfig())
	h.refuse(t, next, requestSpan(9, 8, 1, 2)) // lost for ever
	h.pass(t, 5*time.Minute+time.Second)
	other := uncountedRun(300, 301)[1]
	h.refuse(t, next, other)
	h.consume(t, other)
	h.consume(t, uncountedRun(300, 301)[0])
	h.pass(t, defaultSettle)
	assert.Equal(t, safe, h.firstVerdict(t).safety)
}

// The lane of a new tenant has room for a few refused spans.
func TestNewTenantRemembersRefused(t *testing.T) {
	cfg := tenantConfig() // max_fact_bytes is 64 MiB
	cfg.Shards = 8
	h, next := newFlakyHarness(t, cfg)
	var same []byte // traces of one shard
	for n := byte(1); len(same) < 2; n++ {
		if h.shards.index(traceID(n)) == 0 {
			same = append(same, n)
		}
	}
	lost := []spanSpec{otherSpan(90, 0, 0, 1).of(9)}
	for id := byte(20); id < 24; id++ {
		lost = append(lost, requestSpan(id, 8, 1, 1.1).of(same[0]))
	}
	next.fail = func(ptrace.Traces) error { // the shard has seen the new lane meanwhile
		h.turns(t)
		return errDown
	}
	h.clock.advance(1500 * time.Millisecond)
	require.Error(t, h.ConsumeTraces(t.Context(), ofTenant("a", tracesOf(t, lost...))))
	next.fail = nil
	h.clock.advance(time.Second)
	run := uncountedRun(1, 2)
	require.NoError(t, h.ConsumeTraces(t.Context(), ofTenant("a", tracesOf(t, run[0].of(same[1]), run[1].of(same[1])))))
	h.pass(t, defaultSettle)
	assert.Equal(t, safe, h.firstVerdict(t).safety, "another trace")
}

// A run that has settled, and lacked a request that it announced, awaits refused spans when that
// request comes.
func TestSettledRunAwaits(t *testing.T) {
	h, next := newFlakyHarness(t, defaultConfig())
	h.consume(t, unannounced(runSpan(1, 1, 2, 1, 0)).with(semconv.RunRequests(1)).failed("429"))
	h.pass(t, defaultSettle)
	h.refuse(t, next, shownBefore(1))
	h.consume(t, uncountedRun(1, 2)[1])
	_, out := spansOf(h.out())[spanID(1)]
	assert.False(t, out, "careful, but the refused span will be late")
}

// Spans of two services have one id, and both were refused.
func TestRefusedSpansOfOneID(t *testing.T) {
	h, next := newFlakyHarness(t, defaultConfig())
	a := requestSpan(3, 1, 1.011, 1.05).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded").in(gatewayService)
	h.consume(t, uncountedRun(1, 2)...)
	h.refuse(t, next, a)
	h.refuse(t, next, shownBefore(1))
	h.consume(t, a)
	h.pass(t, defaultSettle)
	if s, out := spansOf(h.out())[spanID(1)]; out {
		assert.NotEqual(t, safe, verdictOf(s).safety)
	}
}

// Requests under one parent, which passed: that one of them is on its way.
func TestRequestsUnderOneParentAwait(t *testing.T) {
	under := func(s spanSpec) spanSpec { s.parent = 9; return s }
	limited := func(id byte, from float64) spanSpec {
		return under(requestSpan(id, 0, from, from+0.5).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded"))
	}
	shown := under(requestSpan(5, 0, 1, 1.5).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2}))
	held := []spanSpec{limited(3, 10), limited(4, 12), otherSpan(9, 0, 0, 100)}
	verdict := func(h *harness) semconv.RetrySafety { return verdictOf(spansOf(h.out())[spanID(4)]).safety }

	h, _ := newFlakyHarness(t, defaultConfig())
	h.consume(t, append(held, shown)...)
	h.pass(t, defaultMaxHold)
	require.Equal(t, confirm, verdict(h), "here")

	h, next := newFlakyHarness(t, defaultConfig())
	h.consume(t, held...)
	h.refuse(t, next, shown)
	h.pass(t, defaultMaxHold)
	require.Equal(t, confirm, verdict(h), "refused")

	for _, longer := range []time.Duration{0, time.Second} {
		h, next = newFlakyHarness(t, defaultConfig())
		h.consume(t, held...)
		next.fail = func(ptrace.Traces) error {
			next.fail = nil
			h.pass(t, defaultMaxHold)
			if longer > 0 {
				h.pass(t, longer)
			}
			return nil
		}
		require.NoError(t, h.ConsumeTraces(t.Context(), tracesOf(t, shown, otherSpan(90, 0, 0, 1).of(9))))
		h.pass(t, 5*time.Millisecond)
		assert.Equal(t, confirm, verdict(h), "on its way for %v longer", longer)
	}
}
