package llmclassify_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/worker"
	"github.com/otelllm/otelllm-go/semconv"
)

// flood is a way in which a tenant sends more than its share: the call of a number, and the
// tenant that it is of.
type flood func(i int) (tenant string, td ptrace.Traces)

// floods are the ways, by name.
func floods(t *testing.T) map[string]flood {
	t.Helper()
	// spans is a call of so many spans that differ in their ids, and are all of one trace or
	// each of its own.
	spans := func(i, n int, oneTrace bool, spec func(n int) harness.Span) ptrace.Traces {
		td := harness.TracesOf(t, harness.Span{})
		list := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
		list.RemoveIf(func(ptrace.Span) bool { return true })
		for n := range n {
			number := i<<16 + n
			span := list.AppendEmpty()
			spec(number).Write(t, span)
			span.SetTraceID(harness.NthTraceID(uint64(i)))
			if !oneTrace {
				span.SetTraceID(harness.NthTraceID(uint64(number)))
			}
			span.SetSpanID(numberedSpan(number + 1))
		}
		return td
	}
	all := map[string]flood{
		"large resources": func(i int) (string, ptrace.Traces) {
			td := spans(i, 1, false, func(int) harness.Span { return harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer) })
			td.ResourceSpans().At(0).Resource().Attributes().PutStr("large", fmt.Sprint(i, strings.Repeat("x", 1<<20)))
			return "flood", td
		},
		"traces without end": func(i int) (string, ptrace.Traces) {
			return "flood", spans(i, 500, false, func(int) harness.Span { return harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer) })
		},
		"names and services": func(i int) (string, ptrace.Traces) {
			td := spans(i, 500, false, func(n int) harness.Span {
				s := harness.RunSpan(1, 0, 3, 0, 0)
				s.Name = fmt.Sprint("invoke_agent ", n)
				return s.Without(otelsemconv.GenAIAgentNameKey).With(otelsemconv.GenAIAgentName(strconv.Itoa(n)))
			})
			td.ResourceSpans().At(0).Resource().Attributes().PutStr(string(otelsemconv.ServiceNameKey), fmt.Sprint("service ", i))
			return "flood", td
		},
		"duplicates": func(int) (string, ptrace.Traces) {
			return "flood", spans(1, 500, true, func(int) harness.Span { return harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer) })
		},
		"links and evidence": func(i int) (string, ptrace.Traces) {
			td := spans(i, 250, true, func(n int) harness.Span {
				if n%50 == 0 {
					return harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer)
				}
				return harness.OtherSpan(9, 8, 0.1, 0.2)
			})
			spans(i, 250, false, func(int) harness.Span { return harness.HTTPSpan(8, 0.9) }).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
			return "flood", td
		},
		"forged verdicts": func(i int) (string, ptrace.Traces) {
			return "flood", spans(i, 500, false, func(int) harness.Span {
				return harness.RunSpan(1, 0, 3, 1, 0).With(
					semconv.RunOutcomeKey.String(semconv.RunOutcomeFailed.String()), semconv.RetrySafetyKey.String(semconv.RetrySafetySafeAutoRetry.String()),
					semconv.FailureSummary(""), semconv.ClassificationTriggerKey.String(semconv.TriggerClient.String()))
			})
		},
		"another one's ids": func(i int) (string, ptrace.Traces) {
			td := ptrace.NewTraces()
			for n := range 50 {
				forged := harness.TracesOf(t, harness.ToolSpan(20, 0.2, 0.4, "call_1", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeFailed),
					harness.RequestSpan(2, 1, 0.1, 0.5).Answered("stop", harness.Answer), harness.RunSpan(1, 0, 3, 1, 1), harness.HTTPSpan(8, 0.9), harness.OtherSpan(9, 1, 0.1, 0.2))
				for _, span := range forged.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
					span.SetTraceID(honestTrace(i + n - 25))
				}
				forged.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
			}
			return "flood", td
		},
		"many tenants": func(i int) (string, ptrace.Traces) {
			td := spans(i, 500, false, func(int) harness.Span { return harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer) })
			return fmt.Sprint("flood ", i), td
		},
	}
	for _, shape := range traceShapes {
		if shape.batch == 1 {
			continue
		}
		var calls []ptrace.Traces
		all[shape.name] = func(i int) (string, ptrace.Traces) {
			if len(calls) == 0 {
				calls = shape.calls(t, 20*shape.batch)
				for _, td := range calls {
					for _, span := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
						span.SetTraceID(harness.NthTraceID(uint64(i)))
					}
				}
			}
			td := calls[0]
			calls = calls[1:]
			return "flood", td
		}
	}
	return all
}

