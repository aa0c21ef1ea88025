package classify

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// The page for translators of summaries has every sentence that a summary can contain.
func TestSummariesPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/summaries.md")
	require.NoError(t, err)
	has := func(text string) {
		t.Helper()
		assert.Contains(t, string(page), text)
	}
	k := &risk{tool: "TOOL", failedTool: "TOOL"}
	for _, key := range semconv.SummaryKeyValues() {
		has("`" + key.String() + "` | " + strings.ReplaceAll(stateText(key, k), "TOOL", "{tool}"))
	}
	has(stateText(semconv.SummaryKeyTextShown, &risk{otherText: true}))
	has(adviceAsk + doubt(&Diagnosis{Retry: Retry{Reason: semconv.RetryReasonVisibleOutput}}, &risk{otherText: true, toolInput: Yes}))
	causes := make([]string, 0, len(causeTexts))
	for cause, words := range causeTexts {
		causes = append(causes, "| `"+cause.String()+"` | "+words+" |")
	}
	slices.Sort(causes)
	for _, row := range causes {
		has(row)
	}
	for class, row := range table {
		for cause := range strings.FieldsSeq(row.causes) {
			c, ok := semconv.ParseCause(cause)
			require.True(t, ok)
			cl, ok := semconv.ParseClass(class)
			require.True(t, ok)
			first := failureText(&Diagnosis{Class: cl, Cause: c}, k)
			if at := strings.LastIndex(first, " ("); at > 0 {
				first = first[:at]
			}
			if cl == semconv.ClassWatchdogTimeout {
				first, _, _ = strings.Cut(first, ": ")
			}
			has(strings.ReplaceAll(first, "TOOL", "{tool}"))
		}
	}
	has(failureText(&Diagnosis{Class: semconv.ClassProviderError, Origin: semconv.OriginGateway}, k))
	has(failureText(&Diagnosis{Class: semconv.ClassUnclassified}, &risk{incomplete: true}))
	has(textRelayed)
	_, shutdown, _ := strings.Cut(failureText(&Diagnosis{Class: semconv.ClassStreamInterrupted, Cause: semconv.CauseShutdown}, k), "(")
	has(strings.TrimSuffix(shutdown, ")"))
	for _, phase := range semconv.PhaseValues() {
		if words := phaseText(&Diagnosis{Class: semconv.ClassStreamInterrupted, Phase: phase}, k); words != "" {
			has("| `" + phase.String() + "` | " + words + " |")
		}
	}
	for _, cause := range []semconv.Cause{semconv.CauseConnect, semconv.CauseFirstProgress, semconv.CauseIdle, semconv.CauseTotal} {
		with := watchdogText("", cause, 30*time.Second)
		has("| `" + cause.String() + "` | " + strings.TrimPrefix(strings.ReplaceAll(with, "30 seconds", "{limit}"), ": ") + " | " +
			strings.TrimPrefix(watchdogText("", cause, 0), ": ") + " |")
	}
	lost := &Diagnosis{Class: semconv.ClassToolOutputLost, Cause: semconv.CauseUnknown}
	for _, k := range []risk{{}, {ownFailure: true}, {unsent: true}} {
		k.failedTool = "TOOL"
		has(strings.ReplaceAll(failureText(lost, &k), "TOOL", "{tool}"))
	}
	for s := stateUnknown; s <= stateFailed; s++ {
		has(requestText(s))
	}
	for _, outcome := range withUnset(semconv.ToolOutcomeValues()) {
		has(strings.ReplaceAll(toolText(&Tool{Name: "TOOL", End: t0, Outcome: outcome}), "TOOL", "{tool}"))
	}
	has(strings.ReplaceAll(toolText(&Tool{Name: "TOOL"}), "TOOL", "{tool}"))
	for _, reason := range semconv.RetryReasonValues() {
		for _, safety := range semconv.RetrySafetyValues() {
			d := &Diagnosis{Retry: Retry{Safety: safety, Reason: reason}}
			has(strings.ReplaceAll(advice(d, k), "TOOL", "{tool}"))
		}
	}
}

