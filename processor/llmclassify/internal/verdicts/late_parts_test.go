package llmclassify

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// outcomesOf is all spans that come out, when these calls came one after the other.
func outcomesOf(t *testing.T, calls ...[]spanSpec) (*harness, map[byte]verdict) {
	t.Helper()
	h := newHarness(t, defaultConfig(), nil)
	for _, c := range calls {
		h.consume(t, c...)
	}
	h.pass(t, 2*xMaxHold)
	got := map[byte]verdict{}
	for id, span := range spansOf(h.out()) {
		got[id[7]] = verdictOf(span)
	}
	return h, got
}

func cutRequest() spanSpec {
	return requestSpan(2, 1, 0.1, 1).cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{})
}

// A tool of another instrumentation beneath the run, in the next call: the run said that it had no
// tool, and is safe to repeat as far as that goes.
func TestToolWithoutRunComesLate(t *testing.T) {
	tool := genAISpan(3, 1, otelsemconv.GenAIOperationNameExecuteTool, 0.01, 0.05, otelsemconv.GenAIToolName("pay"))
	_, together := outcomesOf(t, []spanSpec{cutRequest(), runSpan(1, 0, 5, 1, 0), tool})
	assert.Equal(t, confirm, together[1].safety, "in one call")

	for name, late := range map[string]spanSpec{"beneath the run": tool, "beneath its request": func() spanSpec { s := tool; s.parent = 2; s.from, s.to = 0.5, 0.6; return s }()} {
		t.Run(name, func(t *testing.T) {
			h, got := outcomesOf(t, []spanSpec{cutRequest(), runSpan(1, 0, 5, 1, 0)}, []spanSpec{late})
			assert.Equal(t, safe, got[1].safety)
			assert.Equal(t, confirm, got[3].safety, "the late span corrects its run")
			assert.Equal(t, int64(1), contradicted(t, h))
		})
	}
}

// What an MCP server did beneath the run's own tool is that tool's call.
func TestToolBeneathToolComesLate(t *testing.T) {
	own := toolSpan(4, 0.01, 0.08, "call_1", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
	server := genAISpan(3, 4, otelsemconv.GenAIOperationNameExecuteTool, 0.02, 0.05, otelsemconv.GenAIToolName("look")).in("mcp")
	h, got := outcomesOf(t, []spanSpec{own, cutRequest(), runSpan(1, 0, 5, 1, 1)}, []spanSpec{server})
	assert.Equal(t, semconv.RetrySafetyUnset, got[3].safety)
	assert.Zero(t, contradicted(t, h))
}

// A whole run within the run in the next call: likewise. It names it, or is beneath a part of it.
func TestInnerRunComesLate(t *testing.T) {
	names := runSpan(20, 1.1, 2, 0, 1).with(semconv.RunID(spanID(1).String())).under(1)
	beneath := runSpan(20, 1.1, 2, 0, 1).under(2)
	tool := toolSpan(21, 1.2, 1.8, "c", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).
		without(semconv.RunIDKey).with(semconv.RunID(spanID(20).String()))
	tool.parent = 20
	for name, inner := range map[string]spanSpec{"names it": names, "beneath its request": beneath} {
		for service, counted := range map[string]int64{agentService: 1, gatewayService: 0} { // the numbers of a run include those of its process's inner runs
			t.Run(name+", "+service, func(t *testing.T) {
				h, got := outcomesOf(t, []spanSpec{cutRequest(), runSpan(1, 0, 5, 1, 0)}, []spanSpec{inner.in(service), tool.in(service)})
				assert.Equal(t, safe, got[1].safety)
				assert.Equal(t, semconv.RunOutcomeSucceeded, got[20].outcome)
				assert.Equal(t, confirm, got[20].safety, "it corrects the run around it")
				assert.Equal(t, semconv.RetryReasonToolSideEffect, got[20].reason)
				assert.Equal(t, counted, contradicted(t, h))
			})
		}
		t.Run(name+", beneath a span that passed", func(t *testing.T) {
			parent := inner.parent
			_, got := outcomesOf(t, []spanSpec{cutRequest(), runSpan(1, 0, 5, 1, 0)}, []spanSpec{otherSpan(30, parent, 1.1, 2), inner.under(30), tool})
			assert.Equal(t, confirm, got[20].safety)
		})
	}
}

// Between the run and what comes late are spans of others, as of an HTTP client, which passed before
// the run was judged.
func TestPartsBeneathPassedSpansComeLate(t *testing.T) {
	tool := toolSpan(21, 1.2, 1.8, "c", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).without(semconv.RunIDKey)
	own := toolSpan(5, 1.05, 1.9, "own", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded)
	for name, waits := range map[string]bool{"judged in its call": false, "held": true} {
		run := runSpan(1, 0, 5, 1, 1).failed("x")
		if waits {
			run = unannounced(run)
		}
		for where, beneath := range map[string]byte{"the run": 1, "its request": 2, "its tool": 5} {
			judge := func(late ...spanSpec) map[byte]verdict {
				h := newHarness(t, defaultConfig(), nil)
				h.consume(t, limitedOf(2, 1), own, otherSpan(31, 30, 1.15, 2), otherSpan(30, beneath, 1.1, 2), run)
				h.pass(t, 2*xSettle)
				require.Equal(t, safe, verdicts(h.out())[1].safety)
				h.consume(t, late...)
				h.pass(t, 2*xSettle)
				return verdicts(h.out())
			}
			inner := tool.with(semconv.RunID(spanID(20).String())).under(20).in("inner")
			got := judge(otherSpan(32, 31, 1.1, 2).in("inner"), inner, runSpan(20, 1.1, 2, 0, 1).under(32).in("inner"))
			assert.Equal(t, confirm, got[20].safety, "a run, %s, beneath %s", name, where)
			if got = judge(tool.under(31)); beneath == 5 { // it may be the same call
				assert.Zero(t, got[21].safety, "a tool, %s, beneath %s", name, where)
			} else {
				assert.Equal(t, confirm, got[21].safety, "a tool, %s, beneath %s", name, where)
			}
		}
	}
}

// A late request of run 3, which was judged with run 5 and is beneath a request of run 1, corrects
// run 1. The clock of its service is behind.
func TestLatePartCorrectsTheRunAboveIt(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	around := uncounted(5).under(98).in("other")
	around.to = 9
	for _, call := range [][]spanSpec{
		{limitedOf(2, 1).under(1), runSpan(1, 1, 3, 1, 0).failed("429").under(99)},
		{limitedOf(4, 3).in("inner"), runSpan(3, 1.5, 3.5, 1, 0).failed("x").under(2).in("inner")},
		{limitedOf(6, 5).in("other"), around},
	} {
		f := newForest(t)
		for _, s := range call {
			f.add(s, spanID(s.id), spanID(s.parent), s.from+1, s.to+1)
		}
		require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		h.pass(t, 2*xSettle)
	}
	got := verdicts(h.out())
	require.Equal(t, safe, got[1].safety)
	require.Equal(t, safe, got[3].safety)
	late := newForest(t)
	late.add(shownText(7, 3).in("inner"), spanID(7), spanID(3), 4.4, 4.45)
	require.NoError(t, h.ConsumeTraces(t.Context(), late.Traces))
	for run, corrected := range map[byte]bool{1: true, 3: true} {
		_, got := h.corrected(spanID(run))
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
			_, got := outcomesOf(t, []spanSpec{cutRequest().without(kv.Key).with(kv), runSpan(1, 0, 5, 1, 0).failed("x")})
			assert.NotEqual(t, safe, got[2].safety, "request")
			assert.NotEqual(t, safe, got[1].safety, "run")
		})
	}
	t.Run("of the run", func(t *testing.T) {
		_, got := outcomesOf(t, []spanSpec{cutRequest(), runSpan(1, 0, 5, 1, 0).failed("x").with(attribute.String("llm.abort.source", "operator"))})
		assert.NotEqual(t, safe, got[1].safety)
	})
}

