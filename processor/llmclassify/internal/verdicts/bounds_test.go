package verdicts

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

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// judgeCalls judges calls that come one after the other, with a pause after each.
func judgeCalls(t *testing.T, pause time.Duration, calls ...harness.Forest) map[byte]harness.Verdict {
	t.Helper()
	h := harness.New(t, harness.DefaultConfig(), nil)
	for _, c := range calls {
		require.NoError(t, h.ConsumeTraces(t.Context(), c.Traces))
		h.Pass(t, pause)
	}
	h.Pass(t, time.Minute)
	return harness.Verdicts(h.Out())
}

// What a run did counts, however many spans are between the two.
func TestDeepChain(t *testing.T) {
	between := map[string]harness.Span{
		"other spans": harness.OtherSpan(9, 1, 0, 1),
		"requests":    harness.RequestSpan(9, 0, 0, 1).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded"),
		"runs":        harness.Unannounced(harness.RunSpan(9, 0, 1, 0, 0)).Failed("429"),
	}
	for name, spec := range between {
		depths := []int{10, 60, 120, 126, 130, 300, 1000}
		for _, depth := range depths[:len(depths)+1-sample.Every(2)] { // without the deepest
			chain, text, run := harness.NewForest(t), harness.NewForest(t), harness.NewForest(t)
			above := chain.AddChain(spec, depth, harness.SpanID(1), 0, 1)
			text.Add(harness.ShownText(3, 0), harness.SpanID(3), above, 0.3, 0.5)
			run.AddRefused(pcommon.SpanID{}, 0, 1)
			for i, calls := range [][]harness.Forest{{chain, text, run}, {run, text, chain}} {
				for c := range calls {
					calls[c] = calls[c].Clone()
				}
				assert.Equal(t, harness.Confirm, judgeCalls(t, 0, calls...)[1].Safety, "%s, %d, order %d", name, depth, i)
			}
			for _, f := range []harness.Forest{text, run} {
				f.ResourceSpans().MoveAndAppendTo(chain.ResourceSpans())
			}
			assert.Equal(t, harness.Confirm, judgeCalls(t, 0, chain)[1].Safety, "%s, %d, at once", name, depth)
		}
	}
}

// It does not count in a run beside that one, which is well.
func TestDeepChainBesideAnotherRun(t *testing.T) {
	for _, depth := range []int{10, 126, 130, 300} {
		for _, above := range []string{"a run", "no run"} {
			f := harness.NewForest(t)
			parent := harness.SpanID(90)
			if above == "a run" {
				f.AddRefused(pcommon.SpanID{}, 0, 4)
				parent = harness.SpanID(1)
			} else {
				f.Add(harness.OtherSpan(9, 1, 0, 1), parent, pcommon.SpanID{}, 0, 4)
			}
			parent = f.AddChain(harness.OtherSpan(9, 1, 0, 1), depth, parent, 0.3, 3)
			f.Add(harness.ShownText(3, 0), harness.SpanID(3), parent, 1.3, 1.5)
			f.Add(harness.RunSpan(6, 0, 0, 1, 0), harness.SpanID(6), pcommon.SpanID{}, 1, 3)
			f.Add(harness.RequestSpan(7, 6, 1.1, 2.9).Answered("stop", harness.Answer), harness.SpanID(7), harness.SpanID(6), 1.1, 2.9)
			v := judgeCalls(t, 0, f)
			assert.Equal(t, semconv.RunOutcomeSucceeded, v[6].Outcome, "%s, %d", above, depth)
			if above == "a run" {
				assert.Equal(t, harness.Confirm, v[1].Safety, depth)
			}
		}
	}
}

// So does what a run far within it did that outlasts it.
func TestDeepRun(t *testing.T) {
	for _, depth := range []int{10, 127, 128, 300} {
		f, inner := harness.NewForest(t), harness.NewForest(t)
		f.AddRefused(pcommon.SpanID{}, 0, 2)
		above := f.AddChain(harness.OtherSpan(9, 1, 0, 1), depth, harness.SpanID(1), 0.3, 6)
		inner.AddShown(above, 1, 5)
		assert.Equal(t, harness.Confirm, judgeCalls(t, harness.Settle/2, f.Clone(), inner.Clone())[1].Safety, "%d, later", depth)
		inner.ResourceSpans().MoveAndAppendTo(f.ResourceSpans())
		assert.Equal(t, harness.Confirm, judgeCalls(t, 0, f)[1].Safety, depth)
	}
}