// What is not the run's own failure, but a request's, is advised as such.
func TestAdviceForARequestOfTheRun(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/summaries.md")
	require.NoError(t, err)
	for reason, want := range map[semconv.RetryReason]string{
		semconv.RetryReasonUserAbort:     "One of its model calls was stopped on purpose: do not retry.",
		semconv.RetryReasonLocalShutdown: "One of its model calls was stopped on purpose: do not retry.",
		semconv.RetryReasonNotTransient:  "One of its model calls must not be repeated: do not retry.",
	} {
		k := &risk{class: semconv.ClassStreamInterrupted, basis: Typed, text: No, missingOutput: No, requests: Retry{Safety: NoRetry, Reason: reason}}
		d := &Diagnosis{Retry: k.requests}
		assert.Equal(t, want, advice(d, k))
		assert.Contains(t, string(page), want)
		k.class = semconv.ClassOutputLimited // not to be repeated by itself
		d.Cause = semconv.CausePaused
		assert.NotContains(t, advice(d, k), "One of its model calls")
	}
}

// TestSummaryKeys: which key a risk gives for each class.
func TestSummaryKeys(t *testing.T) {
	plain := risk{sent: Yes, text: No, missingOutput: No, toolInput: No, reasoning: No}
	shown := plain
	shown.text = Yes
	unknown := plain
	unknown.text = NotObserved
	unseen := plain
	unseen.partsMissing = true
	for _, tt := range []struct {
		class semconv.Class
		k     risk
		want  semconv.SummaryKey
	}{
		{semconv.ClassStreamInterrupted, plain, semconv.SummaryKeyNothingShown},
		{semconv.ClassProviderError, plain, semconv.SummaryKeyNothingShown},
		{semconv.ClassStreamInterrupted, unknown, semconv.SummaryKeyNothingToAdd},
		{semconv.ClassStreamInterrupted, unseen, semconv.SummaryKeyNothingToAdd},
		{semconv.ClassEmptyCompletion, plain, semconv.SummaryKeyNothingToAdd},
		{semconv.ClassOutputLimited, plain, semconv.SummaryKeyNothingToAdd},
		{semconv.ClassApplicationError, plain, semconv.SummaryKeyNothingToAdd},
		{semconv.ClassToolOutputLost, plain, semconv.SummaryKeyNothingToAdd},
		{semconv.ClassHistoryBroken, plain, semconv.SummaryKeyNothingToAdd},
		{semconv.ClassStreamInterrupted, shown, semconv.SummaryKeyTextShown},
		{semconv.ClassHistoryBroken, shown, semconv.SummaryKeyTextShown},
		{semconv.ClassOutputLimited, shown, semconv.SummaryKeyNothingToAdd},
	} {
		assert.Equal(t, tt.want, summaryKeyOf(&Diagnosis{Class: tt.class}, &tt.k), "%s: %+v", tt.class, tt.k)
	}
}

