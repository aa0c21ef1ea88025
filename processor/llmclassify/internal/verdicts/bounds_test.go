package llmclassify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// Many things are bounded: how far up parents are followed, how many runs are searched, how
// long lists are. What is beyond a bound must not make a verdict less careful.

// forest is spans of a trace, of which there are more than one byte tells apart.
type forest struct {
	testing.TB
	ptrace.Traces
}

func newForest(tb testing.TB) forest {
	tb.Helper()
	return forest{tb, ptrace.NewTraces()}
}

// many is the id of the nth of many spans.
func many(n int) pcommon.SpanID { return pcommon.SpanID{0xde, byte(n >> 8), byte(n), 1} }

func (f forest) add(s spanSpec, id, parent pcommon.SpanID, from, to float64) ptrace.Span {
	td := tracesOf(f, s)
	span := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	span.SetSpanID(id)
	span.SetParentSpanID(parent)
	span.SetStartTimestamp(at(from))
	span.SetEndTimestamp(at(to))
	td.ResourceSpans().MoveAndAppendTo(f.ResourceSpans())
	return span
}

// addChain adds spans of which each is the parent of the next one, and returns the last.
func (f forest) addChain(s spanSpec, depth int, parent pcommon.SpanID, from, to float64) pcommon.SpanID {
	for n := range depth {
		within := 0.0001 * float64(n+1)
		f.add(s, many(n), parent, from+within, to-within)
		parent = many(n)
	}
	return parent
}

// addRefused adds the spans of uncountedRun beneath a parent.
func (f forest) addRefused(parent pcommon.SpanID, from, to float64) {
	spans := uncountedRun(from, to)
	f.add(spans[0], spanID(1), parent, from, to)
	f.add(spans[1], spanID(2), spanID(1), from+0.1, from+0.2)
}

// addShown adds run 4, an uncounted one, with request 5, which showed text.
func (f forest) addShown(parent pcommon.SpanID, from, to float64) {
	f.add(unannounced(runSpan(4, 0, 0, 1, 0)).failed("x"), spanID(4), parent, from, to)
	f.add(shownText(5, 4), spanID(5), spanID(4), from+0.1, to-0.1)
}

func shownText(id, run byte) spanSpec {
	return requestSpan(id, run, 0.3, 0.5).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2})
}

// judgeCalls judges calls that come one after the other, with a pause after each.
func judgeCalls(t *testing.T, pause time.Duration, calls ...forest) map[byte]verdict {
	t.Helper()
	h := newHarness(t, defaultConfig(), nil)
	for _, c := range calls {
		require.NoError(t, h.ConsumeTraces(t.Context(), c.Traces))
		h.pass(t, pause)
	}
	h.pass(t, time.Minute)
	return verdicts(h.out())
}

// What a run did counts, however many spans are between the two.
func TestDeepChain(t *testing.T) {
	between := map[string]spanSpec{
		"other spans": otherSpan(9, 1, 0, 1),
		"requests":    requestSpan(9, 0, 0, 1).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded"),
		"runs":        unannounced(runSpan(9, 0, 1, 0, 0)).failed("429"),
	}
	for name, spec := range between {
		for _, depth := range []int{10, 60, 120, 126, 130, 300, 1000} {
			chain, text, run := newForest(t), newForest(t), newForest(t)
			above := chain.addChain(spec, depth, spanID(1), 0, 1)
			text.add(shownText(3, 0), spanID(3), above, 0.3, 0.5)
			run.addRefused(pcommon.SpanID{}, 0, 1)
			for i, calls := range [][]forest{{chain, text, run}, {run, text, chain}} {
				for c := range calls {
					calls[c] = calls[c].clone()
				}
				assert.Equal(t, confirm, judgeCalls(t, 0, calls...)[1].safety, "%s, %d, order %d", name, depth, i)
			}
			for _, f := range []forest{text, run} {
				f.ResourceSpans().MoveAndAppendTo(chain.ResourceSpans())
			}
			assert.Equal(t, confirm, judgeCalls(t, 0, chain)[1].safety, "%s, %d, at once", name, depth)
		}
	}
}

