package verdicts

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// Runs that yield to one another, and more of them beneath one another than are followed,
// are no runs. They go out, and nothing of them stays.
func TestInferredRunsThatAreEachOthersParents(t *testing.T) {
	circle := func(n int) (spans []harness.Span) {
		for i := range n {
			spans = append(spans, harness.InferredSpan(byte(2*i+1), byte(2*((i+1)%n)+1), 0, 3), harness.RequestSpan(byte(2*i+2), byte(2*i+1), 0.1, 1).Answered("stop", harness.Answer))
		}
		return spans
	}
	for name, spans := range map[string][]harness.Span{
		"itself": circle(1), "two": circle(2), "three": circle(3), "seven": circle(7),
		"deep": func() (spans []harness.Span) {
			for i := range 200 {
				spans = append(spans, harness.InferredSpan(byte(i+1), byte(i), 0, 3))
			}
			return spans
		}(),
	} {
		disk := harness.NewDisk()
		h := harness.NewOn(t, disk, harness.DefaultConfig(), nil, harness.T0)
		h.Consume(t, spans...)
		h.Pass(t, harness.MaxHold)
		h.Pass(t, 2*harness.RunTimeout)
		assert.Equal(t, len(spans), h.Out().SpanCount(), name)
		assert.Equal(t, telemetry.Load{}, h.Load(), name)
		assert.Empty(t, disk.Entries(), name)
	}
}

// Many spans of one session, or with one response, in one trace do not take more time than
// many others.
func TestManyOfOneSessionOrResponse(t *testing.T) {
	n := 20_000 / sample.Every(5)
	spanOf := func(i int) (id pcommon.SpanID) { binary.BigEndian.PutUint64(id[:], uint64(i)+1); return id }
	for name, make := range map[string]func(i int) harness.Span{
		"session": func(i int) harness.Span {
			return harness.ChatSpan(1, 0, float64(n-i)/float64(n), 10).Finished("stop").Session("s")
		},
		"response": func(int) harness.Span { return harness.ChatSpan(1, 0, 0, 10).Finished("stop").Response("chatcmpl-1") },
	} {
		td := ptrace.NewTraces()
		spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
		for i := range n {
			span := spans.AppendEmpty()
			make(i).Write(t, span)
			span.SetSpanID(spanOf(i))
			span.SetParentSpanID(spanOf(n + i))
		}
		h := harness.New(t, harness.DefaultConfig(), nil)
		start := time.Now()
		require.NoError(t, h.ConsumeTraces(t.Context(), td))
		h.Pass(t, harness.MaxHold)
		h.Pass(t, 2*harness.RunTimeout)
		h.Pass(t, time.Second) // a large trace goes in several parts
		if !sample.Only() {    // the race detector takes its time
			assert.Less(t, time.Since(start), 10*time.Second, name)
		}
		assert.Equal(t, telemetry.Load{}, h.Load(), name)
	}
}

// Some servers give all their responses one id. Within a service that is no evidence that
// one request is beneath another one.
func TestSameResponseWithinAService(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.ChatSpan(2, 10, 0.1, 2).Finished("stop").Response("chatcmpl-1"), harness.ChatSpan(3, 11, 0.2, 1).Failed("ECONNRESET").Response("chatcmpl-1"))
	h.Pass(t, harness.MaxHold)
	h.Pass(t, 2*harness.RunTimeout)
	assert.Equal(t, semconv.ClassUnset, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(2)]).Class)
	assert.NotEqual(t, semconv.ClassUnset, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(3)]).Class)
	assert.Equal(t, telemetry.Load{}, h.Load())
}

// A run does not wait for spans of its session whose parents are not here.
func TestSessionDoesNotKeepARunWaiting(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.ChatSpan(2, 9, 0.1, 1).Finished("tool_calls").Session("s"), harness.ChatSpan(3, 9, 2, 3).Finished("stop").Session("s"), harness.OtherSpan(9, 0, 0, 4),
		harness.ChatSpan(4, 50, 0.2, 0.9).Finished("stop").Session("s").In(harness.GatewayService))
	h.Pass(t, harness.MaxHold)
	assert.Equal(t, []pcommon.SpanID{harness.SpanID(3)}, harness.RunsJudged(h.Out()))

	h = harness.New(t, harness.DefaultConfig(), nil)
	gateway := harness.ChatSpan(4, 50, 0.2, 0.9).Finished("stop").Session("s").In(harness.GatewayService)
	h.Consume(t, gateway)
	h.Consume(t, harness.ChatSpan(2, 0, 0.1, 1).Finished("stop").Session("s"))
	assert.Contains(t, harness.SpansOf(h.Out()), harness.SpanID(2), "no run can be above it")
	h.Pass(t, harness.MaxHold)
	h.Pass(t, 2*harness.RunTimeout)
	assert.Equal(t, telemetry.Load{}, h.Load())
}
