package bench

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/bench/internal/stats"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
)

// decodeSize is the approximate number of bytes read through one request. It is large
// enough that the fixed cost of a request is negligible.
const decodeSize = 8 << 20

// BenchmarkDecode measures what the transport adds to the reading of a stream: the
// processor time of all Reads through it, minus that of the same Reads without it,
// between the response's headers and its end.
func BenchmarkDecode(b *testing.B) {
	oneCore(b)
	for _, source := range []struct {
		name    string
		streams []stream
	}{
		{"recorded", recorded(b)},
		{"deltas", synthetic(1000)},
	} {
		for _, w := range wires {
			once, n := unended(source.streams, w)
			if n == 0 {
				continue
			}
			var data []byte
			events := 0
			for len(data) < decodeSize {
				data = append(data, once...)
				events += n
			}
			for _, size := range []int{4 << 10, 32 << 10} {
				b.Run(fmt.Sprintf("%s/%s/%dKiB", source.name, w.name, size>>10), func(b *testing.B) {
					benchDecode(b, w, data, events, size)
				})
			}
		}
	}
}

func benchDecode(b *testing.B, w *wire, data []byte, events, size int) {
	base := answers(w.contentType, data)
	with := otelllm.NewTransport(base, otelllm.WithTracerProvider(sdk()), otelllm.WithoutInferredRuns())
	seesAll(b, base, w, len(data), events)
	buf := make([]byte, size)
	reading := func(rt http.RoundTripper) func() time.Duration {
		return func() (spent time.Duration) {
			throughout(b, rt, w, len(data), buf, func(read func()) { spent = timed(read)() })
			return spent
		}
	}
	variants := []func() time.Duration{reading(base), reading(with)}
	var spent []time.Duration
	var added []float64
	for b.Loop() {
		spent = round(spent, variants...)
		added = append(added, (spent[1] - spent[0]).Seconds())
	}
	m := stats.Median(added)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(len(data))/m/1e9, "GB/s")
	b.ReportMetric(m*1e9/float64(events), "ns/event")

	var before, after runtime.MemStats
	throughout(b, with, w, len(data), buf, func(read func()) {
		runtime.ReadMemStats(&before)
		read()
		runtime.ReadMemStats(&after)
	})
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(events), "allocs/event")
}

// throughout sends a request and calls f to read n bytes of its response, up to its
// end, which is not read.
func throughout(tb testing.TB, rt http.RoundTripper, w *wire, n int, buf []byte, f func(read func())) {
	tb.Helper()
	resp := send(tb, rt, w.post(tb.Context(), tb, w.body(0)))
	defer resp.Body.Close()
	got := 0
	f(func() {
		for err := error(nil); err == nil && got < n; {
			var m int
			m, err = resp.Body.Read(buf)
			got += m
		}
	})
	require.Equal(tb, n, got)
}

// seesAll checks that the decoder runs to the end of the stream, so that the benchmark
// measures decoding.
func seesAll(tb testing.TB, base http.RoundTripper, w *wire, n, events int) {
	tb.Helper()
	ended := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(ended))
	throughout(tb, otelllm.NewTransport(base, otelllm.WithTracerProvider(provider), otelllm.WithoutInferredRuns()), w, n, make([]byte, 32<<10), func(read func()) { read() })
	require.Len(tb, ended.Ended(), 1)
	seen := 0
	for _, kv := range ended.Ended()[0].Attributes() {
		switch kv.Key {
		case semconv.StreamEventsKey, semconv.StreamKeepalivesKey:
			seen += int(kv.Value.AsInt64())
		}
	}
	require.Equal(tb, events, seen)
}