// It does not count in a run beside that one, which is well.
func TestDeepChainBesideAnotherRun(t *testing.T) {
	for _, depth := range []int{10, 126, 130, 300} {
		for _, above := range []string{"a run", "no run"} {
			f := newForest(t)
			parent := spanID(90)
			if above == "a run" {
				f.addRefused(pcommon.SpanID{}, 0, 4)
				parent = spanID(1)
			} else {
				f.add(otherSpan(9, 1, 0, 1), parent, pcommon.SpanID{}, 0, 4)
			}
			parent = f.addChain(otherSpan(9, 1, 0, 1), depth, parent, 0.3, 3)
			f.add(shownText(3, 0), spanID(3), parent, 1.3, 1.5)
			f.add(runSpan(6, 0, 0, 1, 0), spanID(6), pcommon.SpanID{}, 1, 3)
			f.add(requestSpan(7, 6, 1.1, 2.9).answered("stop", answer), spanID(7), spanID(6), 1.1, 2.9)
			v := judgeCalls(t, 0, f)
			assert.Equal(t, semconv.RunOutcomeSucceeded, v[6].outcome, "%s, %d", above, depth)
			if above == "a run" {
				assert.Equal(t, confirm, v[1].safety, depth)
			}
		}
	}
}

func (f forest) clone() forest {
	c := newForest(f.TB)
	f.CopyTo(c.Traces)
	return c
}

// So does what a run far within it did that outlasts it.
func TestDeepRun(t *testing.T) {
	for _, depth := range []int{10, 127, 128, 300} {
		f, inner := newForest(t), newForest(t)
		f.addRefused(pcommon.SpanID{}, 0, 2)
		above := f.addChain(otherSpan(9, 1, 0, 1), depth, spanID(1), 0.3, 6)
		inner.addShown(above, 1, 5)
		assert.Equal(t, confirm, judgeCalls(t, xSettle/2, f.clone(), inner.clone())[1].safety, "%d, later", depth)
		inner.ResourceSpans().MoveAndAppendTo(f.ResourceSpans())
		assert.Equal(t, confirm, judgeCalls(t, 0, f)[1].safety, depth)
	}
}

// Runs are judged from the innermost outwards, however many are around one another.
func TestManyNestedRuns(t *testing.T) {
	for _, depth := range []int{10, 63, 64, 100} {
		f := newForest(t)
		above := f.addChain(unannounced(runSpan(9, 0, 1, 0, 0)).failed("429"), depth, pcommon.SpanID{}, 0, 10)
		f.addRefused(above, 1, 2)
		f.addShown(spanID(1), 1.3, 5) // outlasts it
		assert.Equal(t, confirm, judgeCalls(t, 0, f)[1].safety, depth)
	}
}

// A request whose parents are not here may be of any of many runs of its time, also where
// these are more than are searched.
func TestRequestOfOneOfManyRuns(t *testing.T) {
	for _, others := range []int{1, 250, 260, 1000} {
		for _, last := range []bool{false, true} {
			run, text, later := newForest(t), newForest(t), newForest(t)
			run.addRefused(pcommon.SpanID{}, 0, 1)
			text.add(shownText(3, 0), spanID(3), spanID(99), 0.3, 0.5)
			for n := range others {
				later.add(unannounced(runSpan(9, 0, 0, 0, 0)).failed("429"), many(n), pcommon.SpanID{}, 2, 3)
			}
			calls := []forest{run, text, later}
			if last {
				calls = []forest{run, later, text}
			}
			assert.Equal(t, confirm, judgeCalls(t, 0, calls...)[1].safety, "%d others, last %v", others, last)
		}
	}
}

