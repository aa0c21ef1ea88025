package fleet

import (
	"context"
	"hash/fnv"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/acceptance"
)

// scatter spreads the spans of one process over several exporters with a connection
// each: the spans of one trace take different routes and arrive in any order.
type scatter struct {
	ways []sdktrace.SpanProcessor

	mu   sync.Mutex
	sent []spanKey // guarded by mu: all spans that have ended
}

func (s *scatter) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (s *scatter) OnEnd(span sdktrace.ReadOnlySpan) {
	id := span.SpanContext().SpanID()
	h := fnv.New32a()
	_, _ = h.Write(id[:])
	s.mu.Lock()
	s.sent = append(s.sent, spanKey{pcommon.TraceID(span.SpanContext().TraceID()), pcommon.SpanID(id)})
	s.mu.Unlock()
	s.ways[h.Sum32()%uint32(len(s.ways))].OnEnd(span)
}

func (s *scatter) each(f func(sdktrace.SpanProcessor) error) error {
	for _, way := range s.ways {
		if err := f(way); err != nil {
			return err
		}
	}
	return nil
}

func (s *scatter) ForceFlush(ctx context.Context) error {
	return s.each(func(p sdktrace.SpanProcessor) error { return p.ForceFlush(ctx) })
}

func (s *scatter) Shutdown(ctx context.Context) error {
	return s.each(func(p sdktrace.SpanProcessor) error { return p.Shutdown(ctx) })
}

func (s *scatter) all() []spanKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// agents runs cases and keeps their results.
type agents struct {
	world    *acceptance.World
	provider *sdktrace.TracerProvider
	scatter  *scatter

	running sync.WaitGroup
	mu      sync.Mutex
	done    []ran // guarded by mu
}

// ran is a case that has been run.
type ran struct {
	acceptance.Case
	trace pcommon.TraceID
}

// newAgents returns agents that send spans to each of the endpoints through the given
// number of exporters.
func newAgents(t *testing.T, ways int, endpoints ...string) *agents {
	t.Helper()
	a := &agents{scatter: &scatter{}}
	for range ways {
		for _, endpoint := range endpoints {
			exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpoint(endpoint), otlptracehttp.WithInsecure())
			require.NoError(t, err)
			a.scatter.ways = append(a.scatter.ways, sdktrace.NewBatchSpanProcessor(exporter, sdktrace.WithBatchTimeout(100*time.Millisecond), sdktrace.WithMaxQueueSize(1<<14)))
		}
	}
	a.provider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(a.scatter),
		sdktrace.WithResource(resource.NewSchemaless(otelsemconv.ServiceName("agent"))))
	var err error
	a.world, err = acceptance.NewWorld(a.provider)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, a.world.Close())
		assert.NoError(t, a.provider.Shutdown(context.WithoutCancel(t.Context())))
	})
	return a
}

// start starts cases, all at once.
func (a *agents) start(t *testing.T, cases []acceptance.Case) {
	t.Helper()
	for i := range cases {
		a.running.Go(func() {
			result, err := a.world.Run(t.Context(), &cases[i], a.provider)
			if err != nil {
				t.Errorf("%s: %v", cases[i].Label(), err)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.done = append(a.done, ran{cases[i], pcommon.TraceID(result.TraceID)})
		})
	}
}

// flush returns when every span that has ended is acknowledged.
func (a *agents) flush(t *testing.T) {
	t.Helper()
	require.NoError(t, a.provider.ForceFlush(t.Context()))
}

// wait waits for all cases to end and returns them.
func (a *agents) wait() []ran {
	a.running.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.done)
}

// quick returns cases that take milliseconds, n of each with names of their own.
func quick(name string, n int) []acceptance.Case {
	var list []acceptance.Case
	for i := range n {
		for _, c := range acceptance.Cases() {
			switch c.Number {
			case 1, 2, 4, 5, 6, 8, 13, 16:
			default:
				continue
			}
			if !slices.Contains(faultyllm.Wires(), c.Wire) {
				continue
			}
			c.Variant += " " + name + string(rune('a'+i))
			list = append(list, c)
		}
	}
	return list
}

// held returns n times case 8 (a tool with effects, and then a cut), with a tool that
// waits until gate is closed. begun receives one element for each tool that has
// started.
func held(n int, begun chan<- struct{}, gate <-chan struct{}) []acceptance.Case {
	var list []acceptance.Case
	for _, c := range acceptance.Cases() {
		if c.Number == 8 && c.Wire == faultyllm.Chat {
			for i := range n {
				own := c
				own.Variant += " held " + string(rune('a'+i/26)) + string(rune('a'+i%26))
				own.Prepare = func(_ *acceptance.World, s *acceptance.Setup) {
					for t := range s.Agent.Tools {
						do := s.Agent.Tools[t].Do
						s.Agent.Tools[t].Do = func(ctx context.Context, arguments string) (string, error) {
							begun <- struct{}{}
							select {
							case <-gate:
							case <-ctx.Done():
								return "", ctx.Err()
							}
							return do(ctx, arguments)
						}
					}
				}
				list = append(list, own)
			}
		}
	}
	return list
}
