package llmclassify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/internal/race"
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
			h.pass(t, xMaxHold)
			assert.Equal(t, confirm, verdicts(h.out())[1].safety, "%s, %s", name, start)
		}
	}
}

// A run a second beneath a server's span for a day fills no memory of what was forgotten for its age,
// as these runs are within none: a run of an hour that announces its numbers lacks nothing.
func TestLongRunOfABusySite(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	n := 0
	perMinute := 60 / race.Every(6) // one run a second
	for range 24 * 60 {
		for range perMinute {
			n++
			f := newForest(t)
			span := f.add(runSpan(10, 0, 0, 0, 0), spanID(10), spanID(98), h.clock.Now().Sub(t0).Seconds()-1, h.clock.Now().Sub(t0).Seconds())
			span.SetTraceID(pcommon.TraceID{0xab, byte(n >> 16), byte(n >> 8), byte(n), 1})
			root := f.add(otherSpan(98, 0, 0, 0), spanID(98), pcommon.SpanID{}, h.clock.Now().Sub(t0).Seconds()-1, h.clock.Now().Sub(t0).Seconds())
			root.SetTraceID(span.TraceID())
			require.NoError(t, h.ConsumeTraces(t.Context(), f.Traces))
		}
		h.pass(t, time.Minute)
		h.lane().Rotate(h.clock.Now())
		h.sink.Reset()
	}
	end := h.clock.Now().Sub(t0).Seconds()
	h.consume(t, uncountedRun(end-10, end)[1], runSpan(1, end-3700, end, 1, 0).failed("429"))
	h.pass(t, xMaxHold)
	v := verdicts(h.out())[1]
	assert.Equal(t, safe, v.safety, "%v", v)
}
