package verdicts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// outcomesOf is all spans that come out, when these calls came one after the other.
func outcomesOf(t *testing.T, calls ...[]harness.Span) (*harness.Harness, map[byte]harness.Verdict) {
	t.Helper()
	h := harness.New(t, harness.DefaultConfig(), nil)
	for _, c := range calls {
		h.Consume(t, c...)
	}
	h.Pass(t, 2*harness.MaxHold)
	got := map[byte]harness.Verdict{}
	for id, span := range harness.SpansOf(h.Out()) {
		got[id[7]] = harness.VerdictOf(span)
	}
	return h, got
}

func cutRequest() harness.Span {
	return harness.RequestSpan(2, 1, 0.1, 1).Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{})
}

// A tool of another instrumentation beneath the run, in the next call: the run said that it had no
// tool, and is safe to repeat as far as that goes.
func TestToolWithoutRunComesLate(t *testing.T) {
	tool := harness.GenAISpan(3, 1, otelsemconv.GenAIOperationNameExecuteTool, 0.01, 0.05, otelsemconv.GenAIToolName("pay"))
	_, together := outcomesOf(t, []harness.Span{cutRequest(), harness.RunSpan(1, 0, 5, 1, 0), tool})
	assert.Equal(t, harness.Confirm, together[1].Safety, "in one call")

	for name, late := range map[string]harness.Span{"beneath the run": tool, "beneath its request": func() harness.Span { s := tool; s.Parent = 2; s.From, s.To = 0.5, 0.6; return s }()} {
		t.Run(name, func(t *testing.T) {
			h, got := outcomesOf(t, []harness.Span{cutRequest(), harness.RunSpan(1, 0, 5, 1, 0)}, []harness.Span{late})
			assert.Equal(t, harness.Safe, got[1].Safety)
			assert.Equal(t, harness.Confirm, got[3].Safety, "the late span corrects its run")
			assert.Equal(t, int64(1), contradicted(t, h))
		})
	}
}

// The span above a late tool that names no run is remembered for as long as the run.
func TestToolWithoutRunComesMuchLater(t *testing.T) {
	tool := harness.GenAISpan(3, 2, otelsemconv.GenAIOperationNameExecuteTool, 0.5, 0.6, otelsemconv.GenAIToolName("pay"))
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, cutRequest(), harness.RunSpan(1, 0, 5, 1, 0))
	for trace := range byte(5) {
		h.Pass(t, 2*harness.MaxHold)
		h.HeldRun(t, 10+trace)
	}
	h.Consume(t, tool)
	for id, span := range harness.SpansOf(h.Out()) {
		if id[7] == 3 {
			assert.Equal(t, harness.Confirm, harness.VerdictOf(span).Safety, "the late span corrects its run")
			return
		}
	}
	t.Fatal("the late span is held")
}

