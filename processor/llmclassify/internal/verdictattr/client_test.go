package verdictattr_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/stamp"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/verdictattr"
	"github.com/otelllm/otelllm-go/semconv"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func pick[T any](r *rand.Rand, values []T) (v T) {
	if i := r.IntN(len(values) + 1); i < len(values) {
		v = values[i]
	}
	return v
}

func count(r *rand.Rand) classify.Count { return classify.Counted(r.IntN(3) - 1) }

func randomRun(r *rand.Rand) *classify.Run {
	ids := [][]string{nil, {}, {"a"}, {"a", "b"}}
	fact := []classify.Fact{classify.Yes, classify.No}
	run := &classify.Run{Start: t0, End: t0.Add(time.Hour), Ended: pick(r, fact), Failed: pick(r, fact), AnnouncedRequests: count(r), AnnouncedTools: count(r)}
	for i := range r.IntN(4) {
		at := t0.Add(time.Duration(i) * time.Second)
		q := classify.Request{
			Start: at, End: at.Add(time.Second), Phase: pick(r, semconv.PhaseValues()), Ended: pick(r, semconv.StreamEndValues()),
			Status: pick(r, []int{200, 429, 400, 503}), Failed: pick(r, fact), Text: count(r), Reasoning: count(r),
			ToolInputsStarted: count(r), ToolInputsCompleted: count(r), ToolCalls: count(r), ProviderToolsStarted: count(r),
			CallIDs: pick(r, ids), OpenCallIDs: pick(r, ids), HistoryCalls: pick(r, ids), HistoryOutputs: pick(r, ids), ProviderTools: pick(r, ids),
			Background: r.IntN(8) == 0, Basis: classify.Typed,
		}
		q.Transport.Cause, q.Transport.Stage = pick(r, semconv.TransportCauseValues()), pick(r, semconv.TransportStageValues())
		if r.IntN(3) == 0 {
			q.Provider.Kind = pick(r, semconv.ProviderErrorKindValues())
			q.Abort.Source = pick(r, semconv.AbortSourceValues())
			q.Watchdog.Kind = pick(r, semconv.WatchdogKindValues())
		}
		run.Requests = append(run.Requests, q)
	}
	for range r.IntN(3) {
		run.Tools = append(run.Tools, classify.Tool{
			Start: t0, End: t0.Add(time.Second), Name: "apply_patch", CallID: pick(r, []string{"a", "b"}), Effect: pick(r, semconv.ToolEffectValues()),
			Outcome: pick(r, semconv.ToolOutcomeValues()), Delivery: pick(r, semconv.OutputDeliveryValues()), FailedBeforeEffect: r.IntN(4) == 0,
		})
	}
	return run
}

// Every verdict that the rules give is read as it was written.
func TestReadClient(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	classes, outcomes := map[semconv.Class]bool{}, map[semconv.RunOutcome]bool{}
	sends := map[semconv.ResumeSend]bool{}
	check := func(run bool, span ptrace.Span, d *classify.Diagnosis) {
		got, ok := verdictattr.ReadClient(span.Attributes(), run)
		require.True(t, ok, "%v", span.Attributes().AsRaw())
		want := classify.Diagnosis{
			Outcome: d.Outcome, Class: d.Class, Cause: d.Cause, Phase: d.Phase, Origin: d.Origin, Confidence: d.Confidence,
			SummaryKey: d.SummaryKey, RecoveredFailures: d.RecoveredFailures,
			Retry: classify.Retry{Safety: d.Retry.Safety, Reason: d.Retry.Reason},
		}
		require.Equal(t, want, got)
		_, ok = verdictattr.ReadClient(span.Attributes(), !run)
		require.False(t, ok, "it is on another kind of span")
		classes[d.Class] = true
		outcomes[d.Outcome] = true
	}
	for range 5000 {
		facts := randomRun(r)
		v, plan := classify.Judge(facts), classify.PlanRun(facts)
		span := ptrace.NewSpan()
		stamp.Run(span, &v.Run, nil, semconv.TriggerClient)
		stamp.Plan(span.Attributes(), &v.Run, &plan)
		send, there := span.Attributes().Get("llm.resume.send")
		require.Equal(t, v.Run.Failed(), there, "a plan is there if the run failed")
		if there {
			require.Equal(t, plan.Send.String(), send.Str())
			sends[plan.Send] = true
		}
		check(true, span, &v.Run)
		for _, parts := range [][]classify.Diagnosis{v.Requests, v.Tools} {
			for i := range parts {
				if parts[i].Failed() {
					span := ptrace.NewSpan()
					stamp.Span(span, &parts[i], semconv.TriggerClient)
					check(false, span, &parts[i])
				}
			}
		}
	}
	assert.Greater(t, len(classes), 10, "%v", classes)
	assert.Greater(t, len(outcomes), 5, "%v", outcomes)
	assert.Len(t, sends, len(semconv.ResumeSendValues()), "%v", sends)
}