// TestSummaries is the table of complete summaries. Other tests check the summary by its
// key.
func TestSummaries(t *testing.T) {
	finish := func(f Finish) func(*Request) {
		return func(r *Request) {
			r.Ended, r.Phase, r.Finish = semconv.StreamEndTerminalEvent, semconv.PhaseStreamEnd, f
		}
	}
	shown := func(change func(*Request)) func(*Request) {
		return all(change, func(r *Request) { r.Text = Counted(1) })
	}
	half := all(reset(semconv.PhaseToolInput), func(r *Request) {
		r.ToolInputsStarted, r.OpenCallIDs = Counted(1), []string{"a"}
	})
	inBand := func(phase semconv.Phase) func(*Request) {
		return all(reset(phase), func(r *Request) {
			r.Ended, r.Transport = semconv.StreamEndTerminalEvent, Transport{}
			r.Provider = ProviderError{Kind: semconv.ProviderErrorKindOverloaded, InBand: true}
		})
	}
	watchdog := func(kind semconv.WatchdogKind, limit time.Duration, phase semconv.Phase) func(*Request) {
		return all(shown(reset(phase)), func(r *Request) {
			r.Ended, r.Transport = semconv.StreamEndWatchdog, Transport{}
			r.Watchdog = Watchdog{Kind: kind, Limit: limit}
		})
	}
	executed := func(effect semconv.ToolEffect, outcome semconv.ToolOutcome, change func(*Tool)) Run {
		f := tool(1, 2, "a", effect, outcome)
		if change != nil {
			change(&f)
		}
		return run(true, []Request{request(0, 1, calls("a"))}, f)
	}
	const unsafe, unknown, ok = semconv.ToolEffectNonIdempotent, semconv.ToolEffectUnknown, semconv.ToolOutcomeSucceeded
	abandoned := func(requests []Request, tools ...Tool) Run {
		return Run{Start: t0, Ended: No, Requests: requests, Tools: tools}
	}
	ofRun := func(v *Verdicts) *Diagnosis { return &v.Run }
	ofRequest := func(v *Verdicts) *Diagnosis { return &v.Requests[0] }
	ofTool := func(v *Verdicts) *Diagnosis { return &v.Tools[0] }
	for _, tt := range []struct {
		name string
		run  Run
		of   func(*Verdicts) *Diagnosis
		want string
	}{
		{
			"a reset while a tool call is written", run(true, []Request{request(0, 1, half)}), ofRun,
			"The connection to the model was lost (connection reset) while the assistant was still writing a tool call. The tool had not run. It is safe to retry automatically.",
		},
		{
			"the same, and the tool refuses its input", run(true, []Request{request(0, 3, half)}, tool(1, 2, "a", unsafe, semconv.ToolOutcomeInvalidInput)), ofRun,
			"The connection to the model was lost (connection reset) while the assistant was still writing a tool call. The tool was called but changed nothing. It is safe to retry automatically.",
		},
		{
			"the refusal itself", run(true, []Request{request(0, 3, half)}, tool(1, 2, "a", unsafe, semconv.ToolOutcomeInvalidInput)), ofTool,
			"The tool apply_patch failed (invalid input). It changed nothing. Making the same tool call again will not help.",
		},
		{
			"the same, and the call is rejected", run(true, []Request{request(0, 3, half)}, tool(1, 2, "a", unsafe, semconv.ToolOutcomeRejected)), ofRun,
			"The connection to the model was lost (connection reset) while the assistant was still writing a tool call. The tool had not run. It is safe to retry automatically.",
		},
		{
			"the rejection itself", run(true, []Request{request(0, 3, half)}, tool(1, 2, "a", unsafe, semconv.ToolOutcomeRejected)), ofTool,
			"The tool apply_patch failed (the call was rejected). It changed nothing. Making the same tool call again will not help.",
		},
		{
			"a clean end in text", lone(all(shown(reset(semconv.PhaseText)), func(r *Request) { r.Ended, r.Transport = semconv.StreamEndEOF, Transport{} })), ofRequest,
			"The model's answer stopped early: the stream closed without its final event while the assistant was still writing. Part of the answer had already been shown. Ask before retrying: the answer would be shown again from the start.",
		},
		{
			"closed before a response", lone(all(reset(semconv.PhaseAwaitingResponse), func(r *Request) { r.Transport.Cause = semconv.TransportCauseClosedBeforeHeaders })), ofRequest,
			"The connection to the model was lost (closed before any response) before the model began to respond. Nothing had been shown yet. It is safe to retry automatically.",
		},
		{
			"a reset before any output", lone(reset(semconv.PhaseResponseStarted)), ofRequest,
			"The connection to the model was lost (connection reset) just after the response began. Nothing had been shown yet. It is safe to retry automatically.",
		},
		{
			"a reset in text", lone(shown(reset(semconv.PhaseText))), ofRequest,
			"The connection to the model was lost (connection reset) while the assistant was still writing. Part of the answer had already been shown. Ask before retrying: the answer would be shown again from the start.",
		},
		{
			"a connection lost in reasoning", lone(all(reset(semconv.PhaseReasoning), func(r *Request) { r.Transport.Cause = semconv.TransportCauseConnectionLost })), ofRequest,
			"The connection to the model was lost while the assistant was still reasoning. Nothing had been shown yet. It is safe to retry automatically.",
		},
		{
			"connection refused", lone(cutAt(semconv.TransportCauseConnectRefused)), ofRequest,
			"The connection to the model could not be established (connection refused). Nothing had been sent. It is safe to retry automatically.",
		},
		{
			"an invalid URL", lone(cutAt(semconv.TransportCauseInvalidURL)), ofRequest,
			"The application made a request that cannot be sent (invalid URL). Nothing had been sent. Fix the request before trying again.",
		},
		{
			"an empty answer", lone(finish(FinishStop)), ofRequest,
			"The model's answer was complete but empty. It is safe to retry automatically.",
		},
		{
			"an empty answer behind a gateway", lone(all(finish(FinishStop), func(r *Request) { r.Upstream.Failed = Yes })), ofRequest,
			"The model's answer was empty because a gateway hid an error of its upstream. It is safe to retry automatically.",
		},
		{
			"an answer at its limit", lone(shown(finish(FinishMaxTokens))), ofRequest,
			"The model's answer was cut short (output token limit reached). Sending the same request again will not help.",
		},
		{
			"a paused answer", lone(shown(finish(FinishPaused))), ofRequest,
			"The model's answer was cut short (the model paused). Continue the answer instead of retrying.",
		},
		{
			"an error before any output", lone(refused(503, semconv.ProviderErrorKindOverloaded)), ofRequest,
			"The model provider reported an error (overloaded) before any output. Nothing had been shown yet. It is safe to retry automatically.",
		},
		{
			"an error instead of a response", lone(all(refused(503, semconv.ProviderErrorKindOverloaded), func(r *Request) { r.Phase = semconv.PhaseAwaitingResponse })), ofRequest,
			"The model provider reported an error (overloaded). Nothing had been shown yet. It is safe to retry automatically.",
		},
		{
			"an exhausted quota", lone(refused(429, semconv.ProviderErrorKindQuotaExhausted)), ofRequest,
			"The model provider reported an error (quota exhausted) before any output. Nothing had been shown yet. Retrying will not help until the quota is renewed.",
		},
		{
			"a request that the provider refuses", lone(refused(400, semconv.ProviderErrorKindContextLengthExceeded)), ofRequest,
			"The model provider reported an error (the input is too long for the model) before any output. Nothing had been shown yet. Sending the same request again will not help.",
		},
		{
			"a broken history", lone(all(refused(400, semconv.ProviderErrorKindInvalidRequest), func(r *Request) { r.HistoryCalls, r.HistoryOutputs = []string{"a", "b"}, []string{"a"} })), ofRequest,
			"The model provider refused the conversation history (a tool call has no output). It is not known whether a tool ran. Repair the history before trying again.",
		},
		{
			"a malformed event", lone(violation), ofRequest,
			"The model's response did not follow the protocol (an event could not be parsed) just after the response began. Nothing had been shown yet. It is safe to retry automatically.",
		},
		{
			"the connect watchdog", lone(all(watchdog(semconv.WatchdogKindConnect, 10*time.Second, semconv.PhaseBeforeConnection), func(r *Request) { r.Text = Counted(0) })), ofRequest,
			"A watchdog stopped the request: no connection within 10 seconds. Nothing had been shown yet. It is safe to retry automatically.",
		},
		{
			"the first-progress watchdog", lone(all(watchdog(semconv.WatchdogKindFirstProgress, 1500*time.Millisecond, semconv.PhaseAwaitingResponse), func(r *Request) { r.Text = Counted(0) })), ofRequest,
			"A watchdog stopped the request: no output within 1.5 seconds. Nothing had been shown yet. It is safe to retry automatically.",
		},
		{
			"the idle watchdog", lone(watchdog(semconv.WatchdogKindIdle, 5*time.Minute, semconv.PhaseText)), ofRequest,
			"A watchdog stopped the request: no progress for 5 minutes while the assistant was still writing. Part of the answer had already been shown. Ask before retrying: the answer would be shown again from the start.",
		},
		{
			"the idle watchdog of a run", lone(watchdog(semconv.WatchdogKindIdle, 5*time.Minute, semconv.PhaseText)), ofRun,
			"A watchdog stopped the request: no progress for 5 minutes while the assistant was still writing. Part of the answer had already been shown. Ask before retrying: the answer would be shown again from the start.",
		},
		{
			"an error before any output, after one in the text", run(true, []Request{request(0, 1, shown(inBand(semconv.PhaseText))), request(2, 3, inBand(semconv.PhaseResponseStarted))}), ofRun,
			"The model provider reported an error (overloaded) before any output. Another model call had already shown text. Ask before retrying: the answer would be shown again from the start.",
		},
		{
			"the attempt in the text", run(true, []Request{request(0, 1, shown(inBand(semconv.PhaseText))), request(2, 3, inBand(semconv.PhaseResponseStarted))}), ofRequest,
			"The model provider reported an error (overloaded) while the assistant was still writing. Part of the answer had already been shown. Ask before retrying: the answer would be shown again from the start.",
		},
		{
			"an error in the text, after one before any output", run(true, []Request{request(0, 1, inBand(semconv.PhaseResponseStarted)), request(2, 3, shown(inBand(semconv.PhaseText)))}), ofRun,
			"The model provider reported an error (overloaded) while the assistant was still writing. Part of the answer had already been shown. Ask before retrying: the answer would be shown again from the start.",
		},
		{
			"no connection, after a reset in the text", run(true, []Request{request(0, 1, shown(reset(semconv.PhaseText))), request(2, 3, cutAt(semconv.TransportCauseConnectRefused))}), ofRun,
			"The connection to the model could not be established (connection refused). Another model call had already shown text. Ask before retrying: the answer would be shown again from the start.",
		},
		{
			"a reset while a tool call is written, after one in the text", run(true, []Request{request(0, 1, shown(reset(semconv.PhaseText))), request(2, 3, half)}), ofRun,
			"The connection to the model was lost (connection reset) while the assistant was still writing a tool call. The tool had not run. Ask before retrying: another model call had already shown text.",
		},
		{
			"the idle watchdog with an unknown limit", lone(watchdog(semconv.WatchdogKindIdle, 0, semconv.PhaseText)), ofRequest,
			"A watchdog stopped the request: no progress for too long while the assistant was still writing. Part of the answer had already been shown. Ask before retrying: the answer would be shown again from the start.",
		},
		{
			"the total watchdog", lone(watchdog(semconv.WatchdogKindTotal, 90*time.Second, semconv.PhaseReasoning)), ofRequest,
			"A watchdog stopped the request: it took longer than 1 minute 30 seconds while the assistant was still reasoning. Part of the answer had already been shown. Ask before retrying: the answer would be shown again from the start.",
		},
		{
			"an unknown watchdog", lone(watchdog(semconv.WatchdogKindUnset, time.Minute, semconv.PhaseText)), ofRequest,
			"A watchdog stopped the request while the assistant was still writing. Part of the answer had already been shown. Ask before retrying: the answer would be shown again from the start.",
		},
		{
			"a person stops a request", lone(shown(aborted(semconv.AbortSourceUser))), ofRequest,
			"The request was cancelled on the client side (a person pressed stop) while the assistant was still writing. Part of the answer had already been shown. It was stopped on purpose: do not retry.",
		},
		{
			"a cancellation before the connection", lone(func(r *Request) {
				*r = Request{Start: r.Start, End: r.End, Basis: Typed, Ended: semconv.StreamEndCancelled, Phase: semconv.PhaseBeforeConnection}
				r.Abort.Source = semconv.AbortSourceUnknown
			}), ofRequest,
			"The request was cancelled on the client side (by the application, it did not say why) before a connection was established. Nothing had been sent. Do not retry unless asked to.",
		},
		{
			"a tool that is stopped", executed(unsafe, semconv.ToolOutcomeInterrupted, func(f *Tool) { f.Abort.Source = semconv.AbortSourceShutdown }), ofTool,
			"The tool apply_patch was cancelled on the client side (the process was shutting down). The tool apply_patch, which has side effects, had already run. It was stopped on purpose: do not retry.",
		},
		{
			"a tool that panics", executed(unsafe, semconv.ToolOutcomeFailed, func(f *Tool) { f.ErrorType = "panic" }), ofRun,
			"The tool apply_patch failed (it panicked). The tool apply_patch, which has side effects, had already run. Ask before retrying: apply_patch could run twice.",
		},
		{
			"a tool of unknown effect that fails", executed(unknown, semconv.ToolOutcomeFailed, nil), ofRun,
			"The tool apply_patch failed (it returned an error). The tool apply_patch had already run, and its effects are not known. Ask before retrying: apply_patch could run twice.",
		},
		{
			"a tool with a name that may not be shown", executed(unsafe, semconv.ToolOutcomeTimedOut, func(f *Tool) { f.Name = "my secret" }), ofRun,
			"A tool failed (it timed out). A tool with side effects had already run. Ask before retrying: a tool with side effects could run twice.",
		},
		{
			"a handoff that fails", executed(semconv.ToolEffectReadOnly, semconv.ToolOutcomeFailed, func(f *Tool) { f.Handoff = true }), ofRun,
			"The handoff to another agent failed (it returned an error). Only tools that are safe to repeat had run. It is safe to retry automatically.",
		},
		{
			"a tool on incomplete input", run(true, []Request{request(0, 3, half)}, func() Tool {
				f := tool(1, 2, "a", unsafe, semconv.ToolOutcomeFailed)
				f.FailedBeforeEffect = true
				return f
			}()), ofRun,
			"The tool apply_patch failed (it ran on an incomplete input). The tool was called but changed nothing. Making the same tool call again will not help.",
		},
		{
			"an output that is not delivered", executed(unsafe, ok, func(f *Tool) { f.Delivery, f.DeliveryError = semconv.OutputDeliveryFailed, "EPIPE" }), ofRun,
			"The output of the tool apply_patch never reached the model (sending it failed). The tool apply_patch, which has side effects, had already run. Ask before retrying: apply_patch could run twice.",
		},
		{
			"a reset after a tool with effects", run(true, []Request{request(0, 1, calls("a")), request(3, 4, all(reset(semconv.PhaseText), carries("a")))}, tool(1, 2, "a", unsafe, ok)), ofRun,
			"The connection to the model was lost (connection reset) while the assistant was still writing. The tool apply_patch, which has side effects, had already run. Ask before retrying: apply_patch could run twice.",
		},
		{
			"a failure of the agent itself", run(true, []Request{request(0, 1, answers)}), ofRun,
			"The agent reported a failure that none of its model calls or tools explains. Part of the answer had already been shown. Ask before retrying: the answer would be shown again from the start.",
		},
		{
			"a run without its end", abandoned([]Request{request(0, 1, calls("a"))}, tool(1, 2, "a", unsafe, ok)), ofRun,
			"The run never reported its end; its process probably crashed or was killed. Last seen: apply_patch succeeded. Ask before retrying: apply_patch could run twice.",
		},
		{
			"a run without its end or any part", abandoned(nil), ofRun,
			"The run never reported its end; its process probably crashed or was killed. Ask before retrying: the recorded facts do not prove that it is safe.",
		},
		{
			"a run without some of its parts",
			Run{Start: t0, End: at(9), Ended: Yes, AnnouncedRequests: Counted(2), Requests: []Request{request(0, 1, answers)}},
			ofRun,
			"The record of the run is incomplete: requests or tools that it announced never arrived. Ask before retrying: the answer would be shown again from the start.",
		},
		{
			"nothing known",
			Run{Start: t0, End: at(9), Ended: Yes},
			ofRun,
			"Nothing recorded shows how it ended. Ask before retrying: the recorded facts do not prove that it is safe.",
		},
		{
			"a failure of which nothing is known",
			Run{Start: t0, End: at(9), Ended: Yes, Failed: Yes, ErrorType: "ECONNRESET"},
			ofRun,
			"Something failed, but nothing recorded shows what. Ask before retrying: the recorded facts do not prove that it is safe.",
		},
	} {
		v := Judge(&tt.run)
		assert.Equal(t, tt.want, tt.of(&v).Summary, tt.name)
	}
}

