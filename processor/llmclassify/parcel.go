package llmclassify

import (
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// maxParcelBytes is when a parcel is full, in bytes of estimated memory. On the
// wire spans are smaller, so that a full one stays well below the 4 MiB that gRPC
// receivers accept by default.
const maxParcelBytes = 2 << 20

// verdictSize is about the memory of a verdict, in bytes.
const verdictSize = 2 << 10

// parcel is classified spans on their way to the next consumer, all of one caller.
type parcel struct {
	traces ptrace.Traces
	spans  int
	added  int // those of spans that did not come, but were added
	bytes  int // of memory
	caller *origin.Caller
	data   []byte // the spans as OTLP; traces is not set then

	// What the store is to know once they are taken: spans of which the facts are kept, and those that
	// are done.
	sent, done []journal.Ticket
}

// encode makes a parcel that has to wait as small as it is on the wire.
func (p *parcel) encode() {
	if p.data == nil {
		data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(p.traces)
		if err != nil {
			return // it stays as it is
		}
		p.data = data
	}
	p.traces, p.bytes = ptrace.Traces{}, len(p.data)
}

// decode makes traces of a parcel that had to wait.
func (p *parcel) decode() error {
	if p.traces != (ptrace.Traces{}) {
		return nil
	}
	td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(p.data)
	p.traces = td
	return err
}

// join takes another parcel that has to wait into this one, if they may go in one
// call: many small ones would each have to find the next consumer working.
func (p *parcel) join(other *parcel) bool {
	if p.caller != other.caller || p.data == nil || other.data == nil || p.bytes+other.bytes > maxParcelBytes {
		return false
	}
	p.data = append(p.data, other.data...) // OTLP of both, one after the other, is OTLP of both together
	p.bytes += other.bytes
	p.spans += other.spans
	p.added += other.added
	p.sent, p.done = append(p.sent, other.sent...), append(p.done, other.done...)
	return true
}

// empty reports whether there is nothing to forward and nothing to record.
func (p *parcel) empty() bool { return p.spans == 0 && len(p.done) == 0 }
