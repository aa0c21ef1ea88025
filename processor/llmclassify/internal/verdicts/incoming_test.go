package llmclassify

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/golden"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/intake"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/verdictattr"
	"github.com/otelllm/otelllm-go/semconv"
)

func withIncoming(verdicts string) *Config {
	cfg := defaultConfig()
	cfg.IncomingVerdicts = verdicts
	return cfg
}

// runJudgedByClient is a run with the verdict that its client wrote: nothing failed.
func runJudgedByClient(s spanSpec, outcome semconv.RunOutcome) spanSpec {
	return s.byClient().with(
		semconv.RunOutcomeAttr(outcome), semconv.RunTimeline("+0.000s request 1: started"),
		semconv.ClassificationTrigger(semconv.TriggerClient), semconv.ClassificationRuleset(classify.Ruleset),
	)
}

// clientsFailure is the verdict of a client on something that failed.
func clientsFailure(class semconv.Class, cause semconv.Cause, safety semconv.RetrySafety, reason semconv.RetryReason) []attribute.KeyValue {
	return []attribute.KeyValue{
		semconv.FailureClass(class), semconv.FailureCause(cause), semconv.FailurePhase(semconv.PhaseResponseStarted),
		semconv.FailureOrigin(semconv.OriginTransport), semconv.FailureConfidence(semconv.ConfidenceHigh),
		semconv.FailureSummary("The connection to the model was lost."), semconv.FailureSummaryKeyAttr(semconv.SummaryKeyNothingShown),
		semconv.RetrySafetyAttr(safety), semconv.RetryReasonAttr(reason),
		semconv.ClassificationTrigger(semconv.TriggerClient),
	}
}

func safeFailure() []attribute.KeyValue {
	return clientsFailure(semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, semconv.RetrySafetySafeAutoRetry, semconv.RetryReasonNoOutput)
}

// forger adds attributes of verdicts to spans, and to what they share.
type forger struct{ *rand.Rand }

func (f forger) forge(td ptrace.Traces) {
	for _, rs := range td.ResourceSpans().All() {
		f.maybe(0.2, rs.Resource().Attributes())
		for _, ss := range rs.ScopeSpans().All() {
			f.maybe(0.2, ss.Scope().Attributes())
			for _, span := range ss.Spans().All() {
				f.maybe(0.7, span.Attributes())
			}
		}
	}
}

func (f forger) maybe(p float64, attrs pcommon.Map) {
	switch {
	case f.Float64() >= p:
	case f.IntN(3) == 0: // whole, as this project's client writes it
		for _, kv := range safeFailure() {
			attrs.PutStr(string(kv.Key), kv.Value.String())
		}
		if f.IntN(2) == 0 {
			attrs.PutStr(string(semconv.RunOutcomeKey), semconv.RunOutcomeFailed.String())
			attrs.PutStr(string(semconv.ClassificationRulesetKey), classify.Ruleset)
		}
	default:
		for range 1 + f.IntN(5) {
			f.put(attrs, verdictattr.Keys()[f.IntN(len(verdictattr.Keys()))])
		}
	}
}

func (f forger) put(attrs pcommon.Map, key string) {
	words := []string{
		"", "complete", "client", "late", "safe_auto_retry", "no_output", "succeeded", "failed", "stream_interrupted", "connection_reset",
		"high", "text", "transport", "3", "nothing_shown", "Everything is well.",
	}
	switch f.IntN(6) {
	case 0:
		attrs.PutInt(key, f.Int64N(3)-1)
	case 1:
		attrs.PutEmptySlice(key).AppendEmpty().SetStr(words[f.IntN(len(words))])
	case 2:
		attrs.PutEmpty(key)
	default:
		attrs.PutStr(key, words[f.IntN(len(words))])
	}
}

// writtenFor is what comes out for calls, in the end.
func writtenFor(t *testing.T, cfg *Config, calls []ptrace.Traces) []byte {
	t.Helper()
	h := newHarness(t, cfg, nil)
	for _, td := range calls {
		in := ptrace.NewTraces()
		td.CopyTo(in)
		require.NoError(t, h.ConsumeTraces(t.Context(), in))
		h.pass(t, time.Second)
	}
	h.pass(t, cfg.MaxHold)
	h.pass(t, 2*cfg.RunTimeout)
	data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(h.out())
	require.NoError(t, err)
	return data
}

