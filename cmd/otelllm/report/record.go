package report

import (
	"math"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// RecordKind is what a [Record] is about.
type RecordKind string

// Kinds of records.
const (
	RecordRun     RecordKind = "run"     // one run of an agent
	RecordRequest RecordKind = "request" // a model call
	RecordTool    RecordKind = "tool"    // an execution of a tool
)

// Record is a run, or a model call that belongs to no run, as JSON. It has the
// vocabulary's attributes and those of the GenAI conventions that hold no content; every
// other attribute, and every other event, is left out, because an instrumentation may have
// put a prompt there.
type Record struct {
	Kind     RecordKind `json:"kind"`
	TraceID  string     `json:"trace_id"`
	SpanID   string     `json:"span_id"`
	ParentID string     `json:"parent_span_id,omitempty"`
	Name     string     `json:"name"`
	Service  string     `json:"service,omitempty"`
	Scope    string     `json:"scope,omitempty"`     // the instrumentation
	SpanKind string     `json:"span_kind,omitempty"` // of the span: client, server, internal
	Failed   bool       `json:"error,omitempty"`     // its status is Error
	Start    time.Time  `json:"start"`
	End      time.Time  `json:"end"`

	Attributes map[string]any `json:"attributes,omitempty"`
	Events     []Event        `json:"events,omitempty"`

	// The parts of a run, each ordered by start time.
	Requests []Record `json:"requests,omitempty"`
	Tools    []Record `json:"tools,omitempty"`
	Served   []Record `json:"served,omitempty"` // model calls beneath the requests: a gateway's
}

// Event is an event of a span.
type Event struct {
	Name       string         `json:"name"`
	Time       time.Time      `json:"time"`
	Attributes map[string]any `json:"attributes,omitempty"`
}

// Record returns the run as a record.
func (r *Run) Record() Record {
	out := r.Span.record(RecordRun)
	out.Requests = records(r.Requests, RecordRequest)
	out.Tools = records(r.Tools, RecordTool)
	out.Served = records(r.Served, RecordRequest)
	return out
}

// Records returns the judged runs of a trace, and what belongs to none: model calls, and
// what else failed. Each is ordered by start time.
func (s *Spans) Records(id pcommon.TraceID) []Record {
	list := []Record{}
	f := newForest(s.Trace(id))
	runs := f.runs()
	for i := range runs {
		list = append(list, runs[i].Record())
	}
	for _, one := range f.lone(runs) {
		r := one.record(loneKind(&one.Span))
		r.Served = records(one.Served, RecordRequest)
		list = append(list, r)
	}
	return list
}

// loneKind returns the kind of a span that is shown although it belongs to no run: a model
// call, and what failed of everything else. It returns "" for other spans.
func loneKind(s *Span) RecordKind {
	switch of := kindOf(s); {
	case of == kindRequest:
		return RecordRequest
	case !s.Verdict.Failed():
		return ""
	case of == kindTool:
		return RecordTool
	default: // only requests and tools fail, and tools have this operation in most instrumentations
		return RecordRequest
	}
}

// Lone returns what is shown of a trace although it belongs to no run, ordered by start
// time: model calls, each with those beneath it, and what else failed. None has an outcome.
func (s *Spans) Lone(id pcommon.TraceID) []Run {
	f := newForest(s.Trace(id))
	return f.lone(f.runs())
}

func records(spans []Span, kind RecordKind) []Record {
	var list []Record
	for i := range spans {
		list = append(list, spans[i].record(kind))
	}
	return list
}

func (s *Span) record(kind RecordKind) Record {
	out := Record{
		Kind: kind, TraceID: s.TraceID.String(), SpanID: s.ID.String(),
		Name: s.Name, Service: s.Service, Start: s.Start.UTC(), End: s.End.UTC(),
		Scope: s.Scope, SpanKind: nameOfKind(s.Kind), Failed: s.Status == ptrace.StatusCodeError,
		Attributes: allowed(s.Attributes), Events: s.Events,
	}
	if !s.Parent.IsEmpty() {
		out.ParentID = s.Parent.String()
	}
	return out
}

// allowed returns the attributes that a record may have, or nil if there are none.
func allowed(attrs pcommon.Map) map[string]any {
	var out map[string]any
	for key, value := range attrs.All() {
		if !recordKeys[key] {
			continue
		}
		if out == nil {
			out = make(map[string]any, attrs.Len())
		}
		out[key] = finite(value.AsRaw())
	}
	nameErrors(out)
	return out
}

// finite returns a value that JSON can have: numbers that are not finite become their names.
func finite(v any) any {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
	case []any:
		for i := range v {
			v[i] = finite(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = finite(v[key])
		}
	}
	return v
}

func readEvents(span ptrace.Span) []Event {
	var list []Event
	for _, e := range span.Events().All() {
		if recordEvents[e.Name()] {
			list = append(list, Event{Name: e.Name(), Time: e.Timestamp().AsTime().UTC(), Attributes: allowed(e.Attributes())})
		}
	}
	return list
}
