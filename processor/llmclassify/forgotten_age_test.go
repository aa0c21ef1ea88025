package llmclassify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

func shownWithin() []spanSpec {
	return []spanSpec{
		requestSpan(11, 10, 2.1, 2.5).cut(semconv.PhaseText, semconv.TransportCauseConnectionReset, "ECONNRESET", counts{text: 2}).in("inner"),
		runSpan(10, 2, 3, 1, 0).under(1).in("inner"),
	}
}

func passHours(t *testing.T, h *harness, hours int) {
	for range hours {
		h.pass(t, time.Hour)
		h.lane().Rotate(h.clock.Now())
	}
}

// The span of a run comes hours after its end, in which the run within it was forgotten: also where the
// run began just before the process did.
func TestRunAcrossTheStartComesLate(t *testing.T) {
	for name, counted := range map[string]bool{"counted": true, "uncounted": false} {
		for start, began := range map[string]time.Duration{"began after the start": -time.Hour, "began before the start": 1500 * time.Millisecond} {
			h := newHarness(t, defaultConfig(), nil)
			h.clock.advance(1500 * time.Millisecond)
			h.Lifetime.Begin(t0.Add(began))
			h.pass(t, 2*time.Second)
			h.consume(t, shownWithin()...)
			passHours(t, h, 3)
			run := uncountedRun(1, 60)
			if counted {
				run[0] = runSpan(1, 1, 60, 1, 0).failed("429")
			}
			h.consume(t, run...)
			h.pass(t, defaultMaxHold)
			assert.Equal(t, confirm, verdicts(h.out())[1].safety, "%s, %s", name, start)
		}
	}
}

// A run of more than an hour asks although it announces its parts, and one that is only longer than run_timeout does not:
// what was within it is kept for an hour.
func TestCountedRunOfMoreThanAnHourAsks(t *testing.T) {
	for minutes, want := range map[float64]semconv.RetrySafety{59: safe, 61: confirm} {
		cfg := defaultConfig()
		cfg.RunTimeout = cfg.MaxHold
		h := newHarness(t, cfg, nil)
		h.clock.advance(2 * time.Hour)
		end := h.clock.Now().Sub(t0).Seconds()
		h.consume(t, uncountedRun(end-10, end)[1], runSpan(1, end-60*minutes, end, 1, 0).failed("429"))
		h.pass(t, defaultMaxHold)
		assert.Equal(t, want, verdicts(h.out())[1].safety, "%v minutes", minutes)
	}
}