// No attribute of a verdict that comes with any span, or with what spans share, changes
// anything of what is written, unless it is the client's in the client's scope; and with
// `strip` not even then.
func TestForgedVerdictsChangeNothing(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "traces", "*", "in.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for n, path := range paths {
		td, err := golden.ReadTraces(path)
		require.NoError(t, err)
		for _, verdicts := range []string{intake.KeepClient, intake.Strip} {
			for _, rs := range td.ResourceSpans().All() {
				for _, ss := range rs.ScopeSpans().All() {
					switch {
					case verdicts == intake.Strip && n%2 == 0:
						ss.Scope().SetName(verdictattr.ClientScope)
					case ss.Scope().Name() == verdictattr.ClientScope:
						ss.Scope().SetName("a name like it")
					}
				}
			}
			other := tracesOf(t, otherSpan(101, 0, 0, 1), httpClient(102, 2, 0, 1), spanSpec{id: 103, name: semconv.SpanRunAbandoned}, agentSpan(0, 0, 0, 1))
			calls := append(splitTraces(td, 1+n%3), other)
			want := writtenFor(t, withIncoming(verdicts), calls)
			for seed := range uint64(5) {
				f := forger{rand.New(rand.NewPCG(seed, uint64(n)))}
				var forged []ptrace.Traces
				for _, call := range calls {
					c := ptrace.NewTraces()
					call.CopyTo(c)
					f.forge(c)
					forged = append(forged, c)
				}
				require.Equal(t, want, writtenFor(t, withIncoming(verdicts), forged), "%s, %s, seed %d", path, verdicts, seed)
			}
		}
	}
}

// What a producer wrote to call its requests safe, or to keep the processor's word away.
func TestForgedVerdicts(t *testing.T) {
	shown := requestSpan(2, 1, 0.1, 1).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 3})
	outcome := semconv.RunOutcomeAttr(semconv.RunOutcomeFailed)
	ruleset := semconv.ClassificationRuleset(classify.Ruleset)
	for name, spans := range map[string][]spanSpec{
		"an empty summary":                 {shown.with(semconv.FailureSummary("")), runSpan(1, 0, 2, 1, 0).with(semconv.FailureSummary(""))},
		"an earlier classifier's":          {shown.with(append(safeFailure(), semconv.ClassificationTrigger(semconv.TriggerComplete))...), runSpan(1, 0, 2, 1, 0)},
		"on the run":                       {shown, runSpan(1, 0, 2, 1, 0).with(append(safeFailure(), outcome, ruleset, semconv.ClassificationTrigger(semconv.TriggerComplete))...)},
		"the client's, in no client scope": {shown.with(safeFailure()...), runSpan(1, 0, 2, 1, 0).with(append(safeFailure(), outcome, ruleset)...)},
		"the client's":                     {shown.byClient().with(safeFailure()...), runSpan(1, 0, 2, 1, 0).byClient().with(append(safeFailure(), outcome, ruleset)...)},
	} {
		for calls, split := range map[string]bool{"in one call": false, "apart": true} {
			t.Run(name+", "+calls, func(t *testing.T) {
				h := newHarness(t, defaultConfig(), nil)
				if split {
					h.consume(t, spans[0])
					h.consume(t, spans[1])
				} else {
					h.consume(t, spans...)
				}
				out := spansOf(h.out())
				for _, id := range []byte{1, 2} {
					v := verdictOf(out[spanID(id)])
					assert.Equal(t, semconv.RetryReasonVisibleOutput, v.reason, "span %d", id)
					assert.Equal(t, semconv.RetrySafetyUserConfirmedRetry, v.safety, "span %d", id)
					assert.Equal(t, semconv.TriggerComplete, v.trigger, "span %d", id)
				}
			})
		}
	}
}

// Spans that are no LLM spans, and those without an id, are no runs because they say so.
func TestForgedRunsOnOtherSpans(t *testing.T) {
	forged := []attribute.KeyValue{
		semconv.RunOutcomeAttr(semconv.RunOutcomeFailed), semconv.RunRecoveredFailures(1 << 40), semconv.HistoryMissingOutputs("a"),
		semconv.ClassificationTrigger(semconv.TriggerClient), semconv.ClassificationRuleset(classify.Ruleset),
	}
	for _, verdicts := range []string{intake.KeepClient, intake.Strip} {
		h := newHarness(t, withIncoming(verdicts), nil)
		h.consume(t, otherSpan(1, 0, 0, 1).byClient().with(forged...), httpClient(2, 0, 0, 1).with(forged...), agentSpan(0, 0, 0, 1).byClient().with(forged...))
		require.Equal(t, 3, h.out().SpanCount())
		for _, span := range spansOf(h.out()) {
			assert.False(t, verdictattr.On(span.Attributes()), span.Name())
		}
		m, err := h.telemetry.GetMetric("otelcol_processor_llm_classify_verdicts_removed")
		require.NoError(t, err)
		assert.Equal(t, int64(3), total(t, m))
	}
	h := newHarness(t, withIncoming(intake.Keep), nil)
	h.consume(t, otherSpan(1, 0, 0, 1).with(forged...))
	assert.Equal(t, []pcommon.SpanID{spanID(1)}, runsJudged(h.out()))
}

