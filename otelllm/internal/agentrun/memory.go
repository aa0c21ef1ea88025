package agentrun

import (
	"unsafe"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// Sizes in memory, in bytes. The size of the SDK's span is measured.
const (
	// MinBytes is about the memory of an open inferred run before its first request has ended, with its span and the span's
	// attributes.
	MinBytes  = int(unsafe.Sizeof(Run{})) + spanBytes
	spanBytes = 1300

	requestBytes = int(unsafe.Sizeof(classify.Request{}))
	toolBytes    = int(unsafe.Sizeof(Tool{})) + 160 // with its places in the lists and maps of past
	stringBytes  = 16
	idBytes      = stringBytes + 8 // more than its length
	owedBytes    = 120             // a call in one of past's maps, with its id
)

// Bytes returns about how much memory the run takes until it is over: the run and its span, and the kept requests and
// tools, without the open requests.
func (r *Run) Bytes() int {
	n := MinBytes + int(r.bytes.Load())
	if !r.recording {
		n -= spanBytes
	}
	return n
}

// measure updates, with mu held, the result of Bytes.
func (r *Run) measure() {
	if !r.Inferred {
		return
	}
	n := cap(r.requests) * requestBytes
	for i := range r.requests {
		q := &r.requests[i]
		n += idsBytes(q.CallIDs) + idsBytes(q.CallNames) + idsBytes(q.OpenCallIDs) + idsBytes(q.ProviderTools) + idsBytes(q.ProviderToolTypes)
	}
	n += r.historyBytes
	n += (len(r.past.owed) + len(r.past.strays)) * owedBytes
	if tools := len(r.tools); tools > 0 {
		names := 0
		for _, t := range r.tools {
			names += len(t.callID) + len(t.facts.Name)
		}
		n += (tools + min(r.past.forgotten, classify.MaxIDs+1)) * (toolBytes + names/tools)
	}
	r.bytes.Store(int64(n))
}

func idsBytes(ids []string) (n int) {
	for _, id := range ids {
		n += idBytes + len(id)
	}
	return n
}