// A late run of a producer that does not record how it ended has no verdict, and corrects the run
// around it all the same.
func TestUnclaimedRunComesLate(t *testing.T) {
	pydantic := func(s spanSpec) spanSpec { s.library = "pydantic-ai"; return s.in("b") }
	_, got := outcomesOf(t,
		[]spanSpec{cutRequest(), runSpan(1, 0, 5, 1, 0)},
		[]spanSpec{
			pydantic(chatSpan(11, 10, 1.3, 2).finished("tool_call")), pydantic(callSpan(12, 10, 2.1, 2.5, "call_pay")),
			pydantic(chatSpan(13, 10, 2.6, 4).finished("tool_call")), pydantic(agentSpan(10, 1, 1.2, 4.8)),
		})
	require.Equal(t, safe, got[1].safety)
	assert.Equal(t, confirm, got[10].safety, "it corrects the run around it: %v", got)
}

// Run 10 is judged before the span between it and run 1 comes. Run 30, beneath run 10, comes when run
// 1 was judged, and ran a tool.
func TestLateRunBeneathATakenRun(t *testing.T) {
	for _, with := range []string{"before", "later"} {
		h := newHarness(t, defaultConfig(), nil)
		h.consume(t, uncountedRun(1, 9)[1])
		b := []spanSpec{
			toolSpan(11, 1.1, 1.2, "e", semconv.ToolEffectReadOnly, semconv.ToolOutcomeSucceeded).under(10).in("b").
				without(semconv.RunIDKey).with(semconv.RunID(spanID(10).String())),
			runSpan(10, 1.05, 2, 0, 1).under(14).in("b"),
		}
		o := otherSpan(14, 1, 1.0, 2.1).in("a")
		if with == "before" {
			h.consume(t, append(b, o)...)
		} else {
			h.consume(t, b...)
			h.consume(t, o)
		}
		require.Contains(t, spansOf(h.out()), spanID(10))
		h.consume(t, uncountedRun(1, 9)[0])
		h.pass(t, xMaxHold)
		v := verdicts(h.out())
		require.Equal(t, semconv.RunOutcomeFailed, v[1].outcome)
		h.consume(t,
			requestSpan(31, 30, 1.36, 1.37).answered("tool_calls", counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"c"}}).in("d"),
			toolSpan(32, 1.4, 1.45, "c", semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeSucceeded).under(30).in("d").
				without(semconv.RunIDKey).with(semconv.RunID(spanID(30).String())),
			requestSpan(33, 30, 1.46, 1.47).answered("stop", counts{text: 2}).in("d"),
			runSpan(30, 1.35, 1.5, 2, 1).under(10).in("d"),
		)
		h.pass(t, xMaxHold)
		v = verdicts(h.out())
		assert.NotZero(t, v[30].safety, "%s: %v", with, v[30])
	}
}
