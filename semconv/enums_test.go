package semconv_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// enum is one typed enum without its type, so that all fit into one table.
type enum struct {
	values  []string           // String of each value
	numbers []int              // the values
	text    func(v int) string // String of any value of the type
	parse   func(s string) (int, bool)
}

func enumOf[E interface {
	~uint8
	String() string
}](values []E, parse func(string) (E, bool)) enum {
	e := enum{
		text: func(v int) string { return E(v).String() },
		parse: func(s string) (int, bool) {
			v, ok := parse(s)
			return int(v), ok
		},
	}
	for _, v := range values {
		e.values = append(e.values, v.String())
		e.numbers = append(e.numbers, int(v))
	}
	return e
}

var enums = map[string]enum{
	"AbortSource":          enumOf(semconv.AbortSourceValues(), semconv.ParseAbortSource),
	"Cause":                enumOf(semconv.CauseValues(), semconv.ParseCause),
	"Class":                enumOf(semconv.ClassValues(), semconv.ParseClass),
	"Confidence":           enumOf(semconv.ConfidenceValues(), semconv.ParseConfidence),
	"Origin":               enumOf(semconv.OriginValues(), semconv.ParseOrigin),
	"OutputDelivery":       enumOf(semconv.OutputDeliveryValues(), semconv.ParseOutputDelivery),
	"Phase":                enumOf(semconv.PhaseValues(), semconv.ParsePhase),
	"ProviderErrorHistory": enumOf(semconv.ProviderErrorHistoryValues(), semconv.ParseProviderErrorHistory),
	"ProviderErrorKind":    enumOf(semconv.ProviderErrorKindValues(), semconv.ParseProviderErrorKind),
	"ResumeSend":           enumOf(semconv.ResumeSendValues(), semconv.ParseResumeSend),
	"RetryDecision":        enumOf(semconv.RetryDecisionValues(), semconv.ParseRetryDecision),
	"RetryReason":          enumOf(semconv.RetryReasonValues(), semconv.ParseRetryReason),
	"RetrySafety":          enumOf(semconv.RetrySafetyValues(), semconv.ParseRetrySafety),
	"RunOutcome":           enumOf(semconv.RunOutcomeValues(), semconv.ParseRunOutcome),
	"StreamEnd":            enumOf(semconv.StreamEndValues(), semconv.ParseStreamEnd),
	"SummaryKey":           enumOf(semconv.SummaryKeyValues(), semconv.ParseSummaryKey),
	"RunEnd":               enumOf(semconv.RunEndValues(), semconv.ParseRunEnd),
	"RunPrevious":          enumOf(semconv.RunPreviousValues(), semconv.ParseRunPrevious),
	"ToolEffect":           enumOf(semconv.ToolEffectValues(), semconv.ParseToolEffect),
	"ToolObserved":         enumOf(semconv.ToolObservedValues(), semconv.ParseToolObserved),
	"ToolOutcome":          enumOf(semconv.ToolOutcomeValues(), semconv.ParseToolOutcome),
	"TransportCause":       enumOf(semconv.TransportCauseValues(), semconv.ParseTransportCause),
	"TransportStage":       enumOf(semconv.TransportStageValues(), semconv.ParseTransportStage),
	"Trigger":              enumOf(semconv.TriggerValues(), semconv.ParseTrigger),
	"WatchdogKind":         enumOf(semconv.WatchdogKindValues(), semconv.ParseWatchdogKind),
}

func TestEveryEnumIsTested(t *testing.T) {
	source, err := os.ReadFile("enums_generated.go")
	require.NoError(t, err)
	types := regexp.MustCompile(`(?m)^type (\w+) uint8$`).FindAllStringSubmatch(string(source), -1)
	require.Len(t, types, len(enums))
	for _, m := range types {
		assert.Contains(t, enums, m[1])
	}
}