// A run that is a part of one run may be a part of another one, too, after many others.
func TestInnerRunOfTwoRuns(t *testing.T) {
	for _, others := range []int{10, trace.MaxPastRuns - 1, trace.MaxPastRuns, trace.MaxPastRuns + 1, 2 * trace.MaxPastRuns} {
		first, later, last := newForest(t), newForest(t), newForest(t)
		first.add(runSpan(4, 0, 0, 1, 0).failed("x"), spanID(4), spanID(99), 1.3, 2)
		first.add(shownText(5, 4), spanID(5), spanID(4), 1.4, 1.5)
		first.add(runSpan(7, 0, 0, 1, 0).failed("429"), spanID(7), pcommon.SpanID{}, 1, 3)
		first.add(requestSpan(8, 7, 0, 0).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded"), spanID(8), spanID(7), 1.1, 1.2)
		for n := range others {
			later.add(runSpan(9, 0, 0, 0, 0), many(n), spanID(98), 50+0.001*float64(n), 60)
		}
		last.addRefused(pcommon.SpanID{}, 0.5, 4)
		assert.Equal(t, confirm, judgeCalls(t, time.Second, first, later, last)[1].safety, others)
	}
}

// A list that is full may be cut.
func TestFullLists(t *testing.T) {
	for _, n := range []int{10, 62, 63, 64, 65} {
		tools := append([]string{"code_interpreter"}, slices.Repeat([]string{"web_search"}, n)...)
		offered := requestSpan(2, 1, 0.1, 0.5).without(semconv.RequestProviderToolsKey).with(semconv.RequestProviderTools(tools...)).
			cut(semconv.PhaseReasoning, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{reasoning: 2})
		for _, spans := range [][]spanSpec{
			{unannounced(runSpan(1, 0, 1, 1, 0)).failed("x"), offered},
			{runSpan(1, 0, 5, 1, 1).failed("x"), cutWithCalls(callIDs(n)), toolSpan(4, 1, 2, "call_0", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)},
		} {
			h := newHarness(t, defaultConfig(), nil)
			h.consume(t, spans...)
			h.pass(t, time.Minute)
			v := verdicts(h.out())
			assert.Equal(t, confirm, v[1].safety, n)
			assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, v[spans[1].id].safety, n)
		}
	}
}

// callIDs are the ids of n tool calls.
func callIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("call_%d", i)
	}
	return ids
}

// cutWithCalls is a request of run 1 that broke after these tool calls, of which it shows the
// ids and no counts.
func cutWithCalls(ids []string) spanSpec {
	return requestSpan(3, 1, 0.1, 0.5).
		cut(semconv.PhaseReasoning, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{reasoning: 2, callIDs: ids}).
		without(semconv.StreamToolInputsStartedKey, semconv.StreamToolInputsCompletedKey, semconv.StreamToolCallsKey)
}

// An answer that is too long to be read is no empty one.
func TestLongAnswers(t *testing.T) {
	usage := []attribute.KeyValue{attribute.Int("gen_ai.usage.input_tokens", 10), attribute.Int("gen_ai.usage.output_tokens", 0)}
	for _, messages := range []int{1, 64, 65} {
		f := newForest(t)
		f.add(runSpan(1, 0, 1, 1, 0).failed("x"), spanID(1), pcommon.SpanID{}, 0, 1)
		s := genAISpan(2, 1, otelsemconv.GenAIOperationNameChat, 0.1, 0.5, otelsemconv.GenAIRequestStream(true), otelsemconv.GenAIResponseFinishReasons("stop"))
		list := f.add(s.with(usage...), spanID(2), spanID(1), 0.1, 0.5).Attributes().PutEmptySlice("gen_ai.output.messages")
		for range messages {
			p := list.AppendEmpty().SetEmptyMap().PutEmptySlice("parts").AppendEmpty().SetEmptyMap()
			p.PutStr("type", "text")
			p.PutStr("content", "hello")
		}
		assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, judgeCalls(t, 0, f)[1].safety, messages)
	}
	for _, length := range []int{100, 60 << 10, 70 << 10} {
		f := newForest(t)
		f.add(runSpan(1, 0, 1, 1, 0).failed("x"), spanID(1), pcommon.SpanID{}, 0, 1)
		f.add(spanSpec{
			library: "openinference.instrumentation.openai_agents", name: "response", kind: ptrace.SpanKindInternal, status: ptrace.StatusCodeOk,
			attrs: []attribute.KeyValue{
				attribute.String("openinference.span.kind", "LLM"), attribute.Int("llm.token_count.total", 10),
				attribute.Int("llm.token_count.prompt", 10), attribute.Int("llm.token_count.completion", 0),
				attribute.String("output.value", `{"status":"completed","output":[{"type":"message","content":[{"text":"`+strings.Repeat("x", length)+`"}]}]}`),
			},
		}, spanID(2), spanID(1), 0.1, 0.5)
		assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, judgeCalls(t, 0, f)[1].safety, length)
	}
}

