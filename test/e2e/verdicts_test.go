package e2e

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/internal/acceptance"
)

// The Collector's verdict replaces the client's own verdict completely, on every span.
func TestTheClientsVerdictsGiveWay(t *testing.T) {
	p := start(t)
	var cases []acceptance.Case
	for _, c := range acceptance.Cases() {
		if c.Number == 24 || c.Number == 23 { // the long one, and one in which the SDKs do not end their spans
			continue
		}
		prepare := c.Prepare
		c.Prepare = func(w *acceptance.World, s *acceptance.Setup) {
			if prepare != nil {
				prepare(w, s)
			}
			s.Options = append(s.Options, otelllm.WithVerdicts())
			s.Agent.Options = append(s.Agent.Options, otelllm.WithVerdicts())
		}
		cases = append(cases, c)
	}
	results := runAll(t, p, cases)
	judged := semconv.ClassificationTriggerKey.String(semconv.TriggerClient.String())
	sent := byTrace(p.ended.Ended())
	for i := range cases {
		c := &cases[i]
		t.Run(c.Label(), func(t *testing.T) {
			id := traceID(&results[i])
			for _, difference := range c.Diff(p.sink.runs(id)) {
				t.Error(difference)
			}
			assert.True(t, slices.ContainsFunc(sent[results[i].TraceID], func(s sdktrace.ReadOnlySpan) bool {
				return slices.Contains(s.Attributes(), judged)
			}), "the client has to judge for this test to prove anything")
			for _, s := range p.sink.trace(id) {
				assert.NotEqual(t, semconv.TriggerClient, s.Verdict.Trigger, s.Name)
			}
		})
	}
}