func TestEnums(t *testing.T) {
	for name, e := range enums {
		t.Run(name, func(t *testing.T) {
			require.NotEmpty(t, e.values)
			seen := map[string]bool{}
			for i, value := range e.values {
				assert.Equal(t, i+1, e.numbers[i], "%s is not in order, or the zero value is not unset", value)
				assert.Regexp(t, `^[a-z][a-z0-9]*(_[a-z0-9]+)*$`, value)
				assert.False(t, seen[value], "%s is there twice", value)
				seen[value] = true
				parsed, ok := e.parse(value)
				assert.True(t, ok, value)
				assert.Equal(t, e.numbers[i], parsed, value)
			}
			for v := range 256 {
				assert.Equal(t, v > 0 && v <= len(e.values), e.text(v) != "", "value %d is %q", v, e.text(v))
			}
			for _, s := range []string{"", " ", "unset", "Unset", "no such value", e.values[0] + " ", e.values[0] + "x", e.values[0][1:], "_" + e.values[0]} {
				parsed, ok := e.parse(s)
				assert.False(t, ok, "%q", s)
				assert.Zero(t, parsed, "%q", s)
			}
		})
	}
}

func TestEnumsDoNotAllocate(t *testing.T) {
	cause := semconv.CauseUnknown
	var text string
	assert.Zero(t, testing.AllocsPerRun(100, func() { text = cause.String() }), "String")
	assert.Zero(t, testing.AllocsPerRun(100, func() { cause, _ = semconv.ParseCause(text) }), "Parse")
	assert.Equal(t, semconv.CauseUnknown, cause)

	unknown := string([]byte("no such cause"))
	assert.Zero(t, testing.AllocsPerRun(100, func() { cause, _ = semconv.ParseCause(unknown) }), "Parse of an unknown value")
	assert.Equal(t, semconv.CauseUnset, cause)

	// All String methods and Parse functions have the same form; the largest represents
	// them.
	for name, e := range enums {
		assert.Zero(t, testing.AllocsPerRun(10, func() {
			for _, v := range e.numbers {
				_, _ = e.parse(e.text(v))
			}
		}), name)
	}
}

// If a fact names a cause, there is a cause with the same name, so that the one converts
// to the other.
func TestFactsHaveTheirCause(t *testing.T) {
	for _, c := range semconv.TransportCauseValues() {
		if c == semconv.TransportCauseCancelled {
			continue // an action of this side: its cause is that of the abort
		}
		_, ok := semconv.ParseCause(c.String())
		assert.True(t, ok, "transport cause %s", c)
	}
	for _, k := range semconv.ProviderErrorKindValues() {
		_, ok := semconv.ParseCause(k.String())
		assert.True(t, ok, "provider error kind %s", k)
	}
	for _, k := range semconv.WatchdogKindValues() {
		_, ok := semconv.ParseCause(k.String())
		assert.True(t, ok, "watchdog kind %s", k)
	}
	for _, s := range semconv.AbortSourceValues() {
		name := s.String()
		switch s {
		case semconv.AbortSourceConsumer:
			name = "consumer_closed"
		case semconv.AbortSourceWatchdog:
			continue // its kind is the cause
		}
		_, ok := semconv.ParseCause(name)
		assert.True(t, ok, "abort source %s", s)
	}
}

// The order of these values is part of their meaning.
func TestOrders(t *testing.T) {
	assert.Less(t, semconv.RetrySafetySafeAutoRetry, semconv.RetrySafetyUserConfirmedRetry)
	assert.Less(t, semconv.RetrySafetyUserConfirmedRetry, semconv.RetrySafetyNoRetry)
	assert.Less(t, semconv.PhaseBeforeConnection, semconv.PhaseAwaitingResponse)
	assert.Less(t, semconv.PhaseToolCallReady, semconv.PhaseToolExecution)
	assert.Less(t, semconv.PhaseToolOutputDelivery, semconv.PhaseStreamEnd)
	assert.Equal(t, semconv.RetryReasonUserAbort, semconv.RetryReasonValues()[0])
	assert.Less(t, semconv.RetryReasonEvidenceIncomplete, semconv.RetryReasonNothingLeftClient, "guards speak before what was seen")
}

// Values returns a slice that the caller may modify.
func TestValuesAreTheCallersOwn(t *testing.T) {
	semconv.PhaseValues()[0] = semconv.PhaseUnknown
	assert.Equal(t, semconv.PhaseBeforeConnection, semconv.PhaseValues()[0])
}

func FuzzParse(f *testing.F) {
	for _, e := range enums {
		for _, v := range e.values {
			f.Add(v)
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, e := range enums {
			if v, ok := e.parse(s); ok != (v != 0) || ok && e.text(v) != s {
				t.Errorf("%s: %q parses to %d, %v", name, s, v, ok)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := semconv.ParseCause("h2_stream_reset"); !ok {
			b.Fatal("not found")
		}
	}
}
