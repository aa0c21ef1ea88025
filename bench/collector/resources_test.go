package collector

import (
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// BenchmarkResources measures the heap that a processor retains after 100 runs, each with
// an attribute of 4 MB of its own on its resource or scope, when all of their spans are
// out. llm_classify's max_hold is 4 s; its max_held_bytes is 64 MiB, which is the bar. A
// while later, in which nothing arrives, nothing may be left.
//
//	MiB-…          retained as soon as all spans are out
//	MiB-later-…    the same 16 s later
func BenchmarkResources(b *testing.B) {
	for _, way := range []struct {
		name  string
		attrs func(ptrace.ResourceSpans) pcommon.Map
		write func(*writer)
	}{
		{"runs that come whole", resourceAttrs, func(w *writer) { small(w, false) }},
		{"runs held apart", resourceAttrs, func(w *writer) { small(w, true) }},
		{"runs held apart, scope", scopeAttrs, func(w *writer) { small(w, true) }},
		{"runs without end", resourceAttrs, func(w *writer) { endless(w, 2, 1) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				for _, p := range peers()[1:] {
					if p.name == "llm_classify" {
						p.soon = map[string]any{"max_hold": "4s", "max_held_bytes": 64 << 20}
					}
					out := newSink()
					in, stop := p.start(b, p.soon, out)
					before := settled()
					sendLarge(b, in, out, way.attrs, way.write)
					out.wait(b, p)
					b.ReportMetric(float64(settled()-before)/(1<<20), "MiB-"+p.name)
					if p.name == "llm_classify" {
						time.Sleep(16 * time.Second)
						b.ReportMetric(float64(settled()-before)/(1<<20), "MiB-later-"+p.name)
					}
					stop()
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// sendLarge sends 100 runs with a large attribute each. A call that is refused is sent
// again, as senders do.
func sendLarge(b *testing.B, in consumer.Traces, out *sink, attrs func(ptrace.ResourceSpans) pcommon.Map, write func(*writer)) {
	b.Helper()
	const numRuns, attribute = 100, 4_000_000
	spans := 0
	for range numRuns {
		w := newWriter()
		write(w)
		spans += w.spans
	}
	out.expect(spans)
	for i := range numRuns {
		w := newWriter()
		write(w)
		large := strings.Repeat(string(rune('0'+i)), attribute) // not equal to any other
		for _, td := range w.calls {
			attrs(td.ResourceSpans().At(0)).PutStr("large", large)
			again := ptrace.NewTraces()
			for ok := false; !ok; {
				td.CopyTo(again)
				if ok = in.ConsumeTraces(b.Context(), again) == nil; !ok {
					again = ptrace.NewTraces()
					time.Sleep(10 * time.Millisecond)
				}
			}
		}
	}
}

func resourceAttrs(rs ptrace.ResourceSpans) pcommon.Map { return rs.Resource().Attributes() }

func scopeAttrs(rs ptrace.ResourceSpans) pcommon.Map {
	return rs.ScopeSpans().At(0).Scope().Attributes()
}

// small writes a run of three spans, its own span in a further call if it is held.
func small(w *writer, held bool) {
	run := w.id()
	for range 2 {
		w.request(w.id(), run, run)
	}
	if held {
		w.next()
	}
	w.run(run, w.root, 2, 0)
}
