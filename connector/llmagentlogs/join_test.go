package llmagentlogs

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/semconv"
)

// ownSpan is a span that the agent itself exports, in the GenAI conventions.
type ownSpan struct {
	id, parent byte
	name       string
	from, to   time.Duration
	attributes map[string]any
	failed     bool
}

var ownTrace = pcommon.TraceID{0xa1}

func ownSpans(tb testing.TB, specs ...ownSpan) ptrace.Traces {
	tb.Helper()
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	require.NoError(tb, rs.Resource().Attributes().FromRaw(map[string]any{"service.name": "codex_exec", "service.version": "1.2.3"}))
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("agent")
	for _, s := range specs {
		span := ss.Spans().AppendEmpty()
		span.SetTraceID(ownTrace)
		span.SetSpanID(pcommon.SpanID{s.id})
		if s.parent != 0 {
			span.SetParentSpanID(pcommon.SpanID{s.parent})
		}
		span.SetName(s.name)
		span.SetStartTimestamp(pcommon.NewTimestampFromTime(t0.Add(s.from)))
		span.SetEndTimestamp(pcommon.NewTimestampFromTime(t0.Add(s.to)))
		require.NoError(tb, span.Attributes().FromRaw(s.attributes))
		if s.failed {
			span.Status().SetCode(ptrace.StatusCodeError)
		}
	}
	return td
}

// in places a record in a span of the agent.
func in(span byte, e entry) entry {
	e.trace, e.span = ownTrace, pcommon.SpanID{span}
	return e
}