// Of runs whose parents are not here, the longer ones may be around the others.
func TestOrderOfOpenRuns(t *testing.T) {
	f := newForest(t)
	f.add(unannounced(runSpan(9, 0, 0, 1, 0)), spanID(9), spanID(99), 0, 10)
	f.addRefused(spanID(9), 1, 5)
	f.addShown(spanID(98), 2, 3)
	assert.Equal(t, confirm, judgeCalls(t, 0, f)[1].safety)
}

// A run that another one has taken may be within one that comes later. It is not forgotten
// silently for lack of memory.
func TestTakenRunIsForgotten(t *testing.T) {
	cfg := defaultConfig()
	cfg.MaxFactBytes = 1 << 20
	h := newHarness(t, cfg, nil)
	first, last := newForest(t), newForest(t)
	first.add(runSpan(4, 0, 0, 1, 0).failed("x"), spanID(4), spanID(99), 1.3, 2)
	first.add(shownText(5, 4), spanID(5), spanID(4), 1.4, 1.5)
	first.add(runSpan(7, 0, 0, 1, 0).failed("429"), spanID(7), pcommon.SpanID{}, 1, 3)
	refused := requestSpan(8, 0, 0, 0).refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
	first.add(refused.with(semconv.RunID(spanID(7).String())), spanID(8), spanID(7), 1.1, 1.2)
	last.add(runSpan(1, 0, 0, 1, 0).failed("429"), spanID(1), pcommon.SpanID{}, 0.5, 4)
	last.add(refused.with(semconv.RunID(spanID(1).String())), spanID(2), spanID(1), 0.6, 0.7)
	require.NoError(t, h.ConsumeTraces(t.Context(), first.Traces))
	h.pass(t, time.Second)
	for n := 0; h.keepsRuns(traceID(1)); n++ {
		require.Less(t, n, 10_000)
		f := newForest(t)
		f.add(runSpan(9, 0, 0, 0, 0), many(n), spanID(98), 1, 2).SetTraceID(pcommon.TraceID{0xaa, byte(n >> 13), byte(n >> 5), 1})
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
	}
	require.NoError(t, h.ConsumeTraces(t.Context(), last.Traces))
	h.pass(t, time.Minute)
	assert.Equal(t, confirm, verdicts(h.out())[1].safety)
}

// Of a full list of calls without counts, one that is not in it may have run.
func TestFullCallListWithoutCounts(t *testing.T) {
	for n, want := range map[int]semconv.RetrySafety{10: safe, 63: safe, 64: confirm} {
		calls := callIDs(n)
		spans := []spanSpec{unannounced(runSpan(1, 0, 5, 1, 0)).failed("x"), cutWithCalls(calls)}
		for i, call := range calls {
			spans = append(spans, toolSpan(byte(10+i), 1, 2, call, semconv.ToolEffectIdempotent, semconv.ToolOutcomeSucceeded))
		}
		h := newHarness(t, defaultConfig(), nil)
		h.consume(t, spans...)
		h.pass(t, time.Minute)
		v := verdicts(h.out())
		assert.Equal(t, want, v[3].safety, "the request, %d", n)
		assert.Equal(t, want, v[1].safety, "its run, %d", n)
	}
}

// Traces of one run each, however many there are, take no room of the judged runs that others may be around.
func TestRunsWithinOthersOutlastAFlood(t *testing.T) {
	for name, tt := range map[string]struct {
		within byte // the run around each run of the flood, 0 if it is a root
		want   semconv.RetrySafety
	}{"of roots": {0, safe}, "of runs within others": {9, confirm}} {
		t.Run(name, func(t *testing.T) {
			cfg := defaultConfig()
			cfg.MaxFactBytes = 1 << 17
			h := newHarness(t, cfg, nil)
			h.consume(t, runSpan(10, 1, 2, 1, 0).under(1).failed("429"), limitedOf(11, 10))
			for n := range 100 {
				td := tracesOf(t, runSpan(1, 0, 3, 1, 0).under(tt.within), requestSpan(2, 1, 0.1, 1).answered("stop", answer))
				eachSpan(td, func(span ptrace.Span) { span.SetTraceID(pcommon.TraceID{9, byte(n)}) })
				require.NoError(t, h.ConsumeTraces(t.Context(), td))
			}
			h.sink.Reset()
			h.consume(t, runSpan(1, 0, 8, 1, 0).failed("429"), limitedOf(2, 1))
			assert.Equal(t, tt.want, verdicts(h.out())[1].safety)
		})
	}
}
