package otelllm

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/semconv"
)

// isVerdict reports whether the key belongs to a verdict.
func isVerdict(key attribute.Key) bool {
	switch key {
	case semconv.RunOutcomeKey, semconv.RunTimelineKey, semconv.RunRecoveredFailuresKey, semconv.HistoryMissingOutputsKey,
		semconv.ClassificationTriggerKey, semconv.ClassificationRulesetKey:
		return true
	default:
		return strings.HasPrefix(string(key), "llm.failure.") || key == semconv.RetrySafetyKey || key == semconv.RetryReasonKey
	}
}

// verdictAttributes returns the attributes of a span that belong to its verdict.
func verdictAttributes(s span) map[attribute.Key]any {
	m := map[attribute.Key]any{}
	for _, kv := range s.Attributes() {
		if isVerdict(kv.Key) {
			m[kv.Key] = kv.Value.AsInterface()
		}
	}
	return m
}

// wantVerdict returns the attributes that the vocabulary defines for a diagnosis, on a run's span
// or on that of a request or a tool. It is independent of the code that is tested.
func wantVerdict(d *classify.Diagnosis, run bool) map[attribute.Key]any {
	m := map[attribute.Key]any{}
	list := func(key attribute.Key, values []string) {
		if len(values) > 0 {
			m[key] = values
		}
	}
	if !run && !d.Failed() {
		return m
	}
	m["llm.classification.trigger"] = "client"
	list("llm.history.missing_outputs", d.MissingOutputs)
	if run {
		m["llm.run.outcome"] = d.Outcome.String()
		m["llm.classification.ruleset"] = classify.Ruleset
		list("llm.run.timeline", d.Timeline)
		if d.RecoveredFailures > 0 {
			m["llm.run.recovered_failures"] = int64(d.RecoveredFailures)
		}
	}
	if d.Failed() {
		m["llm.failure.class"] = d.Class.String()
		m["llm.failure.cause"] = d.Cause.String()
		m["llm.failure.phase"] = d.Phase.String()
		m["llm.failure.origin"] = d.Origin.String()
		m["llm.failure.confidence"] = d.Confidence.String()
		m["llm.failure.summary"] = d.Summary
		m["llm.failure.summary_key"] = d.SummaryKey.String()
		list("llm.failure.evidence", d.Evidence)
		list("llm.failure.missing_evidence", d.MissingEvidence)
		m["llm.retry.safety"] = d.Retry.Safety.String()
		m["llm.retry.reason"] = d.Retry.Reason.String()
	}
	return m
}

// TestVerdictsOfTheTransport checks that the option on the transport alone gives a verdict to the
// span of a declared run, of one around it, and of their tools.
func TestVerdictsOfTheTransport(t *testing.T) {
	r := newRecorder(t)
	ctx, outer := StartRun(t.Context(), "outer", WithTracerProvider(r))
	ctx, inner := StartRun(ctx, "inner")
	_, err := call(ctx, NewTransport(base(t), WithVerdicts()), scriptedServer(t, sseHead+firstText, nettest.Reset)+chatPath, chatBody)
	require.Error(t, err)
	_, tool := StartTool(ctx, ToolCall{ID: "call_1", Name: "f"})
	tool.End(errors.New("secret"))
	inner.End(err)
	outer.End(err)
	for _, name := range []string{"invoke_agent inner", "invoke_agent outer"} {
		s := r.named(name)[0]
		assert.True(t, s.failed())
		assert.Equal(t, "failed", s.get(semconv.RunOutcomeKey), name)
		assert.NotEmpty(t, s.get(semconv.FailureSummaryKey), name)
	}
	assert.NotEmpty(t, r.named("execute_tool f")[0].get(semconv.FailureClassKey))
	without := newRecorder(t)
	ctx, run := StartRun(t.Context(), "outer", WithTracerProvider(without))
	_, err = call(ctx, NewTransport(base(t)), scriptedServer(t, sseHead+firstText, nettest.Reset)+chatPath, chatBody)
	run.End(err)
	for _, s := range without.spans.Ended() {
		assert.Empty(t, verdictAttributes(span{s}), s.Name())
	}
}

