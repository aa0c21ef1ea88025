package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/internal/acceptance"
)

// A process that is killed never ends its run. After run_timeout the Collector says so,
// once, on a span that it creates. The spans that had ended stay as they were.
func TestAKilledProcess(t *testing.T) {
	p := startFor(t, maxHold)
	cases := acceptance.Killed()
	results := runAll(t, p, cases)
	sent := byTrace(p.ended.Ended())
	for i := range cases {
		c := &cases[i]
		t.Run(c.Label(), func(t *testing.T) {
			id := traceID(&results[i])
			runs := p.sink.runs(id)
			for _, difference := range c.Diff(runs) {
				t.Error(difference)
			}
			require.Len(t, runs, 1)
			assert.Equal(t, semconv.SpanRunAbandoned, runs[0].Name)
			assert.Equal(t, semconv.TriggerRunExpired, runs[0].Verdict.Trigger)
			assert.Zero(t, runs[0].End.Sub(runs[0].Start))
			exported := p.sink.trace(id)
			for j, s := range exported {
				if s.ID == runs[0].ID {
					exported = append(exported[:j:j], exported[j+1:]...)
					break
				}
			}
			wholeTrace(t, sent[results[i].TraceID], exported)
		})
	}
}
