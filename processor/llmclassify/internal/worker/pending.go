package worker

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// pending is the releases to judge and forward. The releases of one trace keep their order; the traces take turns, so that
// one with many releases keeps no other waiting.
type pending struct {
	Turns   []*traceReleases
	byTrace map[pcommon.TraceID]*traceReleases
	bytes   int // of the released spans
}

// traceReleases are the releases of a trace, in judging order.
type traceReleases struct {
	trace pcommon.TraceID
	List  []trace.Release
}

// push adds releases that were made together. It calls began for each trace without earlier ones.
func (p *pending) push(releases []trace.Release, began func(pcommon.TraceID)) {
	for _, i := range trace.JudgingOrder(releases) {
		r := &releases[i]
		p.bytes += sizeOf(r)
		t := p.byTrace[r.Trace]
		if t == nil {
			if p.byTrace == nil {
				p.byTrace = make(map[pcommon.TraceID]*traceReleases)
			}
			t = &traceReleases{trace: r.Trace}
			p.byTrace[r.Trace] = t
			p.Turns = append(p.Turns, t)
			began(r.Trace)
		}
		t.List = append(t.List, *r)
	}
}

// pop takes out releases of the trace whose turn it is, of about limit members, or one with more work, and returns the rest
// of the limit. It calls ended if the trace has no others.
func (p *pending) pop(limit int, ended func(pcommon.TraceID)) (releases []trace.Release, left int) {
	t := p.Turns[0]
	p.Turns[0] = nil
	p.Turns = p.Turns[1:]
	n := 0
	for ; n < len(t.List); n++ {
		r := &t.List[n]
		size := sizeOf(r)
		work := 1 + len(r.Members) + size/BytesPerSpan
		if n > 0 && limit < work {
			break
		}
		limit -= work
		p.bytes -= size
	}
	releases, t.List = t.List[:n:n], t.List[n:]
	if len(t.List) > 0 {
		p.Turns = append(p.Turns, t)
	} else {
		delete(p.byTrace, t.trace)
		ended(t.trace)
	}
	return releases, limit
}

func (p *pending) empty() bool { return len(p.Turns) == 0 }

// sizeOf is the memory of the spans in a release that it lets go, in bytes.
func sizeOf(r *trace.Release) (size int) {
	for i := range r.Members {
		if m := &r.Members[i]; m.Out && !m.Foreign {
			size += int(m.Size)
		}
	}
	return size
}