// honestTrace is the trace of the honest tenant's run of a number.
func honestTrace(i int) pcommon.TraceID { return harness.NthTraceID(uint64(1<<40 + i)) } //nolint:gosec // not negative

// honestRun is the run of a number, in two calls: one that ended well, one that is safe to
// repeat, one that is not, and one that waits for its parts.
func honestRun(i int) [2][]harness.Span {
	shown := harness.RequestSpan(2, 1, 0.1, 1).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Answer)
	limited := harness.RequestSpan(2, 1, 0.1, 1).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
	switch i % 4 {
	case 0:
		return [2][]harness.Span{harness.FinishedRun(1)[:1], harness.FinishedRun(1)[1:]}
	case 1:
		return [2][]harness.Span{{limited}, {harness.RunSpan(1, 0, 3, 1, 0)}}
	case 2:
		return [2][]harness.Span{{shown}, {harness.RunSpan(1, 0, 3, 1, 0)}}
	default:
		return [2][]harness.Span{{harness.ChatSpan(2, 1, 0.1, 1).Finished("stop")}, {harness.AgentSpan(1, 0, 0, 3)}}
	}
}

// honestSink keeps the spans of the honest tenant.
type honestSink struct {
	spans map[harness.SpanKey]ptrace.Span
}

func (*honestSink) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (s *honestSink) ConsumeTraces(_ context.Context, td ptrace.Traces) error {
	for _, rs := range td.ResourceSpans().All() {
		if v, _ := rs.Resource().Attributes().Get(namespaceKey); v.Str() != "honest" {
			continue
		}
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				s.spans[harness.SpanKey{Trace: span.TraceID(), ID: span.SpanID()}] = span
			}
		}
	}
	return nil
}