// ownTurn is a turn with two requests and a tool, as the agent exports it.
func ownTurn(t *testing.T, failed bool) ptrace.Traces {
	t.Helper()
	const ms = time.Millisecond
	return ownSpans(t,
		ownSpan{id: 1, name: "invoke_agent codex", to: 3000 * ms, attributes: map[string]any{"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "c1"}, failed: failed},
		ownSpan{id: 2, parent: 1, name: "hooks", to: 10 * ms},
		ownSpan{id: 3, parent: 1, name: "chat", from: 20 * ms, to: 600 * ms, attributes: map[string]any{"gen_ai.operation.name": "chat"}},
		ownSpan{id: 4, parent: 3, name: "stream", from: 30 * ms, to: 500 * ms},
		ownSpan{id: 5, parent: 1, name: "execute_tool exec_command", from: 610 * ms, to: 790 * ms, attributes: map[string]any{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "exec_command", "gen_ai.tool.call.id": "call_1"}},
		ownSpan{id: 6, parent: 1, name: "chat", from: 800 * ms, to: 2900 * ms, attributes: map[string]any{"gen_ai.operation.name": "chat"}, failed: failed},
		ownSpan{id: 7, parent: 6, name: "stream", from: 810 * ms, to: 2800 * ms},
	)
}

// logsOfTurn are the logs of the same turn, with records of its second request.
func logsOfTurn(t *testing.T, second []entry) plog.Logs {
	t.Helper()
	const ms = time.Millisecond
	entries := slices.Concat(
		[]entry{unattended, in(2, prompt)}, calls(), []entry{in(5, decided("approved")), in(5, ranTool("call_1", true))}, second,
	)
	entries[2] = in(4, entries[2])
	for i := range entries {
		entries[i].at = time.Duration(i) * 80 * ms
	}
	for i := 9; i < len(entries); i++ {
		entries[i].at += 300 * ms
	}
	if len(second) > 0 {
		entries[9] = in(7, entries[9])
	}
	return codexLogs(t, "c1", entries...)
}

// A turn of which both spans and logs come is one run with one attempt for each request and
// one execution for each tool, in both orders. The logs show what the spans do not.
func TestJoinsOwnSpans(t *testing.T) {
	for _, tt := range []struct {
		name    string
		own     ptrace.Traces
		logs    plog.Logs
		outcome string
		class   string
	}{
		{"well", ownTurn(t, false), logsOfTurn(t, answer()), "succeeded", ""},
		{"broken", ownTurn(t, true), logsOfTurn(t, []entry{headers, sse("output_text.delta"), broken(closedEarly)}), "failed", "stream_interrupted"},
	} {
		made := madeOf(t, defaultConfig(), tt.logs)
		for order, tds := range map[string][]ptrace.Traces{"spans first": slices.Concat([]ptrace.Traces{tt.own}, made), "logs first": append(slices.Clone(made), tt.own)} {
			t.Run(tt.name+", "+order, func(t *testing.T) {
				judged := judge(t, tds...)
				var carriers []ptrace.Span
				for _, span := range judged {
					assert.Equal(t, ownTrace, span.TraceID())
					if value(span, semconv.RunOutcomeKey) != "" {
						carriers = append(carriers, span)
					}
				}
				require.Len(t, carriers, 1)
				assert.Equal(t, pcommon.SpanID{1}, carriers[0].SpanID(), "the agent's own run")
				assert.Equal(t, tt.outcome, value(carriers[0], semconv.RunOutcomeKey))
				assert.Equal(t, tt.class, value(carriers[0], semconv.FailureClassKey))
				if tt.class != "" {
					assert.Equal(t, "user_confirmed_retry", value(carriers[0], semconv.RetrySafetyKey))
				}
				timeline := value(carriers[0], semconv.RunTimelineKey)
				assert.NotContains(t, timeline, "request 3", timeline)
			})
		}
	}
}

// The run that was made comes minutes after the agent's own, which was judged by then. It is
// a part of that one.
func TestRunComesLate(t *testing.T) {
	for name, own := range map[string]ptrace.Traces{"the agent has spans": ownTurn(t, false), "it has none": ptrace.NewTraces()} {
		t.Run(name, func(t *testing.T) {
			cfg := defaultConfig()
			h := newHarness(t, cfg, nil)
			h.consume(t, logsOfTurn(t, answer()))
			h.pass(t, cfg.Settle)
			parts := h.sink.AllTraces()
			h.sink.Reset()
			h.pass(t, cfg.Quiet)
			run := h.sink.AllTraces()
			require.Len(t, spansOf(run...), 1)

			p, sink := newProcessor(t, func(cfg *llmclassify.Config) { cfg.Settle, cfg.MaxHold = 10*time.Millisecond, 50*time.Millisecond })
			total := 0
			for _, td := range append(parts, own) {
				total += td.SpanCount()
				require.NoError(t, p.ConsumeTraces(t.Context(), td))
			}
			require.Eventually(t, func() bool { return sink.SpanCount() == total }, 20*time.Second, time.Millisecond, "all went out")
			require.NoError(t, p.ConsumeTraces(t.Context(), run[0]))
			require.NoError(t, p.Shutdown(t.Context()))
			spans := spansOf(sink.AllTraces()...)
			require.Len(t, spans, total+1)
			assert.Equal(t, []string{"succeeded"}, runOutcomes(spans))
		})
	}
}

// With join_traces off each turn has a trace of its own.
func TestDoesNotJoin(t *testing.T) {
	cfg := defaultConfig()
	cfg.JoinTraces = false
	entries := slices.Concat([]entry{unattended, in(2, prompt)}, answer())
	for _, span := range spansOf(madeOf(t, cfg, codexLogs(t, "c1", at(0, entries...)...))...) {
		assert.NotEqual(t, ownTrace, span.TraceID())
	}
}

// Records of another trace are of something else, such as the requests with which Codex
// warms a connection up.
func TestOtherTracesAreNotOfTheTurn(t *testing.T) {
	other := headers
	other.trace, other.span = pcommon.TraceID{0xb2}, pcommon.SpanID{9}
	entries := slices.Concat([]entry{unattended, in(2, prompt)}, answer(), []entry{other, sse("output_text.delta"), broken(closedEarly)})
	made := madeOf(t, defaultConfig(), codexLogs(t, "c1", at(0, entries...)...))
	assert.Equal(t, []string{"chat", "run"}, partsOf(spansOf(made...)))
}
