package verdicts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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

// A run of more than an hour asks although it announces its parts, and one that is only longer than run_timeout does not:
// what was within it is kept for an hour.
func TestCountedRunOfMoreThanAnHourAsks(t *testing.T) {
	for minutes, want := range map[float64]semconv.RetrySafety{59: harness.Safe, 61: harness.Confirm} {
		cfg := harness.DefaultConfig()
		cfg.RunTimeout = cfg.MaxHold
		h := harness.New(t, cfg, nil)
		h.Clock.Advance(2 * time.Hour)
		end := h.Clock.Now().Sub(harness.T0).Seconds()
		h.Consume(t, harness.UncountedRun(end-10, end)[1], harness.RunSpan(1, end-60*minutes, end, 1, 0).Failed("429"))
		h.Pass(t, harness.MaxHold)
		assert.Equal(t, want, harness.Verdicts(h.Out())[1].Safety, "%v minutes", minutes)
	}
}
