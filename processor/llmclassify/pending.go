package llmclassify

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// pending is releases that are to be judged and forwarded. Those of one trace keep their
// order; the traces take turns, so that one with many releases keeps no other waiting.
type pending struct {
	turns   []*traceReleases
	byTrace map[pcommon.TraceID]*traceReleases
	bytes   int // of the spans that go out
}

// traceReleases are the releases of a trace, in the order in which they are to be judged.
type traceReleases struct {
	trace pcommon.TraceID
	list  []trace.Release
}

// push adds releases that were made together. It calls began for each trace of which there
// were none.
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
			p.turns = append(p.turns, t)
			began(r.Trace)
		}
		t.list = append(t.list, *r)
	}
}

// pop takes out releases of the trace whose turn it is, of about limit members, or one with
// more work, and returns what is left of the limit. It calls ended if there are no others of it.
func (p *pending) pop(limit int, ended func(pcommon.TraceID)) (releases []trace.Release, left int) {
	t := p.turns[0]
	p.turns[0] = nil
	p.turns = p.turns[1:]
	n := 0
	for ; n < len(t.list); n++ {
		r := &t.list[n]
		size := sizeOf(r)
		work := 1 + len(r.Members) + size/bytesPerSpan
		if n > 0 && limit < work {
			break
		}
		limit -= work
		p.bytes -= size
	}
	releases, t.list = t.list[:n:n], t.list[n:]
	if len(t.list) > 0 {
		p.turns = append(p.turns, t)
	} else {
		delete(p.byTrace, t.trace)
		ended(t.trace)
	}
	return releases, limit
}

func (p *pending) empty() bool { return len(p.turns) == 0 }

// sizeOf is the memory of the spans that a release lets go, in bytes.
func sizeOf(r *trace.Release) (size int) {
	for i := range r.Members {
		if m := &r.Members[i]; m.Out && !m.Foreign {
			size += int(m.Size)
		}
	}
	return size
}