// If the state is not about the text, the advice says that text was shown.
func TestAdviceAfterVisibleOutput(t *testing.T) {
	d := Diagnosis{Retry: Retry{Safety: UserConfirmedRetry, Reason: semconv.RetryReasonVisibleOutput}}
	again := advice(&d, &risk{text: Yes, toolInput: No})
	shown := advice(&d, &risk{text: Yes, toolInput: Yes})
	assert.NotEqual(t, again, shown)
	assert.Equal(t, shown, advice(&d, &risk{text: Yes, calls: callsNotExecuted, toolInput: No}))
}

func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Nanosecond:                     "1 millisecond",
		time.Millisecond:                    "1 millisecond",
		250 * time.Millisecond:              "250 milliseconds",
		time.Second:                         "1 second",
		1500 * time.Millisecond:             "1.5 seconds",
		2*time.Second + 40*time.Millisecond: "2 seconds",
		30 * time.Second:                    "30 seconds",
		time.Minute:                         "1 minute",
		90 * time.Second:                    "1 minute 30 seconds",
		5 * time.Minute:                     "5 minutes",
		59*time.Minute + 59*time.Second:     "59 minutes 59 seconds",
		time.Hour:                           "1 hour",
		2*time.Hour + 30*time.Minute:        "2 hours 30 minutes",
		25*time.Hour + 29*time.Second:       "25 hours",
	} {
		assert.Equal(t, want, durationText(d), d)
	}
}

