package verdicts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// A run covers a logical call that failed although its last attempt did not. It does not
// cover such a call of a gateway.
func TestRunCoversLogicalCall(t *testing.T) {
	refused := func(id byte) harness.Span {
		return harness.ChatSpan(id, 1, 0.1, 1).Failed("AuthenticationError").With(otelsemconv.HTTPResponseStatusCode(401))
	}
	gateways := refused(2).Under(5).In(harness.GatewayService)
	gateways.Kind, gateways.From, gateways.To = ptrace.SpanKindServer, 2.1, 2.9
	for name, tt := range map[string]struct {
		spans []harness.Span
		want  semconv.RetrySafety
	}{
		"of the run":   {[]harness.Span{refused(2), harness.RequestSpan(3, 1, 0.2, 0.9).Answered("stop", harness.Answer).Under(2)}, semconv.RetrySafetyNoRetry},
		"of a gateway": {[]harness.Span{gateways, harness.RequestSpan(3, 0, 2.2, 2.8).Answered("stop", harness.Answer).Under(2).In(harness.GatewayService), harness.RequestSpan(4, 1, 0.1, 1).Answered("tool_calls", asksForTools)}, semconv.RetrySafetySafeAutoRetry},
	} {
		t.Run(name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			cut := harness.RequestSpan(5, 1, 2, 3).Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{})
			h.Consume(t, append(tt.spans, cut, harness.RunSpan(1, 0, 4, 2, 0).Failed("error"))...)
			h.Pass(t, harness.Settle)
			out := harness.SpansOf(h.Out())
			run, call := harness.VerdictOf(out[harness.SpanID(1)]), harness.VerdictOf(out[harness.SpanID(2)])
			assert.Equal(t, semconv.RunOutcomeFailed, run.Outcome)
			assert.Equal(t, semconv.CauseConnectionReset, run.Cause)
			assert.Equal(t, tt.want, run.Safety)
			assert.Equal(t, semconv.CauseAuthentication, call.Cause)
			assert.Equal(t, semconv.RetrySafetyNoRetry, call.Safety)
			assert.Equal(t, semconv.RetrySafetySafeAutoRetry, harness.VerdictOf(out[harness.SpanID(5)]).Safety)
		})
	}
}

// A logical call did what all of its attempts did. It is not safe to repeat if one of them
// showed text, although the last one failed before any output.
func TestLogicalCallShowedText(t *testing.T) {
	for name, tt := range map[string]struct {
		parent byte
		rest   []harness.Span
	}{
		"of a run":        {1, []harness.Span{harness.RunSpan(1, 0, 4, 1, 0).Failed("error")}},
		"of another run":  {1, []harness.Span{harness.AgentSpan(1, 0, 0, 4)}},
		"beneath a span":  {9, []harness.Span{harness.OtherSpan(9, 0, 0, 4)}},
		"without a root":  {9, nil},
		"without parents": {0, nil},
		"with a second":   {9, []harness.Span{harness.ChatSpan(6, 9, 3.2, 3.5).Finished("stop"), harness.OtherSpan(9, 0, 0, 4)}},
	} {
		t.Run(name, func(t *testing.T) {
			for how, first := range map[string]harness.Span{
				"cut":      attempt(3, 0.2, 0.9).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 3}),
				"complete": attempt(3, 0.2, 0.9).Answered("stop", harness.Answer),
			} {
				again := attempt(4, 1, 1.5).Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{})
				call := harness.ChatSpan(2, tt.parent, 0.1, 1.6).Failed("ECONNRESET")
				h := harness.New(t, harness.DefaultConfig(), nil)
				h.Consume(t, append([]harness.Span{first, again, call}, tt.rest...)...)
				h.Pass(t, harness.MaxHold)
				h.Pass(t, 2*harness.RunTimeout)
				out := harness.SpansOf(h.Out())
				assert.Equal(t, semconv.RetrySafetyUserConfirmedRetry, harness.VerdictOf(out[harness.SpanID(2)]).Safety, how)
				assert.Equal(t, semconv.CauseConnectionReset, harness.VerdictOf(out[harness.SpanID(2)]).Cause, how)
				summary, _ := out[harness.SpanID(2)].Attributes().Get(string(semconv.FailureSummaryKey))
				assert.NotContains(t, summary.Str(), "safe to retry", how)
			}
		})
	}
}

// An attempt that handed over a call set a tool off, unless the run shows that none ran. So the
// logical call is not safe to repeat, although its last attempt failed before any output.
func TestLogicalCallHandedOverACall(t *testing.T) {
	for name, tt := range map[string]struct {
		parent byte
		rest   []harness.Span
		want   semconv.RetrySafety
	}{
		"of a run without tools":            {1, []harness.Span{harness.RunSpan(1, 0, 4, 2, 0).Failed("error")}, semconv.RetrySafetySafeAutoRetry},
		"of a run that records no tools":    {1, []harness.Span{harness.AgentSpan(1, 0, 0, 4)}, semconv.RetrySafetyUserConfirmedRetry},
		"of a run that recorded its tool":   {1, []harness.Span{harness.RunSpan(1, 0, 4, 2, 1).Failed("error"), harness.CallSpan(7, 1, 0.95, 0.97, "call_1")}, semconv.RetrySafetyUserConfirmedRetry},
		"of a run that lacks a tool's span": {1, []harness.Span{harness.RunSpan(1, 0, 4, 2, 1).Failed("error")}, semconv.RetrySafetyUserConfirmedRetry},
		"beneath a span":                    {9, []harness.Span{harness.OtherSpan(9, 0, 0, 4)}, semconv.RetrySafetyUserConfirmedRetry},
		"without parents":                   {0, nil, semconv.RetrySafetyUserConfirmedRetry},
	} {
		t.Run(name, func(t *testing.T) {
			for how, first := range map[string]harness.Span{
				"cut":      attempt(3, 0.2, 0.9).Cut(semconv.PhaseToolCallReady, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Inputs: 1, Calls: 1}),
				"complete": attempt(3, 0.2, 0.9).Answered("tool_calls", asksForTools),
			} {
				again := attempt(4, 1, 1.5).Cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{})
				call := harness.ChatSpan(2, tt.parent, 0.1, 1.6).Failed("ECONNRESET")
				h := harness.New(t, harness.DefaultConfig(), nil)
				h.Consume(t, append([]harness.Span{first, again, call}, tt.rest...)...)
				h.Pass(t, harness.MaxHold)
				h.Pass(t, 2*harness.RunTimeout)
				assert.Equal(t, tt.want, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(2)]).Safety, how)
			}
		})
	}
}
