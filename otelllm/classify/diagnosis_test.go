package classify

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

func TestDiagnosisString(t *testing.T) {
	overloaded := Judge(&Run{Requests: []Request{{
		Basis: Typed, Status: 503, Ended: semconv.StreamEndHTTPError, Failed: Yes, RetryAfter: 7 * time.Second,
		Phase: semconv.PhaseResponseStarted, ProviderTools: []string{}, HistoryCalls: []string{}, HistoryOutputs: []string{},
	}}}).Requests[0]
	for want, d := range map[string]Diagnosis{
		"nothing failed":        {},
		"succeeded":             {Outcome: semconv.RunOutcomeSucceeded},
		"recovered: 1 failure":  {Outcome: semconv.RunOutcomeRecovered, RecoveredFailures: 1},
		"recovered: 2 failures": {Outcome: semconv.RunOutcomeRecovered, RecoveredFailures: 2},
		"provider_error/overloaded in response_started by provider, safe_auto_retry (no_output) after 7s: " + overloaded.Summary: overloaded,
		"failed: tool_failed/panic in tool_execution by tool, user_confirmed_retry (tool_state_unknown): It failed.": {
			Outcome: semconv.RunOutcomeFailed, Class: semconv.ClassToolFailed, Cause: semconv.CausePanic, Phase: semconv.PhaseToolExecution, Origin: semconv.OriginTool,
			Retry: Retry{Safety: UserConfirmedRetry, Reason: semconv.RetryReasonToolStateUnknown}, Summary: "It failed.",
		},
	} {
		assert.Equal(t, want, d.String())
		assert.Equal(t, want, fmt.Sprint(d))
	}
}
