package verdicts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/internal/race"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

func shownWithin() []harness.Span {
	return []harness.Span{
		harness.RequestSpan(11, 10, 2.1, 2.5).Cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", harness.Counts{Text: 2}).In("inner"),
		harness.RunSpan(10, 2, 3, 1, 0).Under(1).In("inner"),
	}
}

func passHours(t *testing.T, h *harness.Harness, hours int) {
	for range hours {
		h.Pass(t, time.Hour)
		h.Lane().Rotate(h.Clock.Now())
	}
}

// The span of a run comes hours after its end, in which the run within it was forgotten: also where the
// run began just before the process did.
func TestRunAcrossTheStartComesLate(t *testing.T) {
	for name, counted := range map[string]bool{"counted": true, "uncounted": false} {
		for start, began := range map[string]time.Duration{"began after the start": -time.Hour, "began before the start": 1500 * time.Millisecond} {
			h := harness.New(t, harness.DefaultConfig(), nil)
			h.Clock.Advance(1500 * time.Millisecond)
			h.Lifetime.Begin(harness.T0.Add(began))
			h.Pass(t, 2*time.Second)
			h.Consume(t, shownWithin()...)
			passHours(t, h, 3)
			run := harness.UncountedRun(1, 60)
			if counted {
				run[0] = harness.RunSpan(1, 1, 60, 1, 0).Failed("429")
			}
			h.Consume(t, run...)
			h.Pass(t, harness.MaxHold)
			assert.Equal(t, harness.Confirm, harness.Verdicts(h.Out())[1].Safety, "%s, %s", name, start)
		}
	}
}

// A run a second beneath a server's span for a day fills no memory of what was forgotten for its age,
// as these runs are within none: a run of an hour that announces its numbers lacks nothing.
func TestLongRunOfABusySite(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	n := 0
	perMinute := 60 / race.Every(20) // one run a second
	for range 24 * 60 {
		for range perMinute {
			n++
			f := harness.NewForest(t)
			span := f.Add(harness.RunSpan(10, 0, 0, 0, 0), harness.SpanID(10), harness.SpanID(98), h.Clock.Now().Sub(harness.T0).Seconds()-1, h.Clock.Now().Sub(harness.T0).Seconds())
			span.SetTraceID(pcommon.TraceID{0xab, byte(n >> 16), byte(n >> 8), byte(n), 1})
			root := f.Add(harness.OtherSpan(98, 0, 0, 0), harness.SpanID(98), pcommon.SpanID{}, h.Clock.Now().Sub(harness.T0).Seconds()-1, h.Clock.Now().Sub(harness.T0).Seconds())
			root.SetTraceID(span.TraceID())
			require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		}
		h.Pass(t, time.Minute)
		h.Lane().Rotate(h.Clock.Now())
		h.Sink.Reset()
	}
	end := h.Clock.Now().Sub(harness.T0).Seconds()
	h.Consume(t, harness.UncountedRun(end-10, end)[1], harness.RunSpan(1, end-3700, end, 1, 0).Failed("429"))
	h.Pass(t, harness.MaxHold)
	v := harness.Verdicts(h.Out())[1]
	assert.Equal(t, harness.Safe, v.Safety, "%v", v)
}