// TestVerdicts checks that the spans of runs that succeed or fail have the verdicts of the
// live diagnosis.
func TestVerdicts(t *testing.T) {
	toolCall := strings.Join(ownStreams()[0].events, "")
	whole := firstText + chatStop + chatDone
	carries := `{"model":"gpt-5","stream":true,"messages":[{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read_file","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_1","content":"x"}]}`
	loses := `{"model":"gpt-5","stream":true,"messages":[{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read_file","arguments":"{}"}}]}]}`
	type turn struct{ body, answer string }
	for _, tt := range []struct {
		name      string
		turns     []turn
		tool      bool // the first answer's call is executed after it
		toolErr   error
		runErr    error
		outcome   semconv.RunOutcome
		class     semconv.Class   // of the run
		requests  []semconv.Class // of each
		toolClass semconv.Class
	}{
		{name: "success", turns: []turn{{chatBody, toolCall}, {carries, whole}}, tool: true, outcome: semconv.RunOutcomeSucceeded, requests: []semconv.Class{semconv.ClassUnset, semconv.ClassUnset}},
		{name: "cut", turns: []turn{{chatBody, firstText}}, runErr: errors.New("x"), outcome: semconv.RunOutcomeFailed, class: semconv.ClassStreamInterrupted, requests: []semconv.Class{semconv.ClassStreamInterrupted}},
		{name: "cut, then recovered", turns: []turn{{chatBody, firstText}, {chatBody, whole}}, outcome: semconv.RunOutcomeRecovered, requests: []semconv.Class{semconv.ClassStreamInterrupted, semconv.ClassUnset}},
		{name: "a tool fails", turns: []turn{{chatBody, toolCall}, {carries, whole}}, tool: true, toolErr: errors.New("x"), outcome: semconv.RunOutcomeRecovered, requests: []semconv.Class{semconv.ClassUnset, semconv.ClassUnset}, toolClass: semconv.ClassToolFailed},
		{name: "a tool fails and its output is lost", turns: []turn{{chatBody, toolCall}, {loses, "data: {\"error\":{\"code\":\"invalid_request_error\"}}\n\n"}}, tool: true, toolErr: errors.New("x"), runErr: errors.New("x"), outcome: semconv.RunOutcomeFailed, class: semconv.ClassToolOutputLost, requests: []semconv.Class{semconv.ClassUnset, semconv.ClassProviderError}, toolClass: semconv.ClassToolFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r), WithVerdicts())
			var live []map[attribute.Key]any // the run's verdict on each request, when it had ended
			for i, turn := range tt.turns {
				_, err := call(ctx, NewTransport(base(t)), scriptedServer(t, sseHead+turn.answer, nil)+chatPath, turn.body)
				require.NoError(t, err)
				seen, _ := run.run.Facts()
				live = append(live, wantVerdict(&classify.Judge(&seen).Requests[i], false))
				if i == 0 && tt.tool {
					_, tool := StartTool(ctx, ToolCall{ID: "call_1", Name: "read_file", Effect: EffectReadOnly})
					tool.End(tt.toolErr)
				}
			}
			run.End(tt.runErr)

			requests := r.named("chat gpt-5")
			require.Len(t, requests, len(tt.turns))
			for i, s := range requests {
				assert.Equal(t, live[i], verdictAttributes(s), "request %d", i)
				var want any
				if c := tt.requests[i]; c != semconv.ClassUnset {
					want = c.String()
				}
				assert.Equal(t, want, s.get("llm.failure.class"), "request %d", i)
				assert.Nil(t, s.get("llm.run.outcome"))
				assert.Nil(t, s.get("llm.classification.ruleset"))
			}
			for _, s := range r.named("execute_tool read_file") {
				if tt.toolClass == semconv.ClassUnset {
					assert.Empty(t, verdictAttributes(s))
					continue
				}
				assert.Equal(t, tt.toolClass.String(), s.get("llm.failure.class"))
				assert.Equal(t, "client", s.get("llm.classification.trigger"))
				assert.Contains(t, verdictAttributes(s), semconv.RetrySafetyKey)
				assert.Nil(t, s.get("llm.run.outcome"))
			}
			d := run.Diagnosis()
			s := r.named("invoke_agent coder")[0]
			assert.Equal(t, wantVerdict(&d, true), verdictAttributes(s))
			assert.Equal(t, tt.outcome, d.Outcome)
			assert.Equal(t, tt.class, d.Class)
		})
	}
}