// Runs are judged from the innermost outwards, however many are around one another.
func TestManyNestedRuns(t *testing.T) {
	for _, depth := range []int{10, 63, 64, 100} {
		f := harness.NewForest(t)
		above := f.AddChain(harness.Unannounced(harness.RunSpan(9, 0, 1, 0, 0)).Failed("429"), depth, pcommon.SpanID{}, 0, 10)
		f.AddRefused(above, 1, 2)
		f.AddShown(harness.SpanID(1), 1.3, 5) // outlasts it
		assert.Equal(t, harness.Confirm, judgeCalls(t, 0, f)[1].Safety, depth)
	}
}

// A request whose parents are not here may be of any of many runs of its time, also where
// these are more than are searched.
func TestRequestOfOneOfManyRuns(t *testing.T) {
	for _, others := range []int{1, 250, 260, 1000} {
		for _, last := range []bool{false, true} {
			run, text, later := harness.NewForest(t), harness.NewForest(t), harness.NewForest(t)
			run.AddRefused(pcommon.SpanID{}, 0, 1)
			text.Add(harness.ShownText(3, 0), harness.SpanID(3), harness.SpanID(99), 0.3, 0.5)
			for n := range others {
				later.Add(harness.Unannounced(harness.RunSpan(9, 0, 0, 0, 0)).Failed("429"), harness.NthSpanID(n), pcommon.SpanID{}, 2, 3)
			}
			calls := []harness.Forest{run, text, later}
			if last {
				calls = []harness.Forest{run, later, text}
			}
			assert.Equal(t, harness.Confirm, judgeCalls(t, 0, calls...)[1].Safety, "%d others, last %v", others, last)
		}
	}
}

