package recorded

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// An HTTP client's span tells what the request's own does not, whenever it comes:
// usually before, as it ends before. It passes in the call that brought it.
func TestExchangeExplains(t *testing.T) {
	request := harness.ChatSpan(2, 1, 0.1, 2).Streaming().Failed("")
	run := harness.AgentSpan(1, 0, 0, 3).Failed("")
	broken := harness.HTTPSpan(8, 2).Failed("ECONNRESET")
	for name, calls := range map[string][][]harness.Span{
		"before":           {{broken}, {request}, {run}},
		"long before":      {{broken}, {}, {request}, {run}},
		"with":             {{request, broken, run}},
		"after":            {{request}, {broken}, {run}},
		"after everything": {{request, run}, {broken}},
		"the last of two":  {{startedAt(harness.HTTPSpan(7, 1.1), 0.2), startedAt(broken, 1.2)}, {request, run}},
		"either way round": {{startedAt(broken, 1.2)}, {startedAt(harness.HTTPSpan(7, 1.1), 0.2)}, {request, run}},
	} {
		for _, shards := range []int{1, 3} {
			cfg := harness.DefaultConfig()
			cfg.Shards = shards
			h := harness.New(t, cfg, nil)
			passed := 0
			for _, call := range calls {
				h.Consume(t, call...)
				for _, s := range call {
					if s.Name == broken.Name {
						passed++
					}
				}
				require.Equal(t, passed, h.Sink.SpanCount(), name)
				if len(call) == 0 {
					h.Clock.Advance(20 * time.Second)
				}
			}
			h.Pass(t, harness.Settle)
			v := harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(2)])
			assert.Equal(t, semconv.ClassStreamInterrupted, v.Class, name)
			assert.Equal(t, semconv.CauseConnectionReset, v.Cause, name)
			assert.Equal(t, semconv.CauseConnectionReset, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]).Cause, name)
			assert.Equal(t, telemetry.Load{}, h.Load(), name)
		}
	}
}

func startedAt(s harness.Span, from float64) harness.Span { s.From = from; return s }

// Facts that are kept have the exchange in them.
func TestExchangeOfSpanThatWent(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.ChatSpan(2, 1, 0.1, 2).Streaming().Failed(""), harness.HTTPSpan(8, 2).Failed("ECONNRESET"))
	h.Pass(t, 3*harness.MaxHold)
	assert.Equal(t, semconv.CauseConnectionReset, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(2)]).Cause)
	h.Consume(t, harness.AgentSpan(1, 0, 0, 3).Failed(""))
	h.Pass(t, harness.Settle)
	assert.Equal(t, semconv.CauseConnectionReset, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]).Cause)
}

// What is evidence does not depend on how it ended: after the request was refused it was
// sent again, and got an answer that broke after its headers. The refusal alone would say
// that nothing was answered, whenever the other one came.
func TestEvidenceIsSymmetric(t *testing.T) {
	refused := exchangeSpan("", 7, 0.2, 429).Span
	answered := exchangeSpan("", 8, 1.2, 200).Span
	request := harness.ChatSpan(2, 1, 0.1, 2).Streaming().Failed("")
	run := harness.AgentSpan(1, 0, 0, 3).Failed("")
	together := harness.New(t, harness.DefaultConfig(), nil)
	together.Consume(t, refused, answered, request, run)
	together.Pass(t, harness.Settle)
	want := harness.VerdictOf(harness.SpansOf(together.Out())[harness.SpanID(2)])
	require.NotEqual(t, semconv.CauseRateLimited, want.Cause)
	require.NotEqual(t, harness.Safe, want.Safety)
	for name, calls := range map[string][][]harness.Span{
		"refused, answered":          {{refused}, {answered}, {request, run}},
		"answered, refused":          {{answered}, {refused}, {request, run}},
		"refused, request, answered": {{refused}, {request}, {answered, run}},
		"answered, request, refused": {{answered}, {request}, {refused, run}},
		"request, answered, refused": {{request}, {answered}, {run, refused}},
	} {
		h := harness.New(t, harness.DefaultConfig(), nil)
		for _, call := range calls {
			h.Consume(t, call...)
		}
		h.Pass(t, harness.Settle)
		assert.Equal(t, want, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(2)]), name)
		assert.Equal(t, want.Cause, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(1)]).Cause, name)
	}
}

// Of exchanges that began at the same time the same one is taken, whichever came first.
func TestEvidenceOfTheSameTime(t *testing.T) {
	refused, answered := exchangeSpan("", 7, 0.2, 429).Span, exchangeSpan("", 8, 0.2, 200).Span
	var verdicts []harness.Verdict
	for _, calls := range [][]harness.Span{{refused, answered}, {answered, refused}} {
		for _, apart := range []bool{false, true} {
			h := harness.New(t, harness.DefaultConfig(), nil)
			request := harness.ChatSpan(2, 1, 0.1, 2).Streaming().Failed("")
			if apart {
				h.Consume(t, calls[0])
				h.Consume(t, calls[1], request)
			} else {
				h.Consume(t, calls[0], calls[1], request)
			}
			h.Consume(t, harness.AgentSpan(1, 0, 0, 3).Failed(""))
			h.Pass(t, harness.Settle)
			verdicts = append(verdicts, harness.VerdictOf(harness.SpansOf(h.Out())[harness.SpanID(2)]))
		}
	}
	for _, v := range verdicts {
		assert.Equal(t, verdicts[0], v)
	}
}

// What is ordinary traffic by its URL is not kept, whether it failed or not; the rest is
// forgotten in time, and never takes more than its bound.
func TestEvidenceIsBoundedAndForgotten(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	ordinary := exchangeSpan("", 8, 0.2, 0).Span
	ordinary.Attrs[1] = attribute.String("http.url", "https://shop.example.com/orders?chat=1")
	h.Consume(t, ordinary, ordinary.Failed("ECONNRESET"))
	assert.Zero(t, h.Load().Evidence)
	h.Consume(t, harness.HTTPSpan(8, 2).Failed("ECONNRESET"), harness.HTTPSpan(8, 2).Failed("ECONNRESET").Of(2))
	assert.Positive(t, h.Load().Evidence)
	for trace := range byte(3) {
		h.Clock.Advance(harness.MaxHold)
		h.Consume(t, harness.HTTPSpan(8, 2).Failed("ECONNRESET").Of(trace+3))
	}
	kept := h.Load().Evidence
	for trace := range byte(10) {
		h.Clock.Advance(harness.MaxHold)
		h.Consume(t, harness.HTTPSpan(8, 2).Failed("ECONNRESET").Of(trace+6))
	}
	assert.Equal(t, kept, h.Load().Evidence, "those of before are forgotten")
}