func whole(tb testing.TB, run bool) ptrace.Span {
	tb.Helper()
	d := classify.Diagnosis{
		Class: semconv.ClassStreamInterrupted, Cause: semconv.CauseConnectionReset, Phase: semconv.PhaseReasoning, Origin: semconv.OriginTransport,
		Confidence: semconv.ConfidenceHigh, Summary: "The connection was lost.", SummaryKey: semconv.SummaryKeyNothingShown,
		Evidence: []string{"llm.transport.cause=connection_reset"}, Retry: classify.Retry{Safety: classify.SafeAutoRetry, Reason: semconv.RetryReasonReasoningOnly},
	}
	span := ptrace.NewSpan()
	span.Attributes().PutStr("gen_ai.operation.name", "chat")
	if run {
		d.Outcome, d.Timeline, d.RecoveredFailures = semconv.RunOutcomeFailed, []string{"+0s a"}, 1
		stamp.Run(span, &d, nil, semconv.TriggerClient)
		stamp.Plan(span.Attributes(), &d, &classify.Plan{
			Ran:        []classify.PlannedCall{{ID: "a", Name: "search", Output: classify.OutputDelivered}, {Name: "read", Output: classify.OutputLost}},
			MayHaveRun: []classify.PlannedCall{{ID: "b", Name: "pay"}}, NeverRan: []classify.PlannedCall{{ID: "c", Name: "pay"}},
			More: true, Send: semconv.ResumeSendAgain, Wait: time.Second, Ask: semconv.RetryReasonVisibleOutput,
		})
	} else {
		stamp.Span(span, &d, semconv.TriggerClient)
	}
	_, ok := verdictattr.ReadClient(span.Attributes(), run)
	require.True(tb, ok)
	return span
}

