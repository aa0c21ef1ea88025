package llmclassify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
	"github.com/otelllm/otelllm-go/semconv"
)

// An HTTP client's span tells what the request's own does not, whenever it comes:
// usually before, as it ends before. It passes in the call that brought it.
func TestExchangeExplains(t *testing.T) {
	request := chatSpan(2, 1, 0.1, 2).streaming().failed("")
	run := agentSpan(1, 0, 0, 3).failed("")
	broken := httpSpan(8, 2).failed("ECONNRESET")
	for name, calls := range map[string][][]spanSpec{
		"before":           {{broken}, {request}, {run}},
		"long before":      {{broken}, {}, {request}, {run}},
		"with":             {{request, broken, run}},
		"after":            {{request}, {broken}, {run}},
		"after everything": {{request, run}, {broken}},
		"the last of two":  {{startedAt(httpSpan(7, 1.1), 0.2), startedAt(broken, 1.2)}, {request, run}},
		"either way round": {{startedAt(broken, 1.2)}, {startedAt(httpSpan(7, 1.1), 0.2)}, {request, run}},
	} {
		for _, shards := range []int{1, 3} {
			cfg := defaultConfig()
			cfg.Shards = shards
			h := newHarness(t, cfg, nil)
			passed := 0
			for _, call := range calls {
				h.consume(t, call...)
				for _, s := range call {
					if s.name == broken.name {
						passed++
					}
				}
				require.Equal(t, passed, h.sink.SpanCount(), name)
				if len(call) == 0 {
					h.clock.advance(20 * time.Second)
				}
			}
			h.pass(t, xSettle)
			v := verdictOf(spansOf(h.out())[spanID(2)])
			assert.Equal(t, semconv.ClassStreamInterrupted, v.class, name)
			assert.Equal(t, semconv.CauseConnectionReset, v.cause, name)
			assert.Equal(t, semconv.CauseConnectionReset, verdictOf(spansOf(h.out())[spanID(1)]).cause, name)
			assert.Equal(t, telemetry.Load{}, h.Load(), name)
		}
	}
}

func startedAt(s spanSpec, from float64) spanSpec { s.from = from; return s }

// Facts that are kept have the exchange in them.
func TestExchangeOfSpanThatWent(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	h.consume(t, chatSpan(2, 1, 0.1, 2).streaming().failed(""), httpSpan(8, 2).failed("ECONNRESET"))
	h.pass(t, 3*xMaxHold)
	assert.Equal(t, semconv.CauseConnectionReset, verdictOf(spansOf(h.out())[spanID(2)]).cause)
	h.consume(t, agentSpan(1, 0, 0, 3).failed(""))
	h.pass(t, xSettle)
	assert.Equal(t, semconv.CauseConnectionReset, verdictOf(spansOf(h.out())[spanID(1)]).cause)
}

// What is evidence does not depend on how it ended: after the request was refused it was
// sent again, and got an answer that broke after its headers. The refusal alone would say
// that nothing was answered, whenever the other one came.
func TestEvidenceIsSymmetric(t *testing.T) {
	refused := exchangeSpan("", 7, 0.2, 429).spanSpec
	answered := exchangeSpan("", 8, 1.2, 200).spanSpec
	request := chatSpan(2, 1, 0.1, 2).streaming().failed("")
	run := agentSpan(1, 0, 0, 3).failed("")
	together := newHarness(t, defaultConfig(), nil)
	together.consume(t, refused, answered, request, run)
	together.pass(t, xSettle)
	want := verdictOf(spansOf(together.out())[spanID(2)])
	require.NotEqual(t, semconv.CauseRateLimited, want.cause)
	require.NotEqual(t, safe, want.safety)
	for name, calls := range map[string][][]spanSpec{
		"refused, answered":          {{refused}, {answered}, {request, run}},
		"answered, refused":          {{answered}, {refused}, {request, run}},
		"refused, request, answered": {{refused}, {request}, {answered, run}},
		"answered, request, refused": {{answered}, {request}, {refused, run}},
		"request, answered, refused": {{request}, {answered}, {run, refused}},
	} {
		h := newHarness(t, defaultConfig(), nil)
		for _, call := range calls {
			h.consume(t, call...)
		}
		h.pass(t, xSettle)
		assert.Equal(t, want, verdictOf(spansOf(h.out())[spanID(2)]), name)
		assert.Equal(t, want.cause, verdictOf(spansOf(h.out())[spanID(1)]).cause, name)
	}
}

// Of exchanges that began at the same time the same one is taken, whichever came first.
func TestEvidenceOfTheSameTime(t *testing.T) {
	refused, answered := exchangeSpan("", 7, 0.2, 429).spanSpec, exchangeSpan("", 8, 0.2, 200).spanSpec
	var verdicts []verdict
	for _, calls := range [][]spanSpec{{refused, answered}, {answered, refused}} {
		for _, apart := range []bool{false, true} {
			h := newHarness(t, defaultConfig(), nil)
			request := chatSpan(2, 1, 0.1, 2).streaming().failed("")
			if apart {
				h.consume(t, calls[0])
				h.consume(t, calls[1], request)
			} else {
				h.consume(t, calls[0], calls[1], request)
			}
			h.consume(t, agentSpan(1, 0, 0, 3).failed(""))
			h.pass(t, xSettle)
			verdicts = append(verdicts, verdictOf(spansOf(h.out())[spanID(2)]))
		}
	}
	for _, v := range verdicts {
		assert.Equal(t, verdicts[0], v)
	}
}

// What is ordinary traffic by its URL is not kept, whether it failed or not; the rest is
// forgotten in time, and never takes more than its bound.
func TestEvidenceIsBoundedAndForgotten(t *testing.T) {
	h := newHarness(t, defaultConfig(), nil)
	ordinary := exchangeSpan("", 8, 0.2, 0).spanSpec
	ordinary.attrs[1] = attribute.String("http.url", "https://shop.example.com/orders?chat=1")
	h.consume(t, ordinary, ordinary.failed("ECONNRESET"))
	assert.Zero(t, h.Load().Evidence)
	h.consume(t, httpSpan(8, 2).failed("ECONNRESET"), httpSpan(8, 2).failed("ECONNRESET").of(2))
	assert.Positive(t, h.Load().Evidence)
	for trace := range byte(3) {
		h.clock.advance(xMaxHold)
		h.consume(t, httpSpan(8, 2).failed("ECONNRESET").of(trace+3))
	}
	kept := h.Load().Evidence
	for trace := range byte(10) {
		h.clock.advance(xMaxHold)
		h.consume(t, httpSpan(8, 2).failed("ECONNRESET").of(trace+6))
	}
	assert.Equal(t, kept, h.Load().Evidence, "those of before are forgotten")
}
