package verdicts

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

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/intake"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/verdictattr"
	"github.com/otelllm/otelllm-go/semconv"
)

func withIncoming(verdicts string) *llmclassify.Config {
	cfg := harness.DefaultConfig()
	cfg.IncomingVerdicts = verdicts
	return cfg
}

// runJudgedByClient is a run with the verdict that its client wrote: nothing failed.
func runJudgedByClient(s harness.Span, outcome semconv.RunOutcome) harness.Span {
	return s.ByClient().With(
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
func writtenFor(t *testing.T, cfg *llmclassify.Config, calls []ptrace.Traces) []byte {
	t.Helper()
	h := harness.New(t, cfg, nil)
	for _, td := range calls {
		in := ptrace.NewTraces()
		td.CopyTo(in)
		require.NoError(t, h.ConsumeTraces(t.Context(), in))
		h.Pass(t, time.Second)
	}
	h.Pass(t, cfg.MaxHold)
	h.Pass(t, 2*cfg.RunTimeout)
	data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(h.Out())
	require.NoError(t, err)
	return data
}

// No attribute of a verdict that comes with any span, or with what spans share, changes
// anything of what is written, unless it is the client's in the client's scope; and with
// `strip` not even then.
func TestForgedVerdictsChangeNothing(t *testing.T) {
	paths, err := filepath.Glob(harness.Testdata("traces", "*", "in.yaml"))
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
			other := harness.TracesOf(t, harness.OtherSpan(101, 0, 0, 1), harness.HTTPClient(102, 2, 0, 1), harness.Span{ID: 103, Name: semconv.SpanRunAbandoned}, harness.AgentSpan(0, 0, 0, 1))
			calls := append(harness.SplitTraces(td, 1+n%3), other)
			want := writtenFor(t, withIncoming(verdicts), calls)
			for seed := range uint64(5 / sample.Every(5)) {
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
	shown := harness.RequestSpan(2, 1, 0.1, 1).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 3})
	outcome := semconv.RunOutcomeAttr(semconv.RunOutcomeFailed)
	ruleset := semconv.ClassificationRuleset(classify.Ruleset)
	for name, spans := range map[string][]harness.Span{
		"an empty summary":                 {shown.With(semconv.FailureSummary("")), harness.RunSpan(1, 0, 2, 1, 0).With(semconv.FailureSummary(""))},
		"an earlier classifier's":          {shown.With(append(safeFailure(), semconv.ClassificationTrigger(semconv.TriggerComplete))...), harness.RunSpan(1, 0, 2, 1, 0)},
		"on the run":                       {shown, harness.RunSpan(1, 0, 2, 1, 0).With(append(safeFailure(), outcome, ruleset, semconv.ClassificationTrigger(semconv.TriggerComplete))...)},
		"the client's, in no client scope": {shown.With(safeFailure()...), harness.RunSpan(1, 0, 2, 1, 0).With(append(safeFailure(), outcome, ruleset)...)},
		"the client's":                     {shown.ByClient().With(safeFailure()...), harness.RunSpan(1, 0, 2, 1, 0).ByClient().With(append(safeFailure(), outcome, ruleset)...)},
	} {
		for calls, split := range map[string]bool{"in one call": false, "apart": true} {
			t.Run(name+", "+calls, func(t *testing.T) {
				h := harness.New(t, harness.DefaultConfig(), nil)
				if split {
					h.Consume(t, spans[0])
					h.Consume(t, spans[1])
				} else {
					h.Consume(t, spans...)
				}
				out := harness.SpansOf(h.Out())
				for _, id := range []byte{1, 2} {
					v := harness.VerdictOf(out[harness.SpanID(id)])
					assert.Equal(t, semconv.RetryReasonVisibleOutput, v.Reason, "span %d", id)
					assert.Equal(t, semconv.RetrySafetyUserConfirmedRetry, v.Safety, "span %d", id)
					assert.Equal(t, semconv.TriggerComplete, v.Trigger, "span %d", id)
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
		h := harness.New(t, withIncoming(verdicts), nil)
		h.Consume(t, harness.OtherSpan(1, 0, 0, 1).ByClient().With(forged...), harness.HTTPClient(2, 0, 0, 1).With(forged...), harness.AgentSpan(0, 0, 0, 1).ByClient().With(forged...))
		require.Equal(t, 3, h.Out().SpanCount())
		for _, span := range harness.SpansOf(h.Out()) {
			assert.False(t, verdictattr.On(span.Attributes()), span.Name())
		}
		m, err := h.Metrics.GetMetric("otelcol_processor_llm_classify_verdicts_removed")
		require.NoError(t, err)
		assert.Equal(t, int64(3), harness.Total(t, m))
	}
	h := harness.New(t, withIncoming(intake.Keep), nil)
	h.Consume(t, harness.OtherSpan(1, 0, 0, 1).With(forged...))
	assert.Equal(t, []pcommon.SpanID{harness.SpanID(1)}, harness.RunsJudged(h.Out()))
}

// The verdicts that this project's rules give, written as its client writes them, stay.
func TestClientsVerdictsAreTrusted(t *testing.T) {
	paths, err := filepath.Glob(harness.Testdata("traces", "*", "out.yaml"))
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
func TestClientsVerdictAgainstItsFacts(t *testing.T) {
	cut := func(c harness.Counts) harness.Span {
		return harness.RequestSpan(2, 1, 0.1, 1).Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", c)
	}
	tool := func(effect semconv.ToolEffect, outcome semconv.ToolOutcome) harness.Span {
		return harness.ToolSpan(3, 0, 1, "call_1", effect, outcome)
	}
	toolFailed := func(safety semconv.RetrySafety, reason semconv.RetryReason) []attribute.KeyValue {
		return clientsFailure(semconv.ClassToolFailed, semconv.CauseExecutionError, safety, reason)
	}
	ask, never := semconv.RetrySafetyUserConfirmedRetry, semconv.RetrySafetyNoRetry
	run := func(outcome semconv.RunOutcome, verdict ...attribute.KeyValue) harness.Span {
		return harness.RunSpan(1, 0, 2, 1, 0).With(semconv.ClassificationTrigger(semconv.TriggerClient)).With(verdict...).
			With(semconv.RunOutcomeAttr(outcome), semconv.ClassificationRuleset(classify.Ruleset))
	}
	for name, tt := range map[string]struct {
		kind dialect.Kind
		span harness.Span
		want bool
	}{
		"nothing was shown":         {dialect.Request, cut(harness.Counts{}).With(safeFailure()...), true},
		"text was shown":            {dialect.Request, cut(harness.Counts{Text: 1}).With(safeFailure()...), false},
		"it was not observed":       {dialect.Request, harness.RequestSpan(2, 1, 0, 1).Failed("x").With(safeFailure()...), false},
		"a call was handed over":    {dialect.Request, cut(harness.Counts{Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"a"}}).With(safeFailure()...), true},
		"more careful":              {dialect.Request, cut(harness.Counts{}).With(clientsFailure(semconv.ClassStreamInterrupted, semconv.CauseConnectionReset, ask, semconv.RetryReasonToolSideEffect)...), true},
		"another cause":             {dialect.Request, cut(harness.Counts{}).With(clientsFailure(semconv.ClassStreamInterrupted, semconv.CauseCleanEOF, ask, semconv.RetryReasonVisibleOutput)...), false},
		"nothing failed":            {dialect.Request, harness.RequestSpan(2, 1, 0, 1).Answered("stop", harness.Answer).With(safeFailure()...), false},
		"a person stopped it":       {dialect.Request, cut(harness.Counts{}).With(semconv.AbortSourceAttr(semconv.AbortSourceUser)).With(safeFailure()...), false},
		"a tool that may run again": {dialect.Tool, tool(semconv.ToolEffectIdempotent, semconv.ToolOutcomeFailed).With(toolFailed(semconv.RetrySafetySafeAutoRetry, semconv.RetryReasonIdempotentToolsOnly)...), true},
		"a tool that must not":      {dialect.Tool, tool(semconv.ToolEffectNonIdempotent, semconv.ToolOutcomeFailed).With(toolFailed(semconv.RetrySafetySafeAutoRetry, semconv.RetryReasonIdempotentToolsOnly)...), false},
		"a tool that ran well":      {dialect.Tool, tool(semconv.ToolEffectIdempotent, semconv.ToolOutcomeSucceeded).With(toolFailed(ask, semconv.RetryReasonToolSideEffect)...), false},
		"on an incomplete input":    {dialect.Tool, tool(semconv.ToolEffectIdempotent, semconv.ToolOutcomeFailed).With(clientsFailure(semconv.ClassToolFailed, semconv.CauseIncompleteInput, never, semconv.RetryReasonNotTransient)...), true},
		"a run that went well":      {dialect.Run, run(semconv.RunOutcomeSucceeded), true},
		"it ended with an error":    {dialect.Run, run(semconv.RunOutcomeSucceeded).Failed("*url.Error"), false},
		"a run that failed":         {dialect.Run, run(semconv.RunOutcomeFailed, safeFailure()...).Failed("*url.Error"), true},
		"a person stopped the run":  {dialect.Run, run(semconv.RunOutcomeFailed, safeFailure()...).With(semconv.AbortSourceAttr(semconv.AbortSourceUser)), false},
	} {
		t.Run(name, func(t *testing.T) {
			span := ptrace.NewSpan()
			tt.span.Write(t, span)
			assert.Equal(t, tt.want, intake.Trusted(span, tt.kind))
		})
	}
}

// A client's verdict on a run with parts elsewhere is not kept where the parts that are
// here make a repetition less safe than it says.
func TestClientsVerdictLessCarefulThanItsParts(t *testing.T) {
	judged := harness.InferredSpan(3, 0, 0.2, 2.9).ByClient().With(safeFailure()...).
		With(semconv.RunOutcomeAttr(semconv.RunOutcomeFailed), semconv.ClassificationRuleset(classify.Ruleset))
	for name, tt := range map[string]struct {
		request harness.Span
		stays   bool
	}{
		"text was shown":    {harness.RequestSpan(4, 3, 0.2, 0.9).Answered("stop", harness.Answer), false},
		"nothing was shown": {harness.RequestSpan(4, 3, 0.2, 0.9).Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{}), true},
		"a call was made":   {harness.RequestSpan(4, 3, 0.2, 0.9).Answered("tool_calls", asksForTools), false},
	} {
		t.Run(name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			h.Consume(t, judged, tt.request)
			h.Pass(t, harness.MaxHold)
			if tt.stays {
				assert.Equal(t, semconv.RetrySafetySafeAutoRetry, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(3)]).Safety)
				return
			}
			assert.Equal(t, harness.Verdict{}, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(3)]))
			assert.Empty(t, harness.RunsJudged(h.Out()))
		})
	}
}