// A verdict with something missing, of another type, beyond a bound or in contradiction to
// the rest does not stay.
func TestReadClientRefuses(t *testing.T) {
	optional := map[string]bool{
		string(semconv.FailureEvidenceKey): true, string(semconv.RunTimelineKey): true, string(semconv.RunRecoveredFailuresKey): true,
		string(semconv.ResumeAskKey): true, string(semconv.ResumeWaitKey): true, string(semconv.ResumeMoreKey): true,
		string(semconv.ResumeRanNamesKey): true, string(semconv.ResumeMayHaveRunNamesKey): true, string(semconv.ResumeNeverRanNamesKey): true,
	}
	for _, run := range []bool{false, true} {
		for key := range whole(t, run).Attributes().All() {
			span := whole(t, run)
			span.Attributes().Remove(key)
			_, ok := verdictattr.ReadClient(span.Attributes(), run)
			assert.Equal(t, optional[key] || !verdictattr.Is(key), ok, "without %s", key)
			for name, change := range map[string]func(pcommon.Value){
				"nothing": func(v pcommon.Value) { pcommon.NewValueEmpty().CopyTo(v) }, "a number": func(v pcommon.Value) { v.SetDouble(1) },
				"an empty text": func(v pcommon.Value) { v.SetStr("") }, "an empty list": func(v pcommon.Value) { v.SetEmptySlice() },
				"a long text": func(v pcommon.Value) { v.SetStr(strings.Repeat("a", 1000)) }, "not a text": func(v pcommon.Value) { v.SetStr("\xff") },
				"a line": func(v pcommon.Value) { v.SetStr("a\nb") }, "less than none": func(v pcommon.Value) { v.SetInt(-1) },
				"long lines": func(v pcommon.Value) { v.SetEmptySlice().AppendEmpty().SetStr(strings.Repeat("a", 257)) },
				"many lines": func(v pcommon.Value) {
					for list := v.SetEmptySlice(); list.Len() < 65; {
						list.AppendEmpty().SetStr("a")
					}
				},
			} {
				span := whole(t, run)
				v, _ := span.Attributes().Get(key)
				change(v)
				fine := !verdictattr.Is(key) || key == string(semconv.ResumeWaitKey) && name == "a number"
				_, ok := verdictattr.ReadClient(span.Attributes(), run)
				assert.Equal(t, fine, ok, "%s is %s", key, name)
			}
		}
	}
	type words map[string]string
	for name, tt := range map[string]struct {
		run     bool
		changes words
	}{
		"another trigger":         {false, words{"llm.classification.trigger": "complete"}},
		"not in the vocabulary":   {false, words{"llm.failure.class": "bad_luck"}},
		"the reason of a level":   {false, words{"llm.retry.reason": "tool_side_effect"}},
		"the level of a reason":   {false, words{"llm.retry.safety": "no_retry"}},
		"safe, with little known": {false, words{"llm.failure.confidence": "low"}},
		"safe, with text shown":   {false, words{"llm.failure.summary_key": "text_shown"}},
		"safe, though stopped":    {false, words{"llm.failure.class": "local_abort"}},
		"the part of a run":       {false, words{"llm.run.outcome": "failed"}},
		"a plan for a request":    {false, words{"llm.resume.send": "again"}},
		"a plan beyond the words": {true, words{"llm.resume.send": "twice"}},
		"well, with a failure":    {true, words{"llm.run.outcome": "succeeded"}},
		"recovered, and failed":   {true, words{"llm.run.outcome": "recovered"}},
		"waits, and failed":       {true, words{"llm.run.outcome": "waiting"}},
		"another outcome":         {true, words{"llm.run.outcome": "aborted"}},
		"limited by a reset":      {true, words{"llm.run.outcome": "limited"}},
		"incomplete by a reset":   {true, words{"llm.run.outcome": "incomplete"}},
	} {
		span := whole(t, tt.run)
		for key, value := range tt.changes {
			span.Attributes().PutStr(key, value)
		}
		_, ok := verdictattr.ReadClient(span.Attributes(), tt.run)
		assert.False(t, ok, name)
	}

	// A plan is not less careful than the verdict, and each of its lists is as long as that beside it.
	careful := whole(t, true)
	careful.Attributes().PutStr("llm.retry.safety", "user_confirmed_retry")
	careful.Attributes().PutStr("llm.retry.reason", "visible_output")
	_, ok := verdictattr.ReadClient(careful.Attributes(), true)
	assert.False(t, ok, "to be asked, and sent again")
	careful.Attributes().PutStr("llm.resume.send", "rest")
	_, ok = verdictattr.ReadClient(careful.Attributes(), true)
	assert.True(t, ok)
	for _, key := range []string{"llm.resume.ran.ids", "llm.resume.ran.names", "llm.resume.ran.outputs", "llm.resume.may_have_run.names", "llm.resume.never_ran.names"} {
		span := whole(t, true)
		list, _ := span.Attributes().Get(key)
		list.Slice().At(0).CopyTo(list.Slice().AppendEmpty())
		_, ok := verdictattr.ReadClient(span.Attributes(), true)
		assert.False(t, ok, "%s is longer", key)
	}
	span := whole(t, true)
	list, _ := span.Attributes().Get("llm.resume.ran.outputs")
	list.Slice().At(0).SetStr("eaten")
	_, ok = verdictattr.ReadClient(span.Attributes(), true)
	assert.False(t, ok, "an output that became something else")

	for outcome, ok := range map[string]bool{"succeeded": true, "waiting": true, "recovered": false, "failed": false, "": false} {
		span := ptrace.NewSpan()
		span.Attributes().PutStr("llm.run.outcome", outcome)
		span.Attributes().PutStr("llm.classification.trigger", "client")
		span.Attributes().PutStr("llm.classification.ruleset", classify.Ruleset)
		_, got := verdictattr.ReadClient(span.Attributes(), true)
		assert.Equal(t, ok, got, "%s without a failure", outcome)
	}
}