// A summary of an abandoned run names the latest observation, and only names of tools that
// may be shown.
func TestLastSeen(t *testing.T) {
	const read = semconv.ToolEffectReadOnly
	named := func(from, to float64, name string, outcome semconv.ToolOutcome) Tool {
		f := tool(from, to, "a", read, outcome)
		f.Name = name
		if to == 0 {
			f.End = time.Time{}
		}
		return f
	}
	answered := request(0, 1, answers)
	for _, tt := range []struct {
		name     string
		requests []Request
		tools    []Tool
		want     string
	}{
		{"nothing", nil, nil, ""},
		{"an answer", []Request{answered}, nil, "a model call completed"},
		{"a failure", []Request{answered, request(1, 2, reset(semconv.PhaseText))}, nil, "a model call failed"},
		{"a cancellation", []Request{request(1, 2, aborted(semconv.AbortSourceApplication)), answered}, nil, "a model call ended on the client side"},
		{"a request of unknown outcome", []Request{{Start: at(0), End: at(1)}}, nil, "a model call"},
		{"an earlier tool", []Request{request(2, 3, answers)}, []Tool{named(0, 1, "list", semconv.ToolOutcomeSucceeded)}, "a model call completed"},
		{"a later tool", []Request{answered}, []Tool{named(1, 2, "list", semconv.ToolOutcomeSucceeded)}, "list succeeded"},
		{"two tools", []Request{answered}, []Tool{named(1, 3, "slow", semconv.ToolOutcomeTimedOut), named(1, 2, "list", semconv.ToolOutcomeSucceeded)}, "slow timed out"},
		{"an open tool", []Request{answered}, []Tool{named(2, 0, "list", semconv.ToolOutcomeUnset)}, "list started"},
		{"a tool that failed", nil, []Tool{named(1, 2, "list", semconv.ToolOutcomeFailed)}, "list failed"},
		{"a tool that was stopped", nil, []Tool{named(1, 2, "list", semconv.ToolOutcomeInterrupted)}, "list was interrupted"},
		{"a tool that was rejected", nil, []Tool{named(1, 2, "list", semconv.ToolOutcomeRejected)}, "list was rejected"},
		{"a tool that refused", nil, []Tool{named(1, 2, "list", semconv.ToolOutcomeInvalidInput)}, "list refused its input"},
		{"a tool of unknown outcome", nil, []Tool{named(1, 2, "list", semconv.ToolOutcomeUnset)}, "list ended"},
		{"a name that may not be shown", nil, []Tool{named(1, 2, "my secret", semconv.ToolOutcomeSucceeded)}, "a tool succeeded"},
	} {
		j := &judge{run: &Run{Start: t0, Ended: No, Requests: tt.requests, Tools: tt.tools}}
		j.prepare()
		assert.Equal(t, tt.want, j.lastSeen(), tt.name)
	}
}

// TestNamesThatAreShown: names of tools are shown up to a length.
func TestNamesThatAreShown(t *testing.T) {
	long := strings.Repeat("read_it_", maxToolName/8)
	assert.Equal(t, long, safeName(long))
	assert.Empty(t, safeName(long+"n"))
	assert.Empty(t, safeName("a name"))
	assert.Equal(t, "The tool "+long, toolNamed("A", long))
	assert.Equal(t, "A tool", toolNamed("A", long+"n"))
}

// An answer that did not stream may have a text and an error: the text is not said to be missing.
func TestSummaryOfATextWithAnError(t *testing.T) {
	r := Request{
		Start: t0, End: at(1), Ended: semconv.StreamEndTerminalEvent, Basis: Typed, Phase: semconv.PhaseResponseStarted, Status: 200,
		Provider: ProviderError{Kind: semconv.ProviderErrorKindServerError, InBand: true}, Text: Counted(1),
	}
	v := Judge(&Run{Requests: []Request{r}})
	assert.True(t, strings.HasPrefix(v.Requests[0].Summary, "The model provider reported an error (internal server error). "), v.Requests[0].Summary)
}
