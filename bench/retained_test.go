package bench

import (
	"bytes"
	"context"
	"net/http"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/bench/internal/stats"
	"github.com/otelllm/otelllm-go/otelllm"
)

// BenchmarkRetained measures the memory that each open stream retains: the heap in use
// with 2,000 streams open and half read, minus the same without the transport. What is kept
// for inferred runs outlives their streams, and has a bound of its own.
func BenchmarkRetained(b *testing.B) {
	const streams = 2000
	for _, v := range []struct {
		name    string
		options []otelllm.TransportOption
		inRun   bool
	}{
		{"alone", alone, false},
		{"no events", append(alone, otelllm.WithoutEvents()), false},
		{"in a run", nil, true},
		{"watchdog", append(alone, otelllm.WithWatchdog(otelllm.DefaultWatchdog())), false},
		{"in a run, watchdog", []otelllm.TransportOption{otelllm.WithWatchdog(otelllm.DefaultWatchdog())}, true},
	} {
		for _, all := range synthetic(100) {
			if all.wire != chat && v.name != "alone" {
				continue
			}
			data := bytes.Join(all.events, nil)
			b.Run(v.name+"/"+all.wire.name, func(b *testing.B) {
				provider := sdk()
				base := answers(all.wire.contentType, data)
				ours := otelllm.NewTransport(base, append(v.options, otelllm.WithTracerProvider(provider))...)
				retained := func(rt http.RoundTripper, read int) float64 {
					return float64(heapOf(b, func() (release func()) {
						return openStreams(b, rt, all.wire, streams, read, v.inRun, provider)
					})) / streams
				}
				var begun, half []float64
				for b.Loop() {
					begun = append(begun, retained(ours, 0)-retained(base, 0))
					half = append(half, retained(ours, len(data)/2)-retained(base, len(data)/2))
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(stats.Median(begun), "B/stream-begun")
				b.ReportMetric(stats.Median(half), "B/stream-half-read")
			})
		}
	}
}

// openStreams starts n requests and reads the first bytes of their responses.
func openStreams(b *testing.B, rt http.RoundTripper, w *wire, n, read int, inRun bool, provider trace.TracerProvider) (release func()) {
	b.Helper()
	buf, body := make([]byte, 4<<10), w.body(4<<10)
	ends := make([]func(), 0, 2*n)
	for range n {
		ctx := context.Background()
		if inRun {
			c, run := otelllm.StartRun(ctx, "agent", otelllm.WithTracerProvider(provider))
			ends = append(ends, func() { run.End(nil) })
			ctx = c
		}
		resp := send(b, rt, w.post(ctx, b, body))
		for got := 0; got < read; {
			m, err := resp.Body.Read(buf[:min(len(buf), read-got)])
			require.NoError(b, err)
			got += m
		}
		ends = append(ends, func() { _ = resp.Body.Close() })
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// heapOf returns how much the heap grows by the objects that build creates, while they
// are held.
func heapOf(b *testing.B, build func() (release func())) int64 {
	b.Helper()
	before := inUse()
	release := build()
	after := inUse()
	release()
	return after - before
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