// Without the option no span has a verdict. If it is given to a transport alone, the spans of its
// requests have one, and those of the run that they belong to.
func TestVerdictsOfATransport(t *testing.T) {
	for _, opts := range [][]TransportOption{nil, {WithVerdicts()}} {
		for _, inRun := range []bool{false, true} {
			r := newRecorder(t)
			ctx, run := t.Context(), (*Run)(nil)
			if inRun {
				ctx, run = StartRun(ctx, "coder", WithTracerProvider(r))
			}
			_, err := call(ctx, NewTransport(base(t), append(opts, WithTracerProvider(r))...), scriptedServer(t, sseHead+firstText, nil)+chatPath, chatBody)
			require.NoError(t, err)
			_, err = call(ctx, NewTransport(base(t), append(opts, WithTracerProvider(r))...), scriptedServer(t, sseHead+firstText+chatStop+chatDone, nil)+chatPath, chatBody)
			require.NoError(t, err)
			_, tool := StartTool(ctx, ToolCall{ID: "call_1", Name: "look"})
			tool.End(errors.New("x"))
			run.End(errors.New("x"))
			for i, s := range r.named("chat gpt-5") {
				if i == 0 && opts != nil {
					assert.Equal(t, "clean_eof", s.get("llm.failure.cause"))
					assert.Equal(t, "client", s.get("llm.classification.trigger"))
					continue
				}
				assert.Empty(t, verdictAttributes(s))
			}
			for _, s := range append(r.named("execute_tool look"), r.named("invoke_agent coder")...) {
				assert.Equal(t, opts != nil && inRun, s.get(semconv.ClassificationTriggerKey) == "client", s.Name())
			}
		}
	}
}

// Of a run with verdicts and an inner run without them, only the first has a verdict.
func TestVerdictsOfNestedRuns(t *testing.T) {
	r := newRecorder(t)
	ctx, outer := StartRun(t.Context(), "outer", WithTracerProvider(r), WithVerdicts())
	inner, nested := StartRun(ctx, "inner")
	rt := roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("x") })
	_, err := call(inner, NewTransport(rt), "http://x"+chatPath, chatBody)
	require.Error(t, err)
	nested.End(err)
	outer.End(nil)
	assert.Empty(t, verdictAttributes(r.named("invoke_agent inner")[0]))
	assert.Equal(t, "succeeded", r.named("invoke_agent outer")[0].get("llm.run.outcome"))
}

// Every part of a verdict is written, including those that a client, which sees everything,
// rarely has: missing evidence, and failures that were recovered from.
func TestVerdictIsWrittenWhole(t *testing.T) {
	d := classify.Diagnosis{
		Outcome: semconv.RunOutcomeFailed, Class: semconv.ClassStreamInterrupted, Cause: semconv.CauseCleanEOF, Phase: semconv.PhaseText,
		Origin: semconv.OriginTransport, Confidence: semconv.ConfidenceLow, Summary: "s", Evidence: []string{"a=b"}, MissingEvidence: []string{"c"},
		Retry:             classify.Retry{Safety: classify.UserConfirmedRetry, Reason: semconv.RetryReasonVisibleOutput},
		RecoveredFailures: 2, Timeline: []string{"+0s"}, MissingOutputs: []string{"call_1"},
	}
	r := newRecorder(t)
	for _, run := range []bool{false, true} {
		_, s := r.Tracer("x").Start(t.Context(), "x")
		if run {
			s.SetAttributes(spanfacts.AppendRunVerdict(nil, &d)...)
		} else {
			s.SetAttributes(spanfacts.AppendVerdict(nil, &d)...)
		}
		s.End()
		assert.Equal(t, wantVerdict(&d, run), verdictAttributes(r.only(t)))
		r.spans.Reset()
	}
}
