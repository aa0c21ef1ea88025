package forward

import (
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// MaxParcelBytes is when a parcel is full, in bytes of estimated memory. On the
// wire spans are smaller, so that a full one stays well below the 4 MiB that gRPC
// receivers accept by default.
const MaxParcelBytes = 2 << 20

// VerdictSize is about the memory of a verdict, in bytes.
const VerdictSize = 2 << 10

// Parcel is classified spans on their way to the next consumer, all of one caller.
type Parcel struct {
	Traces ptrace.Traces
	Spans  int
	Added  int // those of spans that did not come, but were added
	Bytes  int // of memory
	Caller *origin.Caller
	data   []byte // the spans as OTLP; traces is not set then

	// What the store is to know once they are taken: spans of which the facts are kept, and those that
	// are done.
	sent, Done []journal.Ticket
}

// encode makes a parcel that has to wait as small as it is on the wire.
func (p *Parcel) encode() {
	if p.data == nil {
		data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(p.Traces)
		if err != nil {
			return // it stays as it is
		}
		p.data = data
	}
	p.Traces, p.Bytes = ptrace.Traces{}, len(p.data)
}

// decode makes traces of a parcel that had to wait.
func (p *Parcel) decode() error {
	if p.Traces != (ptrace.Traces{}) {
		return nil
	}
	td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(p.data)
	p.Traces = td
	return err
}

// join takes another parcel that has to wait into this one, if they may go in one
// call: many small ones would each have to find the next consumer working.
func (p *Parcel) join(other *Parcel) bool {
	if p.Caller != other.Caller || p.data == nil || other.data == nil || p.Bytes+other.Bytes > MaxParcelBytes {
		return false
	}
	p.data = append(p.data, other.data...) // OTLP of both, one after the other, is OTLP of both together
	p.Bytes += other.Bytes
	p.Spans += other.Spans
	p.Added += other.Added
	p.sent, p.Done = append(p.sent, other.sent...), append(p.Done, other.Done...)
	return true
}

// empty reports whether there is nothing to forward and nothing to record.
func (p *Parcel) empty() bool { return p.Spans == 0 && len(p.Done) == 0 }
