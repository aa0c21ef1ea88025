package llmclassify

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// A run covers a logical call that failed although its last attempt did not. It does not
// cover such a call of a gateway.
func TestRunCoversLogicalCall(t *testing.T) {
	refused := func(id byte) spanSpec {
		return chatSpan(id, 1, 0.1, 1).failed("AuthenticationError").with(otelsemconv.HTTPResponseStatusCode(401))
	}
	gateways := refused(2).under(5).in(gatewayService)
	gateways.kind, gateways.from, gateways.to = ptrace.SpanKindServer, 2.1, 2.9
	for name, tt := range map[string]struct {
		spans []spanSpec
		want  semconv.RetrySafety
	}{
		"of the run":   {[]spanSpec{refused(2), requestSpan(3, 1, 0.2, 0.9).answered("stop", answer).under(2)}, semconv.RetrySafetyNoRetry},
		"of a gateway": {[]spanSpec{gateways, requestSpan(3, 0, 2.2, 2.8).answered("stop", answer).under(2).in(gatewayService), requestSpan(4, 1, 0.1, 1).answered("tool_calls", asksForTools)}, semconv.RetrySafetySafeAutoRetry},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, defaultConfig(), nil)
			cut := requestSpan(5, 1, 2, 3).cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{})
			h.consume(t, append(tt.spans, cut, runSpan(1, 0, 4, 2, 0).failed("error"))...)
			h.pass(t, xSettle)
			out := spansOf(h.out())
			run, call := verdictOf(out[spanID(1)]), verdictOf(out[spanID(2)])
			assert.Equal(t, semconv.RunOutcomeFailed, run.outcome)
			assert.Equal(t, semconv.CauseConnectionReset, run.cause)
			assert.Equal(t, tt.want, run.safety)
			assert.Equal(t, semconv.CauseAuthentication, call.cause)
			assert.Equal(t, semconv.RetrySafetyNoRetry, call.safety)
			assert.Equal(t, semconv.RetrySafetySafeAutoRetry, verdictOf(out[spanID(5)]).safety)
		})
	}
}

// A logical call did what all of its attempts did. It is not safe to repeat if one of them
// showed text, although the last one failed before any output.
func TestLogicalCallShowedText(t *testing.T) {
	for name, tt := range map[string]struct {
		parent byte
		rest   []spanSpec
	}{
		"of a run":        {1, []spanSpec{runSpan(1, 0, 4, 1, 0).failed("error")}},
		"of another run":  {1, []spanSpec{agentSpan(1, 0, 0, 4)}},
		"beneath a span":  {9, []spanSpec{otherSpan(9, 0, 0, 4)}},
		"without a root":  {9, nil},
		"without parents": {0, nil},
		"with a second":   {9, []spanSpec{chatSpan(6, 9, 3.2, 3.5).finished("stop"), otherSpan(9, 0, 0, 4)}},
	} {
		t.Run(name, func(t *testing.T) {
			for how, first := range map[string]spanSpec{
				"cut":      attempt(3, 0.2, 0.9).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 3}),
				"complete": attempt(3, 0.2, 0.9).answered("stop", answer),
			} {
				again := attempt(4, 1, 1.5).cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{})
				call := chatSpan(2, tt.parent, 0.1, 1.6).failed("ECONNRESET")
				h := newHarness(t, defaultConfig(), nil)
				h.consume(t, append([]spanSpec{first, again, call}, tt.rest...)...)
				h.pass(t, xMaxHold)
				h.pass(t, 2*xRunTimeout)
				out := spansOf(h.out())
				assert.Equal(t, semconv.RetrySafetyUserConfirmedRetry, verdictOf(out[spanID(2)]).safety, how)
				assert.Equal(t, semconv.CauseConnectionReset, verdictOf(out[spanID(2)]).cause, how)
				summary, _ := out[spanID(2)].Attributes().Get(string(semconv.FailureSummaryKey))
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
		rest   []spanSpec
		want   semconv.RetrySafety
	}{
		"of a run without tools":            {1, []spanSpec{runSpan(1, 0, 4, 2, 0).failed("error")}, semconv.RetrySafetySafeAutoRetry},
		"of a run that records no tools":    {1, []spanSpec{agentSpan(1, 0, 0, 4)}, semconv.RetrySafetyUserConfirmedRetry},
		"of a run that recorded its tool":   {1, []spanSpec{runSpan(1, 0, 4, 2, 1).failed("error"), callSpan(7, 1, 0.95, 0.97, "call_1")}, semconv.RetrySafetyUserConfirmedRetry},
		"of a run that lacks a tool's span": {1, []spanSpec{runSpan(1, 0, 4, 2, 1).failed("error")}, semconv.RetrySafetyUserConfirmedRetry},
		"beneath a span":                    {9, []spanSpec{otherSpan(9, 0, 0, 4)}, semconv.RetrySafetyUserConfirmedRetry},
		"without parents":                   {0, nil, semconv.RetrySafetyUserConfirmedRetry},
	} {
		t.Run(name, func(t *testing.T) {
			for how, first := range map[string]spanSpec{
				"cut":      attempt(3, 0.2, 0.9).cut(semconv.PhaseToolCallReady, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{inputs: 1, calls: 1}),
				"complete": attempt(3, 0.2, 0.9).answered("tool_calls", asksForTools),
			} {
				again := attempt(4, 1, 1.5).cut(semconv.PhaseResponseStarted, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{})
				call := chatSpan(2, tt.parent, 0.1, 1.6).failed("ECONNRESET")
				h := newHarness(t, defaultConfig(), nil)
				h.consume(t, append([]spanSpec{first, again, call}, tt.rest...)...)
				h.pass(t, xMaxHold)
				h.pass(t, 2*xRunTimeout)
				assert.Equal(t, tt.want, verdictOf(spansOf(h.out())[spanID(2)]).safety, how)
			}
		})
	}
}