// A run that is a part of one run may be a part of another one, too, after many others.
func TestInnerRunOfTwoRuns(t *testing.T) {
	for _, others := range []int{10, trace.MaxPastRuns - 1, trace.MaxPastRuns, trace.MaxPastRuns + 1, 2 * trace.MaxPastRuns} {
		first, later, last := harness.NewForest(t), harness.NewForest(t), harness.NewForest(t)
		first.Add(harness.RunSpan(4, 0, 0, 1, 0).Failed("x"), harness.SpanID(4), harness.SpanID(99), 1.3, 2)
		first.Add(harness.ShownText(5, 4), harness.SpanID(5), harness.SpanID(4), 1.4, 1.5)
		first.Add(harness.RunSpan(7, 0, 0, 1, 0).Failed("429"), harness.SpanID(7), pcommon.SpanID{}, 1, 3)
		first.Add(harness.RequestSpan(8, 7, 0, 0).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded"), harness.SpanID(8), harness.SpanID(7), 1.1, 1.2)
		for n := range others {
			later.Add(harness.RunSpan(9, 0, 0, 0, 0), harness.NthSpanID(n), harness.SpanID(98), 50+0.001*float64(n), 60)
		}
		last.AddRefused(pcommon.SpanID{}, 0.5, 4)
		assert.Equal(t, harness.Confirm, judgeCalls(t, time.Second, first, later, last)[1].Safety, others)
	}
}

// A list that is full may be cut.
func TestFullListMayBeCut(t *testing.T) {
	for _, n := range []int{10, 62, 63, 64, 65} {
		tools := append([]string{"code_interpreter"}, slices.Repeat([]string{"web_search"}, n)...)
		offered := harness.RequestSpan(2, 1, 0.1, 0.5).Without(semconv.RequestProviderToolsKey).With(semconv.RequestProviderTools(tools...)).
			Cut(semconv.PhaseReasoning, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Reasoning: 2})
		for _, spans := range [][]harness.Span{
			{harness.Unannounced(harness.RunSpan(1, 0, 1, 1, 0)).Failed("x"), offered},
			{harness.RunSpan(1, 0, 5, 1, 1).Failed("x"), cutWithCalls(callIDs(n)), harness.ToolSpan(4, 1, 2, "call_0", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded)},
		} {
			h := harness.New(t, harness.DefaultConfig(), nil)
			h.Consume(t, spans...)
			h.Pass(t, time.Minute)
			v := harness.Verdicts(h.Out())
			assert.Equal(t, harness.Confirm, v[1].Safety, n)
			assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, v[spans[1].ID].Safety, n)
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
func cutWithCalls(ids []string) harness.Span {
	return harness.RequestSpan(3, 1, 0.1, 0.5).
		Cut(semconv.PhaseReasoning, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Reasoning: 2, CallIDs: ids}).
		Without(semconv.StreamToolInputsStartedKey, semconv.StreamToolInputsCompletedKey, semconv.StreamToolCallsKey)
}

// An answer that is too long to be read is no empty one.
func TestLongAnswers(t *testing.T) {
	usage := []attribute.KeyValue{attribute.Int("gen_ai.usage.input_tokens", 10), attribute.Int("gen_ai.usage.output_tokens", 0)}
	for _, messages := range []int{1, 64, 65} {
		f := harness.NewForest(t)
		f.Add(harness.RunSpan(1, 0, 1, 1, 0).Failed("x"), harness.SpanID(1), pcommon.SpanID{}, 0, 1)
		s := harness.GenAISpan(2, 1, otelsemconv.GenAIOperationNameChat, 0.1, 0.5, otelsemconv.GenAIRequestStream(true), otelsemconv.GenAIResponseFinishReasons("stop"))
		list := f.Add(s.With(usage...), harness.SpanID(2), harness.SpanID(1), 0.1, 0.5).Attributes().PutEmptySlice("gen_ai.output.messages")
		for range messages {
			p := list.AppendEmpty().SetEmptyMap().PutEmptySlice("parts").AppendEmpty().SetEmptyMap()
			p.PutStr("type", "text")
			p.PutStr("content", "hello")
		}
		assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, judgeCalls(t, 0, f)[1].Safety, messages)
	}
	for _, length := range []int{100, 60 << 10, 70 << 10} {
		f := harness.NewForest(t)
		f.Add(harness.RunSpan(1, 0, 1, 1, 0).Failed("x"), harness.SpanID(1), pcommon.SpanID{}, 0, 1)
		f.Add(harness.Span{
			Library: "openinference.instrumentation.openai_agents", Name: "response", Kind: ptrace.SpanKindInternal, Status: ptrace.StatusCodeOk,
			Attrs: []attribute.KeyValue{
				attribute.String("openinference.span.kind", "LLM"), attribute.Int("llm.token_count.total", 10),
				attribute.Int("llm.token_count.prompt", 10), attribute.Int("llm.token_count.completion", 0),
				attribute.String("output.value", `{"status":"completed","output":[{"type":"message","content":[{"text":"`+strings.Repeat("x", length)+`"}]}]}`),
			},
		}, harness.SpanID(2), harness.SpanID(1), 0.1, 0.5)
		assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, judgeCalls(t, 0, f)[1].Safety, length)
	}
}

// Of runs whose parents are not here, the longer ones may be around the others.
func TestOrderOfOpenRuns(t *testing.T) {
	f := harness.NewForest(t)
	f.Add(harness.Unannounced(harness.RunSpan(9, 0, 0, 1, 0)), harness.SpanID(9), harness.SpanID(99), 0, 10)
	f.AddRefused(harness.SpanID(9), 1, 5)
	f.AddShown(harness.SpanID(98), 2, 3)
	assert.Equal(t, harness.Confirm, judgeCalls(t, 0, f)[1].Safety)
}

