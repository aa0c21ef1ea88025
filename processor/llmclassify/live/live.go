// Package live judges runs of agents that are still going on, with the dialects, the assembling and the rules of the
// processor llm_classify. It neither holds nor forwards spans: the caller sets the spans of a trace as they begin, change
// and end, and asks for verdicts at any time.
//
// A run is judged on the facts that are known so far. Once its own span has ended, the verdict equals the verdict of
// llm_classify for the same spans.
package live

import (
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// Kind is the role of a span in a run. The zero value is [KindOther].
type Kind uint8

// The kinds of spans.
const (
	KindOther   Kind = iota // no part of a run
	KindRequest             // a model call, or one attempt of it
	KindTool                // one execution of one tool call
	KindRun                 // one run of an agent
)

// MaxParts bounds the spans of a trace that are kept. Beyond that the oldest ended request or tool is forgotten, and the
// trace counts as incomplete, see [Trace.SetIncomplete].
const MaxParts = 4096

// Span is a span of a trace, as far as it is known.
type Span struct {
	ptrace.Span
	// Kind is the span's kind, if its attributes are facts of this project's vocabulary. With KindOther the span is
	// recognised as llm_classify does, by its attributes and Scope.
	Kind Kind
	// Scope is the name of the instrumentation scope.
	Scope string
	// Service identifies the resource. It is equal for spans of one service.
	Service [16]byte
	// Open: the span has begun, and has not ended.
	Open bool
}

// Trace holds the spans of one trace that were set so far: one run, or several, which may be within one another. It is not
// safe for concurrent use.
type Trace struct {
	parts     map[pcommon.SpanID]*part
	items     map[pcommon.SpanID]*trace.Item      // of the parts
	order     []*part                             // in the order in which they were first set
	others    map[pcommon.SpanID]pcommon.SpanID   // the parents of other spans
	exchanges map[pcommon.SpanID]dialect.Exchange // of HTTP clients, by the span above
	services  map[[16]byte]*origin.Scope
	// begins are the services that report spans when they begin.
	begins     map[[16]byte]bool
	incomplete bool
	bytes      int
}

// part is a request, a tool or a run.
type part struct {
	item    trace.Item
	above   pcommon.SpanID // the nearest request or tool above it, empty if none; set by Trace.runs
	kind    Kind
	open    bool
	facts   bool // its attributes are facts, by [Span.Kind]
	service [16]byte
	size    int
}

// NewTrace returns a trace without spans.
func NewTrace() *Trace {
	return &Trace{
		parts: make(map[pcommon.SpanID]*part), items: make(map[pcommon.SpanID]*trace.Item), others: make(map[pcommon.SpanID]pcommon.SpanID),
		exchanges: make(map[pcommon.SpanID]dialect.Exchange), services: make(map[[16]byte]*origin.Scope),
		begins: make(map[[16]byte]bool),
	}
}

// partSize is the memory of a part beside its facts, in bytes, with its places in the maps.
const partSize = 512

// Bytes estimates the memory of the trace.
func (t *Trace) Bytes() int { return partSize + t.bytes + 48*len(t.others) + partSize*len(t.exchanges) }

// Parts returns how many requests, tools and runs are kept.
func (t *Trace) Parts() int { return len(t.order) }

// SetIncomplete notes that spans of the trace are missing. From then on, no verdict is less careful than it would be with
// them.
func (t *Trace) SetIncomplete() { t.incomplete = true }

// Incomplete reports whether spans of the trace are missing.
func (t *Trace) Incomplete() bool { return t.incomplete }

// registry reads spans of all known instrumentations.
var registry = dialect.Default()

// Set adds a span, or replaces the span with the same id, and returns its kind. It reads the span, and does not keep it. A
// span without an id is no part of a run. The spans of HTTP clients beneath a request are evidence; if there are several,
// set them before the request.
func (t *Trace) Set(s Span) Kind {
	id := s.SpanID()
	if id.IsEmpty() {
		return KindOther
	}
	p := &part{kind: s.Kind, open: s.Open, facts: s.Kind != KindOther, service: s.Service}
	if s.Open {
		t.begins[s.Service] = true
	}
	exchange := p.read(s)
	if p.kind == KindOther {
		if exchange {
			t.addExchange(s.Span)
		}
		t.addLink(id, s.ParentSpanID())
		return KindOther
	}
	p.item.Known.Origin = t.service(s.Service)
	if x, ok := t.exchanges[id]; ok && p.kind == KindRequest {
		p.item.Known.Explain(s.Span, x)
	}
	if before := t.parts[id]; before != nil {
		t.bytes += p.size - before.size
		*before = *p
		return p.kind
	}
	t.makeRoom()
	t.parts[id], t.items[id] = p, &p.item
	t.order = append(t.order, p)
	t.bytes += p.size
	return p.kind
}

// service returns the origin of the spans of a service.
func (t *Trace) service(key [16]byte) *origin.Scope {
	if t.services[key] == nil {
		t.services[key] = &origin.Scope{Resource: &origin.Resource{Key: key}}
	}
	return t.services[key]
}

// makeRoom forgets the oldest ended request or tool if there are too many parts, or the oldest part if all are runs or
// open.
func (t *Trace) makeRoom() {
	if len(t.order) < MaxParts {
		return
	}
	oldest := max(0, slices.IndexFunc(t.order, func(p *part) bool { return p.kind != KindRun && !p.open }))
	t.bytes -= t.order[oldest].size
	delete(t.parts, t.order[oldest].item.ID)
	delete(t.items, t.order[oldest].item.ID)
	t.order = slices.Delete(t.order, oldest, oldest+1)
	t.incomplete = true
}

// The kinds of the dialects, and the roles of the buffer.
var (
	kinds     = [...]Kind{dialect.Other: KindOther, dialect.Request: KindRequest, dialect.Tool: KindTool, dialect.Run: KindRun}
	ofDialect = [...]dialect.Kind{KindRequest: dialect.Request, KindTool: dialect.Tool, KindRun: dialect.Run}
	roles     = [...]trace.Role{KindRequest: trace.Request, KindTool: trace.Tool, KindRun: trace.Run}
)

// KindOf returns the kind of an ended span for llm_classify, by its dialects. It is KindOther for a span that is only a
// part of the request above it.
func KindOf(resource pcommon.Resource, scope pcommon.InstrumentationScope, span ptrace.Span) Kind {
	head, _ := registry.In(dialect.ScopeName(resource, scope)).Recognise(span)
	if head.Part {
		return KindOther
	}
	return kinds[head.Kind]
}

// addLink keeps the parent of a span that is no part of a run. Without that link, the spans beneath it may be taken for a
// run of their own.
func (t *Trace) addLink(id, parent pcommon.SpanID) {
	_, known := t.others[id]
	switch {
	case parent.IsEmpty():
	case !known && len(t.others) >= MaxParts:
		t.incomplete = true
	default:
		t.others[id] = parent
	}
}

// addExchange adds the evidence in the span of an HTTP client to the request above it. Of several spans the last one
// counts, see [dialect.Exchange.Compare].
func (t *Trace) addExchange(span ptrace.Span) {
	above, x := span.ParentSpanID(), dialect.ReadExchange(span)
	before, known := t.exchanges[above]
	switch {
	case above.IsEmpty():
	case !known && len(t.exchanges) >= MaxParts:
		t.incomplete = true
	case known && before.Compare(x) > 0:
	default:
		t.exchanges[above] = x
		if p := t.parts[above]; p != nil && p.kind == KindRequest {
			p.item.Known.Explain(noSpan, x)
		}
	}
}

// read reads the span and its facts. It reports whether the span is of an HTTP client.
func (p *part) read(s Span) (exchange bool) {
	var head dialect.Head
	var by dialect.Dialect = dialect.OTelLLM{}
	if p.kind == KindOther {
		head, by = registry.In(s.Scope).Recognise(s.Span)
		p.kind = kinds[head.Kind]
	} else if named, ok := s.Attributes().Get(string(semconv.RunIDKey)); ok {
		head.Run = spanID(named.AsString())
	}
	if p.kind == KindOther {
		return head.Exchange
	}
	it := &p.item
	it.ID, it.Parent, it.Run = s.SpanID(), s.ParentSpanID(), head.Run
	it.Role = roles[p.kind]
	it.Start, it.End = trace.Clock(s.StartTimestamp()), trace.Clock(s.EndTimestamp())
	it.Known.Dialect, it.Known.Server, it.Known.Part = by, s.Span.Kind() == ptrace.SpanKindServer, head.Part
	if p.open {
		it.End = 0
	}
	facts := it.Known.Facts(s.Span, ofDialect[p.kind])
	if p.open {
		keepOpen(&facts)
	}
	p.size = partSize + facts.Size()
	return false
}

// keepOpen removes the facts about the end from a span that has not ended.
func keepOpen(facts *dialect.Facts) {
	switch {
	case facts.Request != nil:
		facts.Request.End, facts.Request.Open = time.Time{}, facts.Request.Ended == semconv.StreamEndUnset
	case facts.Tool != nil:
		facts.Tool.End = time.Time{}
	case facts.Run != nil:
		r := facts.Run
		r.End, r.Ended, r.Failed, r.ErrorType = time.Time{}, classify.NotObserved, classify.NotObserved, ""
	}
}
