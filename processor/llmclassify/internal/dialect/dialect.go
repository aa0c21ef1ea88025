// Package dialect reads spans into facts: one file for each family of
// instrumentations, all of them behind [Dialect].
//
// A dialect recognises the kind of a span and reads what its producer records. What the
// producer never records, and a value of the wrong type, stays not observed: that costs a
// verdict confidence, and never makes a retry safer. UNSET is not success unless the
// dialect documents that. Where one mark is written for several endings (an early close
// and a broken connection, for example), the request is not attributed to any of them.
//
// Of error messages only whole texts that are fixed in a producer's own source are
// compared (texts.go); nothing of a message is ever copied.
package dialect

import (
	"unsafe"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// Kind is the part of a span in a diagnosis. The zero value is [Other].
type Kind uint8

// The kinds of spans.
const (
	Other   Kind = iota // no part of a diagnosis; HTTP client spans are among these
	Request             // a model call, or one attempt of it
	Tool                // one execution of one tool call
	Run                 // one agent run
)

// Head is what must be known about a span before its facts are read.
type Head struct {
	Kind Kind
	// Run is the id of the run that a request or tool names as its own (llm.run.id), or empty.
	Run pcommon.SpanID
	// Part: the request is only a part of another one, that of the request above it, and
	// never one by itself.
	Part bool
	// Inferred: the run was inferred by its client (llm.run.inferred).
	Inferred bool
	// Session is the conversation or session that the span belongs to, Response the
	// response that a request got.
	Session, Response Key
	// Requests and Tools are how many of them began under a run span, as it announces.
	Requests, Tools classify.Count
	// Exchange: a span of Kind Other is that of an HTTP client which may have called a
	// model, for [ReadExchange]. Nothing but the span itself decides that, in particular
	// not how the exchange ended.
	Exchange bool
	// Judged: a span of any Kind has a verdict, or a part of one.
	Judged bool
}

// Facts are the facts of one span. Exactly one of the first fields is set, by the
// span's kind; those of a run lack its requests and tools.
type Facts struct {
	Request *classify.Request
	Tool    *classify.Tool
	Run     *classify.Run

	Lists *Lists // the memory for their lists; nil where the facts are kept
}

// Size estimates the memory of the facts in bytes.
func (f Facts) Size() int {
	size := int(unsafe.Sizeof(f))
	switch {
	case f.Request != nil:
		r := f.Request
		size += int(unsafe.Sizeof(*r)) + len(r.Transport.Code) + len(r.Provider.Code) + len(r.Abort.Reason)
		for _, list := range [...][]string{r.CallIDs, r.CallNames, r.OpenCallIDs, r.ProviderTools, r.ProviderToolTypes, r.HistoryCalls, r.HistoryOutputs} {
			for _, s := range list {
				size += int(unsafe.Sizeof(s)) + len(s)
			}
		}
	case f.Tool != nil:
		t := f.Tool
		size += int(unsafe.Sizeof(*t)) + len(t.CallID) + len(t.Name) + len(t.DeliveryError) + len(t.ErrorType) + len(t.Abort.Reason)
	case f.Run != nil:
		size += int(unsafe.Sizeof(*f.Run)) + len(f.Run.ErrorType) + len(f.Run.Abort.Reason)
	}
	return size
}

// Dialect reads the spans of one family of instrumentations. Implementations
// are stateless; their methods are safe for concurrent use and never panic,
// whatever a span carries.
type Dialect interface {
	// Name is its name in the configuration.
	Name() string
	// claims are what a span must have for Recognise to be called.
	claims() claims
	// Recognise returns the head of a span; Kind is Other if it is not this dialect's.
	Recognise(s *AttributeScan) Head
	// Read reads the facts of a span that Recognise returned a kind for into the field
	// of into that is set, which points to a zero value.
	Read(span ptrace.Span, into Facts)
}

// Reading is a span as its dialect reads it: lazily, once, and kept when the
// span itself has gone. It is not safe for concurrent use before the first call
// of Facts has returned.
type Reading struct {
	Dialect Dialect
	facts   *Facts
}

// Facts reads the facts of the span at the first call, and always returns the same.
func (r *Reading) Facts(span ptrace.Span, kind Kind) Facts {
	if kind == Other {
		return Facts{}
	}
	if r.facts == nil {
		r.facts = factsOf(kind)
		r.Dialect.Read(span, *r.facts)
	}
	return *r.facts
}

// kept is facts that are kept, in one allocation.
type kept[T any] struct {
	Facts
	of T
}

// factsOf makes the facts of a span of this kind, which is not Other.
func factsOf(kind Kind) *Facts {
	switch kind {
	case Request:
		f := new(kept[classify.Request])
		f.Request = &f.of
		return &f.Facts
	case Tool:
		f := new(kept[classify.Tool])
		f.Tool = &f.of
		return &f.Facts
	default:
		f := new(kept[classify.Run])
		f.Run = &f.of
		return &f.Facts
	}
}

// Request writes the facts of a request to a place of the caller's. Their lists may be in
// lists.
func (r *Reading) Request(span ptrace.Span, to *classify.Request, lists *Lists) {
	if r.facts != nil {
		*to = *r.facts.Request
		return
	}
	*to = classify.Request{}
	r.Dialect.Read(span, Facts{Request: to, Lists: lists})
}

// Run writes the facts of a run to a place of the caller's.
func (r *Reading) Run(span ptrace.Span, to *classify.Run) {
	if r.facts != nil {
		*to = *r.facts.Run
		return
	}
	*to = classify.Run{}
	r.Dialect.Read(span, Facts{Run: to})
}

// Tool writes the facts of a tool to a place of the caller's.
func (r *Reading) Tool(span ptrace.Span, to *classify.Tool) {
	if r.facts != nil {
		*to = *r.facts.Tool
		return
	}
	*to = classify.Tool{}
	r.Dialect.Read(span, Facts{Tool: to})
}