// While one tenant floods, in each of several ways, another one's verdicts are what they are
// without that, and its spans go out in the turn after they are due: its lane's next one. What
// is looked at in a turn of a lane is bounded. It is counted, since a clock would show the
// machine's load: `make endurance` measures the time.
func TestTenantsBesideAFlood(t *testing.T) {
	runs := 20
	if sample.Only() {
		runs = 4
	}
	const (
		step    = 20 * time.Millisecond
		maxWork = 100_000 // of a lane's turn, about half a microsecond each: 50 ms
	)
	play := func(t *testing.T, flood flood) map[harness.SpanKey]ptrace.Span {
		t.Helper()
		cfg := tenantConfig()
		cfg.MaxHeldBytes, cfg.MaxFactBytes = 64<<20, 16<<20
		cfg.MaxHold, cfg.Settle, cfg.RunTimeout = 500*time.Millisecond, 100*time.Millisecond, 5*time.Second
		out := &honestSink{spans: map[harness.SpanKey]ptrace.Span{}}
		h := harness.New(t, cfg, out)
		s, most := h.Shards[0], 0
		turn := func() (worked bool) {
			s.ShareMemory()
			for l := range s.All {
				before := l.Buffer.Work()
				worked = l.Turn(t.Context()) || worked
				most = max(most, l.Buffer.Work()-before)
			}
			return worked
		}
		honest := func(i int, specs []harness.Span) {
			td := ofTenant("honest", harness.TracesOf(t, specs...))
			for _, span := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
				span.SetTraceID(honestTrace(i))
			}
			b := s.Lane(h.Tenants.Named("honest")).Inbox
			require.True(t, b.Places.TryAcquire(b.Room/worker.MaxDeliveries), "the call of run %d would wait", i)
			b.Places.Release(b.Room / worker.MaxDeliveries)
			require.NoError(t, h.Processor.ConsumeTraces(t.Context(), td))
		}
		calls, backlog := 0, 0
		for i := range runs {
			// There is always more of the flood than is taken.
			for range 2 * worker.MaxDeliveries {
				if flood == nil {
					break
				}
				tenant, td := flood(calls)
				b := s.Lane(h.Tenants.Named(tenant)).Inbox
				if !b.Places.TryAcquire(b.Room / 2) {
					break // the call would wait
				}
				b.Places.Release(b.Room / 2)
				require.NoError(t, h.Processor.ConsumeTraces(t.Context(), ofTenant(tenant, td)))
				calls++
			}
			waiting := 0
			for l := range s.All {
				waiting += len(l.Inbox.List)
			}
			backlog = max(backlog, waiting)
			call := honestRun(i)
			honest(i, call[0])
			h.Clock.Advance(step)
			turn()
			honest(i, call[1])
			turn()
			if i%4 == 3 { // due when it has settled
				h.Clock.Advance(cfg.Settle)
				turn()
			}
			turn()
			for id := range byte(2) {
				require.Contains(t, out.spans, harness.SpanKey{Trace: honestTrace(i), ID: harness.SpanID(id + 1)}, "run %d is late", i)
			}
		}
		if flood != nil {
			assert.Greater(t, backlog, 1)
		}
		for range 20 { // it all ends
			h.Clock.Advance(cfg.RunTimeout)
			for turn() {
			}
		}
		assert.LessOrEqual(t, most, maxWork)
		t.Logf("%d calls, at most %d looked at in a turn of a lane", calls, most)
		assert.Zero(t, h.Processor.Telemetry.Flow.Now().Held)
		assert.LessOrEqual(t, h.Load().Bytes, 0)
		return out.spans
	}
	want := play(t, nil)
	all := floods(t)
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i%sample.Every(6) != sample.Every(6)-1 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			got := play(t, all[name])
			require.Len(t, got, len(want))
			for key, span := range want {
				assert.Equal(t, span.Attributes().AsRaw(), got[key].Attributes().AsRaw())
				assert.Equal(t, span.Status().Code(), got[key].Status().Code())
			}
		})
	}
}

// A turn of a lane that has much to forward is bounded in bytes, too, and in one turn a tenant of
// many small calls takes all that wait: else it would wait for as many turns of the other one.
func TestTurnsBesideAFlood(t *testing.T) {
	cfg := tenantConfig()
	cfg.MaxHeldBytes = 256 << 20
	h := harness.New(t, cfg, nil)
	const calls, spans = 8, 500
	for i := range uint64(calls) {
		td := harness.TracesOf(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer))
		list := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
		list.At(0).Attributes().PutStr("padding", strings.Repeat("x", 16<<10))
		for range spans - 1 {
			list.At(0).CopyTo(list.AppendEmpty())
		}
		for n, span := range list.All() {
			span.SetTraceID(harness.NthTraceID(i<<16 + uint64(n))) //nolint:gosec // not negative
		}
		require.NoError(t, h.Processor.ConsumeTraces(t.Context(), ofTenant("flood", td)))
		turns(t, h)
	}
	h.Clock.Advance(cfg.MaxHold)
	h.Shards[0].Turn(t.Context())
	for turn := range 4 {
		h.Sink.Reset()
		for i := range uint64(worker.MaxDeliveries) {
			sendTraces(t, h, "honest", uint64(turn)<<32|i, 1) //nolint:gosec // not negative
		}
		h.Shards[0].Turn(t.Context())
		require.True(t, h.Shards[0].Lane(h.Tenants.Named("honest")).Inbox.Empty(), "the next call would wait")
		size := 0
		for _, td := range h.Sink.AllTraces() {
			size += (&ptrace.ProtoMarshaler{}).TracesSize(td)
		}
		assert.Positive(t, size)
		assert.LessOrEqual(t, size, 2*worker.MaxDue*worker.BytesPerSpan)
	}
}
