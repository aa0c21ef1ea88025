package packed

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// received is what a receiver makes of n spans, each with as many attributes as an LLM
// span of this project's client has.
func received(b *testing.B, n int) ptrace.SpanSlice {
	b.Helper()
	td := ptrace.NewTraces()
	spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for i := range n {
		span := spans.AppendEmpty()
		span.SetName("chat some-model")
		span.SetTraceID([16]byte{1, byte(i >> 8), byte(i)})
		span.SetSpanID([8]byte{1, byte(i >> 8), byte(i)})
		span.SetStartTimestamp(1)
		span.SetEndTimestamp(2)
		attrs := span.Attributes()
		for a := range 18 {
			attrs.PutStr(fmt.Sprintf("llm.some.attribute.%02d", a), "a short value")
		}
		for a := range 7 {
			attrs.PutInt(fmt.Sprintf("llm.some.count.%02d", a), int64(a))
		}
	}
	data, err := marshaler.MarshalTraces(td)
	require.NoError(b, err)
	td, err = unmarshaler.UnmarshalTraces(data)
	require.NoError(b, err)
	return td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
}

// BenchmarkPack is what packing takes and saves: the time to pack a span and to read it
// again, and the memory of a span before and after.
func BenchmarkPack(b *testing.B) {
	for _, together := range []int{1, 4, MaxSpans} {
		b.Run(strconv.Itoa(together), func(b *testing.B) {
			const groups = 200
			heap := func() float64 {
				runtime.GC()
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return float64(m.HeapAlloc)
			}
			n := float64(groups * together)
			var loose, small float64
			for b.Loop() {
				b.StopTimer()
				before := heap()
				held := make([][]Span, groups)
				for i := range held {
					body := Loose(received(b, together))
					for k := range together {
						held[i] = append(held[i], body(k))
					}
				}
				loose = heap() - before
				b.StartTimer()
				for _, spans := range held {
					pointers := make([]*Span, len(spans))
					for i := range spans {
						pointers[i] = &spans[i]
					}
					Pack(pointers)
				}
				b.StopTimer()
				small = heap() - before
				b.StartTimer()
				var r Reader
				for _, spans := range held {
					for _, s := range spans {
						if _, ok := r.Span(s); !ok {
							b.Fatal("a span cannot be unpacked")
						}
					}
					r.Close()
				}
				runtime.KeepAlive(held)
			}
			b.ReportMetric(loose/n, "loose-B/span")
			b.ReportMetric(small/n, "packed-B/span")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/span")
		})
	}
}