// A run that another one has taken may be within one that comes later. It is not forgotten
// silently for lack of memory.
func TestInnerRunPlacedElsewhereIsForgotten(t *testing.T) {
	cfg := harness.DefaultConfig()
	cfg.MaxFactBytes = 1 << 20
	h := harness.New(t, cfg, nil)
	first, last := harness.NewForest(t), harness.NewForest(t)
	first.Add(harness.RunSpan(4, 0, 0, 1, 0).Failed("x"), harness.SpanID(4), harness.SpanID(99), 1.3, 2)
	first.Add(harness.ShownText(5, 4), harness.SpanID(5), harness.SpanID(4), 1.4, 1.5)
	first.Add(harness.RunSpan(7, 0, 0, 1, 0).Failed("429"), harness.SpanID(7), pcommon.SpanID{}, 1, 3)
	refused := harness.RequestSpan(8, 0, 0, 0).Refused(429, semconv.ProviderErrorKindRateLimited, "rate_limit_exceeded")
	first.Add(refused.With(semconv.RunID(harness.SpanID(7).String())), harness.SpanID(8), harness.SpanID(7), 1.1, 1.2)
	last.Add(harness.RunSpan(1, 0, 0, 1, 0).Failed("429"), harness.SpanID(1), pcommon.SpanID{}, 0.5, 4)
	last.Add(refused.With(semconv.RunID(harness.SpanID(1).String())), harness.SpanID(2), harness.SpanID(1), 0.6, 0.7)
	require.NoError(t, h.ConsumeTraces(t.Context(), first.Traces))
	h.Pass(t, time.Second)
	for n := 0; h.KeepsRuns(harness.TraceID(1)); n++ {
		require.Less(t, n, 10_000)
		f := harness.NewForest(t)
		f.Add(harness.RunSpan(9, 0, 0, 0, 0), harness.NthSpanID(n), harness.SpanID(98), 1, 2).SetTraceID(pcommon.TraceID{0xaa, byte(n >> 13), byte(n >> 5), 1})
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
	}
	require.NoError(t, h.ConsumeTraces(t.Context(), last.Traces))
	h.Pass(t, time.Minute)
	assert.Equal(t, harness.Confirm, harness.Verdicts(h.Out())[1].Safety)
}

// Of a full list of calls without counts, one that is not in it may have run.
func TestFullCallListWithoutCounts(t *testing.T) {
	for n, want := range map[int]semconv.RetrySafety{10: harness.Safe, 63: harness.Safe, 64: harness.Confirm} {
		calls := callIDs(n)
		spans := []harness.Span{harness.Unannounced(harness.RunSpan(1, 0, 5, 1, 0)).Failed("x"), cutWithCalls(calls)}
		for i, call := range calls {
			spans = append(spans, harness.ToolSpan(byte(10+i), 1, 2, call, semconv.ToolEffectIdempotent, semconv.ToolOutcomeSucceeded))
		}
		h := harness.New(t, harness.DefaultConfig(), nil)
		h.Consume(t, spans...)
		h.Pass(t, time.Minute)
		v := harness.Verdicts(h.Out())
		assert.Equal(t, want, v[3].Safety, "the request, %d", n)
		assert.Equal(t, want, v[1].Safety, "its run, %d", n)
	}
}

// Traces of one run each, however many there are, take no room of the judged runs that others may be around.
func TestRunsWithinOthersOutlastAFlood(t *testing.T) {
	for name, tt := range map[string]struct {
		within byte // the run around each run of the flood, 0 if it is a root
		want   semconv.RetrySafety
	}{"of roots": {0, harness.Safe}, "of runs within others": {9, harness.Confirm}} {
		t.Run(name, func(t *testing.T) {
			cfg := harness.DefaultConfig()
			cfg.MaxFactBytes = 1 << 17
			h := harness.New(t, cfg, nil)
			h.Consume(t, harness.RunSpan(10, 1, 2, 1, 0).Under(1).Failed("429"), harness.RateLimited(11, 10))
			for n := range 100 {
				td := harness.TracesOf(t, harness.RunSpan(1, 0, 3, 1, 0).Under(tt.within), harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer))
				harness.EachSpan(td, func(span ptrace.Span) { span.SetTraceID(pcommon.TraceID{9, byte(n)}) })
				require.NoError(t, h.ConsumeTraces(t.Context(), td))
			}
			h.Sink.Reset()
			h.Consume(t, harness.RunSpan(1, 0, 8, 1, 0).Failed("429"), harness.RateLimited(2, 1))
			assert.Equal(t, tt.want, harness.Verdicts(h.Out())[1].Safety)
		})
	}
}