// The verdicts that this project's rules give, written as its client writes them, stay.
func TestClientsVerdictsAreTrusted(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "traces", "*", "out.yaml"))
	require.NoError(t, err)
	trustedKinds := map[dialect.Kind]int{}
	for _, path := range paths {
		if strings.Contains(path, "gateway") {
			continue // its spans show more of a request than the client observed
		}
		td, err := golden.ReadTraces(path)
		require.NoError(t, err)
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					head, by := dialect.Default().In(ss.Scope().Name()).Recognise(span)
					attrs := span.Attributes()
					_, failed := attrs.Get(string(semconv.FailureClassKey))
					_, run := attrs.Get(string(semconv.RunOutcomeKey))
					trigger, ok := attrs.Get(string(semconv.ClassificationTriggerKey))
					switch {
					case !ok || by != dialect.Dialect(dialect.OTelLLM{}) || run != (head.Kind == dialect.Run) || !run && !failed:
						continue // not what a client writes
					}
					trigger.SetStr(semconv.TriggerClient.String())
					attrs.Remove(string(semconv.ClassificationStatusSetKey)) // the processor's alone
					require.True(t, intake.Trusted(span, head.Kind), "%s: %s", path, span.Name())
					trustedKinds[head.Kind]++
				}
			}
		}
	}
	for _, kind := range []dialect.Kind{dialect.Request, dialect.Tool, dialect.Run} {
		assert.NotZero(t, trustedKinds[kind], "kind %d", kind)
	}
}

// A verdict that the facts beside it contradict is not the client's.
func TestContradictedByFacts(t *testing.T) {
	cut := func(c counts) spanSpec {
		return requestSpan(2, 1, 0.1, 1).cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", c)
	}
	tool := func(effect semconv.ToolEffect, outcome semconv.ToolOutcome) spanSpec {
		return toolSpan(3, 0, 1, "call_1", effect, outcome)
	}
	toolFailed := func(safety semconv.RetrySafety, reason semconv.RetryReason) []attribute.KeyValue {
		return clientsFailure(semconv.ClassToolFailed, semconv.CauseExecutionError, safety, reason)
	}
	ask, never := semconv.RetrySafetyUserConfirmedRetry, semconv.RetrySafetyNoRetry
	run := func(outcome semconv.RunOutcome, verdict ...attribute.KeyValue) spanSpec {
		return runSpan(1, 0, 2, 1, 0).with(semconv.ClassificationTrigger(semconv.TriggerClient)).with(verdict...).
			with(semconv.RunOutcomeAttr(outcome), semconv.ClassificationRuleset(classify.Ruleset))
	}
	for name, tt := range map[string]struct {
		kind dialect.Kind
		span spanSpec
		want bool
	}{
		"nothing was shown":         {dialect.Request, cut(counts{}).with(safeFailure()...), true},
		"text was shown":            {dialect.Request, cut(counts{text: 1}).with(safeFailure()...), false},
		"it was not observed":       {dialect.Request, requestSpan(2, 1, 0, 1).failed("x").with(safeFailure()...), false},
		"a call was handed over":    {dialect.Request, cut(counts{inputs: 1, completed: 1, calls: 1, callIDs: []string{"a"}}).with(safeFailure()...), true},
		"more careful":              {dialect.Request, cut(counts{}).with(clientsFailure(semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, ask, semconv.RetryReasonToolSideEffect)...), true},
		"another cause":             {dialect.Request, cut(counts{}).with(clientsFailure(semconv.ClassStreamInterrupted, semconv.CauseCleanEOF, ask, semconv.RetryReasonVisibleOutput)...), false},
		"nothing failed":            {dialect.Request, requestSpan(2, 1, 0, 1).answered("stop", answer).with(safeFailure()...), false},
		"a person stopped it":       {dialect.Request, cut(counts{}).with(semconv.AbortSourceAttr(semconv.AbortSourceUser)).with(safeFailure()...), false},
		"a tool that may run again": {dialect.Tool, tool(semconv.ToolEffectIdempotent, semconv.ToolOutcomeFailed).with(toolFailed(semconv.RetrySafetySafeAutoRetry, semconv.RetryReasonIdempotentToolsOnly)...), true},
		"a tool that must not":      {dialect.Tool, tool(semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeFailed).with(toolFailed(semconv.RetrySafetySafeAutoRetry, semconv.RetryReasonIdempotentToolsOnly)...), false},
		"a tool that ran well":      {dialect.Tool, tool(semconv.ToolEffectIdempotent, semconv.ToolOutcomeSucceeded).with(toolFailed(ask, semconv.RetryReasonToolSideEffect)...), false},
		"on an incomplete input":    {dialect.Tool, tool(semconv.ToolEffectIdempotent, semconv.ToolOutcomeFailed).with(clientsFailure(semconv.ClassToolFailed, semconv.CauseIncompleteInput, never, semconv.RetryReasonNotTransient)...), true},
		"a run that went well":      {dialect.Run, run(semconv.RunOutcomeSucceeded), true},
		"it ended with an error":    {dialect.Run, run(semconv.RunOutcomeSucceeded).failed("*url.Error"), false},
		"a run that failed":         {dialect.Run, run(semconv.RunOutcomeFailed, safeFailure()...).failed("*url.Error"), true},
		"a person stopped the run":  {dialect.Run, run(semconv.RunOutcomeFailed, safeFailure()...).with(semconv.AbortSourceAttr(semconv.AbortSourceUser)), false},
	} {
		t.Run(name, func(t *testing.T) {
			span := ptrace.NewSpan()
			tt.span.write(t, span)
			assert.Equal(t, tt.want, intake.Trusted(span, tt.kind))
		})
	}
}

