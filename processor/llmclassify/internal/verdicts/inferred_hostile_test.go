package llmclassify

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/internal/race"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// Runs that yield to one another, and more of them beneath one another than are followed,
// are no runs. They go out, and nothing of them stays.
func TestInferredRunsInACircle(t *testing.T) {
	circle := func(n int) (spans []spanSpec) {
		for i := range n {
			spans = append(spans, inferredSpan(byte(2*i+1), byte(2*((i+1)%n)+1), 0, 3), requestSpan(byte(2*i+2), byte(2*i+1), 0.1, 1).answered("stop", answer))
		}
		return spans
	}
	for name, spans := range map[string][]spanSpec{
		"itself": circle(1), "two": circle(2), "three": circle(3), "seven": circle(7),
		"deep": func() (spans []spanSpec) {
			for i := range 200 {
				spans = append(spans, inferredSpan(byte(i+1), byte(i), 0, 3))
			}
			return spans
		}(),
	} {
		disk := newDisk()
		h := newHarnessOn(t, disk, defaultConfig(), nil, t0)
		h.consume(t, spans...)
		h.pass(t, xMaxHold)
		h.pass(t, 2*xRunTimeout)
		assert.Equal(t, len(spans), h.out().SpanCount(), name)
		assert.Equal(t, telemetry.Load{}, h.Load(), name)
		assert.Empty(t, disk.entries(), name)
	}
}

// Many spans of one session, or with one response, in one trace do not take more time than
// many others.
func TestManyOfOneSessionOrResponse(t *testing.T) {
	const n = 20_000
	spanOf := func(i int) (id pcommon.SpanID) { binary.BigEndian.PutUint64(id[:], uint64(i)+1); return id }
	for name, make := range map[string]func(i int) spanSpec{
		"session": func(i int) spanSpec {
			return chatSpan(1, 0, float64(n-i)/n, 10).finished("stop").session("s")
		},
		"response": func(int) spanSpec { return chatSpan(1, 0, 0, 10).finished("stop").response("chatcmpl-1") },
	} {
		td := ptrace.NewTraces()
		spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
		for i := range n {
			span := spans.AppendEmpty()
			make(i).write(t, span)
			span.SetSpanID(spanOf(i))
			span.SetParentSpanID(spanOf(n + i))
		}
		h := newHarness(t, defaultConfig(), nil)
		start := time.Now()
		require.NoError(t, h.ConsumeTraces(t.Context(), td))
		h.pass(t, xMaxHold)
		h.pass(t, 2*xRunTimeout)
		h.pass(t, time.Second)                 // a large trace goes in several parts
		if !testing.Short() && !race.Enabled { // the race detector takes its time
			assert.Less(t, time.Since(start), 10*time.Second, name)
		}
		assert.Equal(t, telemetry.Load{}, h.Load(), name)
	}
}

// Some servers give all their responses one id. Within a service that is no evidence that
// one request is beneath another one.
func TestSameResponseWithinAService(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, chatSpan(2, 10, 0.1, 2).finished("stop").response("chatcmpl-1"), chatSpan(3, 11, 0.2, 1).failed("ECONNRESET").response("chatcmpl-1"))
	h.pass(t, xMaxHold)
	h.pass(t, 2*xRunTimeout)
	assert.Equal(t, semconv.ClassUnset, verdictOf(spansOf(h.out())[spanID(2)]).class)
	assert.NotEqual(t, semconv.ClassUnset, verdictOf(spansOf(h.out())[spanID(3)]).class)
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// A run does not wait for spans of its session whose parents are not here.
func TestSessionDoesNotKeepARunWaiting(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, chatSpan(2, 9, 0.1, 1).finished("tool_calls").session("s"), chatSpan(3, 9, 2, 3).finished("stop").session("s"), otherSpan(9, 0, 0, 4),
		chatSpan(4, 50, 0.2, 0.9).finished("stop").session("s").in(gatewayService))
	h.pass(t, xMaxHold)
	assert.Equal(t, []pcommon.SpanID{spanID(3)}, runsJudged(h.out()))

	h = newHarness(t, defaultConfig(), nil)
	gateway := chatSpan(4, 50, 0.2, 0.9).finished("stop").session("s").in(gatewayService)
	h.consume(t, gateway)
	h.consume(t, chatSpan(2, 0, 0.1, 1).finished("stop").session("s"))
	assert.Contains(t, spansOf(h.out()), spanID(2), "no run can be above it")
	h.pass(t, xMaxHold)
	h.pass(t, 2*xRunTimeout)
	assert.Equal(t, telemetry.Load{}, h.Load())
}