// What an MCP server did beneath the run's own tool is that tool's call.
func TestToolBeneathToolComesLate(t *testing.T) {
	own := harness.ToolSpan(4, 0.01, 0.08, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
	server := harness.GenAISpan(3, 4, otelsemconv.GenAIOperationNameExecuteTool, 0.02, 0.05, otelsemconv.GenAIToolName("look")).In("mcp")
	h, got := outcomesOf(t, []harness.Span{own, cutRequest(), harness.RunSpan(1, 0, 5, 1, 1)}, []harness.Span{server})
	assert.Equal(t, semconv.RetrySafetyUnset, got[3].Safety)
	assert.Zero(t, contradicted(t, h))
}

// A whole run within the run in the next call: likewise. It names it, or is beneath a part of it.
func TestInnerRunComesLate(t *testing.T) {
	names := harness.RunSpan(20, 1.1, 2, 0, 1).With(semconv.RunID(harness.SpanID(1).String())).Under(1)
	beneath := harness.RunSpan(20, 1.1, 2, 0, 1).Under(2)
	tool := harness.ToolSpan(21, 1.2, 1.8, "c", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).
		Without(semconv.RunIDKey).With(semconv.RunID(harness.SpanID(20).String()))
	tool.Parent = 20
	for name, inner := range map[string]harness.Span{"names it": names, "beneath its request": beneath} {
		for service, counted := range map[string]int64{harness.AgentService: 1, harness.GatewayService: 0} { // the numbers of a run include those of its process's inner runs
			t.Run(name+", "+service, func(t *testing.T) {
				h, got := outcomesOf(t, []harness.Span{cutRequest(), harness.RunSpan(1, 0, 5, 1, 0)}, []harness.Span{inner.In(service), tool.In(service)})
				assert.Equal(t, harness.Safe, got[1].Safety)
				assert.Equal(t, semconv.RunOutcomeSucceeded, got[20].Outcome)
				assert.Equal(t, harness.Confirm, got[20].Safety, "it corrects the run around it")
				assert.Equal(t, semconv.RetryReasonToolSideEffect, got[20].Reason)
				assert.Equal(t, counted, contradicted(t, h))
			})
		}
		t.Run(name+", beneath a span that passed", func(t *testing.T) {
			parent := inner.Parent
			_, got := outcomesOf(t, []harness.Span{cutRequest(), harness.RunSpan(1, 0, 5, 1, 0)}, []harness.Span{harness.OtherSpan(30, parent, 1.1, 2), inner.Under(30), tool})
			assert.Equal(t, harness.Confirm, got[20].Safety)
		})
	}
}

// Between the run and what comes late are spans of others, as of an HTTP client, which passed before
// the run was judged.
func TestPartsBeneathPassedSpansComeLate(t *testing.T) {
	tool := harness.ToolSpan(21, 1.2, 1.8, "c", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).Without(semconv.RunIDKey)
	own := harness.ToolSpan(5, 1.05, 1.9, "own", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
	for name, waits := range map[string]bool{"judged in its call": false, "held": true} {
		run := harness.RunSpan(1, 0, 5, 1, 1).Failed("x")
		if waits {
			run = harness.Unannounced(run)
		}
		for where, beneath := range map[string]byte{"the run": 1, "its request": 2, "its tool": 5} {
			judge := func(late ...harness.Span) map[byte]harness.Verdict {
				h := harness.New(t, harness.DefaultConfig(), nil)
				h.Consume(t, harness.RateLimited(2, 1), own, harness.OtherSpan(31, 30, 1.15, 2), harness.OtherSpan(30, beneath, 1.1, 2), run)
				h.Pass(t, 2*harness.Settle)
				require.Equal(t, harness.Safe, harness.Verdicts(h.Out())[1].Safety)
				h.Consume(t, late...)
				h.Pass(t, 2*harness.Settle)
				return harness.Verdicts(h.Out())
			}
			inner := tool.With(semconv.RunID(harness.SpanID(20).String())).Under(20).In("inner")
			got := judge(harness.OtherSpan(32, 31, 1.1, 2).In("inner"), inner, harness.RunSpan(20, 1.1, 2, 0, 1).Under(32).In("inner"))
			assert.Equal(t, harness.Confirm, got[20].Safety, "a run, %s, beneath %s", name, where)
			if got = judge(tool.Under(31)); beneath == 5 { // it may be the same call
				assert.Zero(t, got[21].Safety, "a tool, %s, beneath %s", name, where)
			} else {
				assert.Equal(t, harness.Confirm, got[21].Safety, "a tool, %s, beneath %s", name, where)
			}
		}
	}
}

// A late request of run 3, which was judged with run 5 and is beneath a request of run 1, corrects
// run 1. The clock of its service is behind.
func TestLatePartCorrectsTheRunAboveIt(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	around := uncounted(5).Under(98).In("other")
	around.To = 9
	for _, call := range [][]harness.Span{
		{harness.RateLimited(2, 1).Under(1), harness.RunSpan(1, 1, 3, 1, 0).Failed("429").Under(99)},
		{harness.RateLimited(4, 3).In("inner"), harness.RunSpan(3, 1.5, 3.5, 1, 0).Failed("x").Under(2).In("inner")},
		{harness.RateLimited(6, 5).In("other"), around},
	} {
		f := harness.NewForest(t)
		for _, s := range call {
			f.Add(s, harness.SpanID(s.ID), harness.SpanID(s.Parent), s.From+1, s.To+1)
		}
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		h.Pass(t, 2*harness.Settle)
	}
	got := harness.Verdicts(h.Out())
	require.Equal(t, harness.Safe, got[1].Safety)
	require.Equal(t, harness.Safe, got[3].Safety)
	late := harness.NewForest(t)
	late.Add(harness.ShownText(7, 3).In("inner"), harness.SpanID(7), harness.SpanID(3), 4.4, 4.45)
	require.NoError(t, h.ConsumeTraces(t.Context(), late.Traces))
	for run, corrected := range map[byte]bool{1: true, 3: true} {
		_, got := h.Corrected(harness.SpanID(run))
		assert.Equal(t, corrected, got, "run %d", run)
	}
}

// A fact that is not of the vocabulary of this version, or of another type, makes no
// repetition safer than what it may mean.
func TestUnknownFactIsNotSafer(t *testing.T) {
	for name, kv := range map[string]attribute.KeyValue{
		"a newer source of an abort": attribute.String("llm.abort.source", "operator"),
		"an abort in capitals":       attribute.String("llm.abort.source", "USER"),
		"an abort in a list":         attribute.StringSlice("llm.abort.source", []string{"user"}),
		"a newer kind of an error":   attribute.String("llm.provider_error.kind", "billing_stopped"),
		"unread, as text":            attribute.String("llm.stream.unread", "true"),
		"in the background, as text": attribute.String("llm.request.background", "true"),
		"a newer kind of a watchdog": attribute.String("llm.watchdog.kind", "cost"),
	} {
		t.Run(name, func(t *testing.T) {
			_, got := outcomesOf(t, []harness.Span{cutRequest().Without(kv.Key).With(kv), harness.RunSpan(1, 0, 5, 1, 0).Failed("x")})
			assert.NotEqual(t, harness.Safe, got[2].Safety, "request")
			assert.NotEqual(t, harness.Safe, got[1].Safety, "run")
		})
	}
	t.Run("of the run", func(t *testing.T) {
		_, got := outcomesOf(t, []harness.Span{cutRequest(), harness.RunSpan(1, 0, 5, 1, 0).Failed("x").With(attribute.String("llm.abort.source", "operator"))})
		assert.NotEqual(t, harness.Safe, got[1].Safety)
	})
}

// A late run of a producer that does not record how it ended has no verdict, and corrects the run
// around it all the same.
func TestLateRunWithoutVerdict(t *testing.T) {
	pydantic := func(s harness.Span) harness.Span { s.Library = "pydantic-ai"; return s.In("b") }
	_, got := outcomesOf(t,
		[]harness.Span{cutRequest(), harness.RunSpan(1, 0, 5, 1, 0)},
		[]harness.Span{
			pydantic(harness.ChatSpan(11, 10, 1.3, 2).Finished("tool_call")), pydantic(harness.CallSpan(12, 10, 2.1, 2.5, "call_pay")),
			pydantic(harness.ChatSpan(13, 10, 2.6, 4).Finished("tool_call")), pydantic(harness.AgentSpan(10, 1, 1.2, 4.8)),
		})
	require.Equal(t, harness.Safe, got[1].Safety)
	assert.Equal(t, harness.Confirm, got[10].Safety, "it corrects the run around it: %v", got)
}

// Run 10 is judged before the span between it and run 1 comes. Run 30, beneath run 10, comes when run
// 1 was judged, and ran a tool.
func TestLateRunBeneathAPlacedRun(t *testing.T) {
	for _, with := range []string{"before", "later"} {
		h := harness.New(t, harness.DefaultConfig(), nil)
		h.Consume(t, harness.UncountedRun(1, 9)[1])
		b := []harness.Span{
			harness.ToolSpan(11, 1.1, 1.2, "e", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded).Under(10).In("b").
				Without(semconv.RunIDKey).With(semconv.RunID(harness.SpanID(10).String())),
			harness.RunSpan(10, 1.05, 2, 0, 1).Under(14).In("b"),
		}
		o := harness.OtherSpan(14, 1, 1.0, 2.1).In("a")
		if with == "before" {
			h.Consume(t, append(b, o)...)
		} else {
			h.Consume(t, b...)
			h.Consume(t, o)
		}
		require.Contains(t, harness.SpansOf(h.Out()), harness.SpanID(10))
		h.Consume(t, harness.UncountedRun(1, 9)[0])
		h.Pass(t, harness.MaxHold)
		v := harness.Verdicts(h.Out())
		require.Equal(t, semconv.RunOutcomeFailed, v[1].Outcome)
		h.Consume(t,
			harness.RequestSpan(31, 30, 1.36, 1.37).Answered("tool_calls", harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"c"}}).In("d"),
			harness.ToolSpan(32, 1.4, 1.45, "c", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).Under(30).In("d").
				Without(semconv.RunIDKey).With(semconv.RunID(harness.SpanID(30).String())),
			harness.RequestSpan(33, 30, 1.46, 1.47).Answered("stop", harness.Counts{Text: 2}).In("d"),
			harness.RunSpan(30, 1.35, 1.5, 2, 1).Under(10).In("d"),
		)
		h.Pass(t, harness.MaxHold)
		v = harness.Verdicts(h.Out())
		assert.NotZero(t, v[30].Safety, "%s: %v", with, v[30])
	}
}