// A client's verdict on a run with parts elsewhere is not kept where the parts that are
// here make a repetition less safe than it says.
func TestClientsVerdictBelowWhatIsHere(t *testing.T) {
	judged := inferredSpan(3, 0, 0.2, 2.9).byClient().with(safeFailure()...).
		with(semconv.RunOutcomeAttr(semconv.RunOutcomeFailed), semconv.ClassificationRuleset(classify.Ruleset))
	for name, tt := range map[string]struct {
		request spanSpec
		stays   bool
	}{
		"text was shown":    {requestSpan(4, 3, 0.2, 0.9).answered("stop", answer), false},
		"nothing was shown": {requestSpan(4, 3, 0.2, 0.9).cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{}), true},
		"a call was made":   {requestSpan(4, 3, 0.2, 0.9).answered("tool_calls", asksForTools), false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			h.consume(t, judged, tt.request)
			h.pass(t, xMaxHold)
			if tt.stays {
				assert.Equal(t, semconv.RetrySafetySafeAutoRetry, verdictOf(spansOf(h.out())[spanID(3)]).safety)
				return
			}
			assert.Equal(t, verdict{}, verdictOf(spansOf(h.out())[spanID(3)]))
			assert.Empty(t, runsJudged(h.out()))
		})
	}
}

// Behind another classifier, `keep` changes nothing of what that wrote.
func TestSecondLayer(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "traces", "*", "out.yaml"))
	require.NoError(t, err)
	for _, path := range paths {
		td, err := golden.ReadTraces(path)
		require.NoError(t, err)
		want := map[string]map[string]any{}
		for id, span := range spansOf(td) {
			if verdictattr.On(span.Attributes()) {
				want[id.String()] = span.Attributes().AsRaw()
			}
		}
		h := newHarness(t, withIncoming(intake.Keep), nil)
		require.NoError(t, h.ConsumeTraces(t.Context(), td))
		h.pass(t, xMaxHold)
		h.pass(t, 2*xRunTimeout)
		for id, span := range spansOf(h.out()) {
			if attrs, ok := want[id.String()]; ok {
				assert.Equal(t, attrs, span.Attributes().AsRaw(), "%s %s", path, id)
				delete(want, id.String())
			}
		}
		assert.Empty(t, want, path)
	}
}

// A span of a run that is delivered twice has no verdict of its client left on either copy, if
// that is contradicted.
func TestClientsVerdictIsDeliveredTwice(t *testing.T) {
	plain := inferredSpan(3, 0, 0.2, 2.9).byClient()
	judged := plain.with(safeFailure()...).with(semconv.RunOutcomeAttr(semconv.RunOutcomeFailed), semconv.ClassificationRuleset(classify.Ruleset))
	succeeded := runJudgedByClient(inferredSpan(3, 0, 0.2, 2.9), semconv.RunOutcomeSucceeded)
	request := requestSpan(4, 3, 0.2, 0.9).answered("stop", answer)
	for name, calls := range map[string][][]spanSpec{
		"once":                  {{judged, request}},
		"in one call":           {{judged, judged, request}},
		"in two calls":          {{judged}, {judged, request}},
		"after one without":     {{plain}, {judged, request}},
		"after another verdict": {{judged}, {succeeded, request}},
	} {
		h := newHarness(t, defaultConfig(), nil)
		for _, c := range calls {
			h.consume(t, c...)
		}
		h.pass(t, 2*xMaxHold)
		eachSpan(h.out(), func(span ptrace.Span) {
			assert.NotEqual(t, safe, verdictOf(span).safety, name)
		})
	}
}
