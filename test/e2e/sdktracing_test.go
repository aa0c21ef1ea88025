package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel"

	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/acceptance"
)

// anthropic-sdk-go traces its calls if there is a global TracerProvider. Its span is
// the logical call above ours, not an additional request.
func TestTheSDKsOwnSpansChangeNoVerdict(t *testing.T) {
	p := start(t)
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(p.provider)
	defer otel.SetTracerProvider(before)

	var cases []acceptance.Case
	for _, c := range acceptance.Cases() {
		if c.Wire == faultyllm.Anthropic {
			cases = append(cases, c)
		}
	}
	results := runAll(t, p, cases)
	for i := range cases {
		c := &cases[i]
		t.Run(c.Label(), func(t *testing.T) {
			for _, difference := range c.Diff(p.sink.runs(traceID(&results[i]))) {
				t.Error(difference)
			}
			var theirs bool
			for _, s := range p.sink.trace(traceID(&results[i])) {
				theirs = theirs || s.Scope == "com.anthropic.sdk.go"
			}
			if c.Number == 23 {
				assert.False(t, theirs, "the SDK now ends the span of a dropped stream: assert it like the others")
				return
			}
			assert.True(t, theirs, "the SDK has to trace for this test to prove anything")
		})
	}
}
