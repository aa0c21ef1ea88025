package classify

import (
	"os"
	"slices"
	"strings"
	"testing"

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
			has(strings.ReplaceAll(first, "TOOL", "{tool}"))
		}
	}
	for _, phase := range semconv.PhaseValues() {
		if words := phaseText(&Diagnosis{Class: semconv.ClassStreamInterrupted, Phase: phase}); words != "" {
			has("| `" + phase.String() + "` | " + words + " |")
		}
	}
	for _, reason := range semconv.RetryReasonValues() {
		for _, safety := range semconv.RetrySafetyValues() {
			d := &Diagnosis{Retry: Retry{Safety: safety, Reason: reason}}
			has(strings.ReplaceAll(advice(d, k), "TOOL", "{tool}"))
		}
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

// TestSummaries: what is said of failures that are close to one another.
func TestSummaries(t *testing.T) {
	finish := func(f Finish) func(*Request) {
		return func(r *Request) {
			r.Ended, r.Phase, r.Finish = semconv.StreamEndTerminalEvent, semconv.PhaseStreamEnd, f
		}
	}
	shown := func(change func(*Request)) func(*Request) {
		return all(change, func(r *Request) { r.Text = Counted(1) })
	}
	const ask = " Part of the answer had already been shown. Ask before retrying: "
	for _, tt := range []struct {
		name string
		run  Run
		want string
	}{
		{"nothing in it", lone(finish(FinishStop)), "The model call came back complete, but with nothing in it. It is safe to retry automatically."},
		{
			"nothing in it, behind a gateway", lone(all(finish(FinishStop), func(r *Request) { r.Upstream.Failed = Yes })),
			"The model call came back empty, because a gateway had swallowed an error of its upstream. It is safe to retry automatically.",
		},
		{
			"a URL", lone(cutAt(semconv.TransportCauseInvalidURL)),
			"The application made a request that cannot be sent (its URL is not valid). Nothing had been sent. Mend the request before trying again.",
		},
		{
			"an error before any output", lone(refused(503, semconv.ProviderErrorKindOverloaded)),
			"The model provider reported an error (it is overloaded) before any output. Nothing had been shown yet. It is safe to retry automatically.",
		},
		{
			"an error instead of a response", lone(all(refused(503, semconv.ProviderErrorKindOverloaded), func(r *Request) { r.Phase = semconv.PhaseAwaitingResponse })),
			"The model provider reported an error (it is overloaded). Nothing had been shown yet. It is safe to retry automatically.",
		},
		{
			"closed before a response", lone(all(reset(semconv.PhaseAwaitingResponse), func(r *Request) { r.Transport.Cause = semconv.TransportCauseClosedBeforeHeaders })),
			"The connection to the model was lost (closed before any response) while the model had not begun to respond. Nothing had been shown yet. It is safe to retry automatically.",
		},
		{
			"a reset before any output", lone(reset(semconv.PhaseResponseStarted)),
			"The connection to the model was lost (connection reset) just after the response had begun. Nothing had been shown yet. It is safe to retry automatically.",
		},
		{
			"a reset within text", lone(shown(reset(semconv.PhaseText))),
			"The connection to the model was lost (connection reset) while the assistant was writing its answer." + ask + "it would be shown again from the start.",
		},
	} {
		assert.Equal(t, tt.want, Judge(&tt.run).Requests[0].Summary, tt.name)
	}

	// Where the words are not about the text, those on a retry say that it was shown.
	const unseen = "Ask before retrying: part of the answer had already been shown."
	k := risk{text: Yes, toolInput: Yes}
	d := Diagnosis{Retry: Retry{Safety: UserConfirmedRetry, Reason: semconv.RetryReasonVisibleOutput}}
	assert.Equal(t, unseen, advice(&d, &k))
	k = risk{text: Yes, calls: callsNotExecuted, toolInput: No}
	assert.Equal(t, unseen, advice(&d, &k))

	own := run(true, []Request{request(0, 1, answers)})
	assert.Contains(t, Judge(&own).Run.Summary, "The agent reported a failure, and none of its model calls or tools explains it.")
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