// On the wire a key may come twice: readers may take the first or the last.
func TestReadClientTwice(t *testing.T) {
	td := ptrace.NewTraces()
	span := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	whole(t, false).CopyTo(span)
	span.Attributes().PutStr("llm.retry.safetx", "no_retry")
	data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	require.NoError(t, err)
	td, err = (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces([]byte(strings.Replace(string(data), "llm.retry.safetx", "llm.retry.safety", 1)))
	require.NoError(t, err)
	attrs := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Attributes()
	_, ok := verdictattr.ReadClient(attrs, false)
	assert.False(t, ok)
	verdictattr.Remove(attrs)
	assert.False(t, verdictattr.On(attrs))
}

func FuzzReadClient(f *testing.F) {
	for _, run := range []bool{false, true} {
		td := ptrace.NewTraces()
		whole(f, run).CopyTo(td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty())
		data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
		require.NoError(f, err)
		f.Add(data, run)
	}
	f.Fuzz(func(t *testing.T, data []byte, run bool) {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data)
		if err != nil {
			return
		}
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					attrs := span.Attributes()
					d, ok := verdictattr.ReadClient(attrs, run)
					if ok {
						require.True(t, verdictattr.OfClient(attrs))
						require.Equal(t, run, d.Outcome != semconv.RunOutcomeUnset)
						require.True(t, run || d.Failed())
						require.Equal(t, d.Failed(), d.Retry.Safety != 0)
						if d.Retry.Safety == classify.SafeAutoRetry {
							require.NotEqual(t, semconv.ConfidenceLow, d.Confidence)
							require.NotEqual(t, semconv.SummaryKeyTextShown, d.SummaryKey)
							require.Greater(t, d.Retry.Reason, semconv.RetryReasonEvidenceIncomplete)
						}
					}
					verdictattr.Remove(attrs)
					require.False(t, verdictattr.On(attrs))
					_, ok = verdictattr.ReadClient(attrs, run)
					require.False(t, ok)
				}
			}
		}
	})
}

// The client's scope is what its source says: this module does not import the client.
func TestClientScope(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "otelllm", "internal", "telemetry", "telemetry.go"))
	require.NoError(t, err)
	assert.Contains(t, string(source), "ScopeName = "+strconv.Quote(verdictattr.ClientScope)+"\n")
}

// Each key is one of the vocabulary that the processor writes.
func TestKeys(t *testing.T) {
	for _, key := range verdictattr.Keys() {
		assert.True(t, verdictattr.Is(key), key)
		assert.False(t, verdictattr.Is(key+"x"), key)
		assert.False(t, verdictattr.Is(strings.ToUpper(key)), key)
	}
	for _, key := range []string{"", "llm.", "llm.run.id", "llm.run.requests", "llm.retry.after", "llm.history.tool_calls", "a.b.run.outcome"} {
		assert.False(t, verdictattr.Is(key), key)
	}
}
