package collector

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/groupbytraceprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/tailsamplingprocessor"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelllm/otelllm-go/processor/llmclassify"
)

// peer is one processor under test. The soon configuration releases spans as early as
// the processor can; the never configuration keeps them.
type peer struct {
	name        string
	factory     processor.Factory // nil for a pass-through
	soon, never map[string]any
	packs       time.Duration  // time after which it packs the spans that it holds; zero if it does not
	host        component.Host // nil for one without extensions
}

func peers() []peer {
	sampleAll := []any{map[string]any{"name": "all", "type": "always_sample"}}
	return []peer{
		{name: "pass-through"},
		{
			name: "llm_classify", factory: llmclassify.NewFactory(), soon: map[string]any{}, packs: 10 * time.Second,
			never: map[string]any{"max_hold": "1h", "run_timeout": "2h", "max_held_bytes": 1 << 40},
		},
		{
			name: "tail_sampling", factory: tailsamplingprocessor.NewFactory(),
			soon:  map[string]any{"policies": sampleAll, "decision_wait": "1s", "num_traces": 1 << 20},
			never: map[string]any{"policies": sampleAll, "decision_wait": "1h", "num_traces": 1 << 20},
		},
		{
			name: "groupbytrace", factory: groupbytraceprocessor.NewFactory(),
			soon:  map[string]any{"wait_duration": "100ms", "num_traces": 1 << 20},
			never: map[string]any{"wait_duration": "1h", "num_traces": 1 << 20},
		},
	}
}

// start creates the processor and starts it. stop shuts it down.
func (p peer) start(tb testing.TB, config map[string]any, next consumer.Traces) (first consumer.Traces, stop func()) {
	tb.Helper()
	if p.factory == nil {
		return next, func() {}
	}
	made := p.create(tb, config, next)
	return made, func() { require.NoError(tb, made.Shutdown(context.Background())) }
}

// create creates the processor, which must not be the pass-through, and starts it.
func (p peer) create(tb testing.TB, config map[string]any, next consumer.Traces) processor.Traces {
	tb.Helper()
	cfg := p.factory.CreateDefaultConfig()
	require.NoError(tb, confmap.NewFromStringMap(config).Unmarshal(cfg))
	made, err := p.factory.CreateTraces(tb.Context(), processortest.NewNopSettings(p.factory.Type()), cfg, next)
	require.NoError(tb, err)
	host := p.host
	if host == nil {
		host = componenttest.NewNopHost()
	}
	require.NoError(tb, made.Start(tb.Context(), host))
	return made
}

// sink counts the spans that come out and drops them.
type sink struct {
	left atomic.Int64
	all  chan struct{} // buffered, one element
}

func newSink() *sink { return &sink{all: make(chan struct{}, 1)} }

// expect sets the number of spans after which all is signaled.
func (s *sink) expect(spans int) { s.left.Store(int64(spans)) }

// wait waits for all expected spans.
func (s *sink) wait(b *testing.B, p peer) {
	b.Helper()
	select {
	case <-s.all:
	case <-time.After(time.Minute):
		require.FailNow(b, "spans have not come out", "%s: %d are missing", p.name, s.left.Load())
	}
}

func (*sink) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (s *sink) ConsumeTraces(_ context.Context, td ptrace.Traces) error {
	n := int64(td.SpanCount())
	if left := s.left.Add(-n); left <= 0 && left+n > 0 { // a processor may add spans
		s.all <- struct{}{}
	}
	return nil
}