// Behind another classifier, `keep` changes nothing of what that wrote.
func TestClassifierBehindAnother(t *testing.T) {
	paths, err := filepath.Glob(harness.Testdata("traces", "*", "out.yaml"))
	require.NoError(t, err)
	for _, path := range paths {
		td, err := golden.ReadTraces(path)
		require.NoError(t, err)
		want := map[string]map[string]any{}
		for id, span := range harness.SpansOf(td) {
			if verdictattr.On(span.Attributes()) {
				want[id.String()] = span.Attributes().AsRaw()
			}
		}
		h := harness.New(t, withIncoming(intake.Keep), nil)
		require.NoError(t, h.ConsumeTraces(t.Context(), td))
		h.Pass(t, harness.MaxHold)
		h.Pass(t, 2*harness.RunTimeout)
		for id, span := range harness.SpansOf(h.Out()) {
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
	plain := harness.InferredSpan(3, 0, 0.2, 2.9).ByClient()
	judged := plain.With(safeFailure()...).With(semconv.RunOutcomeAttr(semconv.RunOutcomeFailed), semconv.ClassificationRuleset(classify.Ruleset))
	succeeded := runJudgedByClient(harness.InferredSpan(3, 0, 0.2, 2.9), semconv.RunOutcomeSucceeded)
	request := harness.RequestSpan(4, 3, 0.2, 0.9).Answered("stop", harness.Answer)
	for name, calls := range map[string][][]harness.Span{
		"once":                  {{judged, request}},
		"in one call":           {{judged, judged, request}},
		"in two calls":          {{judged}, {judged, request}},
		"after one without":     {{plain}, {judged, request}},
		"after another verdict": {{judged}, {succeeded, request}},
	} {
		h := harness.New(t, harness.DefaultConfig(), nil)
		for _, c := range calls {
			h.Consume(t, c...)
		}
		h.Pass(t, 2*harness.MaxHold)
		harness.EachSpan(h.Out(), func(span ptrace.Span) {
			assert.NotEqual(t, harness.Safe, harness.VerdictOf(span).Safety, name)
		})
	}
}
