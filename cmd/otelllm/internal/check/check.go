// Package check compares the facts of spans with the vocabulary: which are there, which are
// missing for a verdict, and which contradict each other.
package check

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// Finding is what was found out about one span.
type Finding struct {
	TraceID        string    `json:"trace_id"`
	SpanID         string    `json:"span_id"`
	Name           string    `json:"name"`
	Kind           string    `json:"kind"`
	Present        []string  `json:"present"` // most valuable first, as in Missing
	Missing        []Missing `json:"missing,omitempty"`
	Contradictions []string  `json:"contradictions,omitempty"`
	Unknown        []string  `json:"unknown,omitempty"` // names that look like facts and are not facts of this kind of span
}

// Missing is a fact that a span does not have.
type Missing struct {
	Fact   string `json:"fact"`
	Needed bool   `json:"needed"` // by a verdict; the others only add detail
	Why    string `json:"why"`    // what is unknown without it
}

// lacks reports whether the span lacks what a verdict needs.
func (f *Finding) lacks() bool {
	return slices.ContainsFunc(f.Missing, func(m Missing) bool { return m.Needed })
}

// Problem reports whether the span lacks what a verdict needs, or contradicts itself.
func (f *Finding) Problem() bool { return f.lacks() || len(f.Contradictions) > 0 }

// Trace is the spans of a trace.
type Trace interface{ All() iter.Seq[ptrace.Span] }

// Traces checks the spans of each trace, and counts those that are not a model call, a tool
// or a run.
func Traces[T Trace](traces []T) (findings []Finding, others int) {
	for _, t := range traces {
		found, rest := examine(t)
		findings = append(findings, found...)
		others += rest
	}
	return findings, others
}

// examine checks the spans of a trace, ordered by start time, and counts those that are
// not a model call, a tool or a run.
func examine(t Trace) (findings []Finding, others int) {
	var spans []spanFacts
	hasRun, hasTool := false, false
	parents := make(map[pcommon.SpanID]pcommon.SpanID)
	requests, runs := make(map[pcommon.SpanID]bool), make(map[pcommon.SpanID]bool)
	for span := range t.All() {
		s := readFacts(span)
		parents[span.SpanID()] = span.ParentSpanID()
		requests[span.SpanID()], runs[span.SpanID()] = s.kind == kindRequest, s.kind == kindRun
		if s.kind == kindOther {
			others++
			continue
		}
		hasRun = hasRun || s.kind == kindRun
		hasTool = hasTool || s.kind == kindTool || s.kind == kindRequest && s.handedOver()
		spans = append(spans, s)
	}
	slices.SortStableFunc(spans, func(a, b spanFacts) int { return cmp.Compare(a.span.StartTimestamp(), b.span.StartTimestamp()) })
	for i := range spans {
		s := &spans[i]
		s.tools = hasTool
		s.run = hasRun && !runs[s.span.ParentSpanID()] && !beneath(s.span, parents, requests)
		f := Finding{TraceID: s.span.TraceID().String(), SpanID: s.span.SpanID().String(), Name: s.span.Name(), Kind: s.kind.String()}
		f.checkFacts(s)
		f.Unknown = s.unknown()
		f.Contradictions = append(f.Contradictions, s.contradictions()...)
		f.checkTrace(s, spans, parents)
		findings = append(findings, f)
	}
	if !hasRun {
		addMissingRun(findings, spans, parents)
	}
	return findings, others
}

// beneath reports whether a request is an ancestor of the span.
func beneath(span ptrace.Span, parents map[pcommon.SpanID]pcommon.SpanID, requests map[pcommon.SpanID]bool) bool {
	// The number of steps is bounded, since parents may form a cycle.
	for id, left := span.ParentSpanID(), len(parents); left > 0 && !id.IsEmpty(); id, left = parents[id], left-1 {
		if requests[id] {
			return true
		}
	}
	return false
}

// checkFacts checks the facts of the span's kind.
func (f *Finding) checkFacts(s *spanFacts) {
	ordered, others := factsOf(s.kind)
	if op := s.text(string(otelsemconv.GenAIOperationNameKey)); op != "" && kindByOperation[op] != s.kind {
		f.Contradictions = append(f.Contradictions, fmt.Sprintf("%s=%q is not an operation of a %s", otelsemconv.GenAIOperationNameKey, cut(op), s.kind))
	}
	for _, fact := range ordered {
		v, ok := s.attrs.Get(fact.key)
		switch {
		case ok:
			f.value(&fact, v)
		case fact.due == nil || fact.due(s):
			f.Missing = append(f.Missing, Missing{fact.key, fact.needed, fact.why})
		}
	}
	for _, fact := range others {
		if v, ok := s.attrs.Get(fact.key); ok {
			f.value(&fact, v)
		}
	}
}

func (f *Finding) value(fact *fact, v pcommon.Value) {
	if problem := fact.valid(v); problem != "" {
		f.Contradictions = append(f.Contradictions, fact.key+" "+problem)
		return
	}
	f.Present = append(f.Present, fact.key)
}

func factsOf(k kind) (ordered, others []fact) {
	switch k {
	case kindRequest:
		return requestFacts, otherRequestFacts
	case kindTool:
		return toolFacts, otherToolFacts
	default:
		return runFacts, otherRunFacts
	}
}

// runsWithin returns the ids of a run and of the runs within it: those that name the
// run, or a run within it, or are descendants of one of these.
func runsWithin(run pcommon.SpanID, all []spanFacts, parents map[pcommon.SpanID]pcommon.SpanID) map[string]bool {
	around := make(map[pcommon.SpanID]pcommon.SpanID, len(parents))
	maps.Copy(around, parents)
	for i := range all {
		if s := &all[i]; s.kind == kindRun && s.has(string(semconv.RunIDKey)) {
			for j := range all {
				if all[j].span.SpanID().String() == s.text(string(semconv.RunIDKey)) {
					around[s.span.SpanID()] = all[j].span.SpanID()
				}
			}
		}
	}
	within := make(map[string]bool)
	for i := range all {
		if all[i].kind != kindRun {
			continue
		}
		id := all[i].span.SpanID()
		for at, left := id, len(parents); left > 0 && !at.IsEmpty(); at, left = around[at], left-1 {
			if at == run {
				within[id.String()] = true
				break
			}
		}
	}
	return within
}

// checkTrace checks the span against the others of its trace.
func (f *Finding) checkTrace(s *spanFacts, all []spanFacts, parents map[pcommon.SpanID]pcommon.SpanID) {
	switch s.kind {
	case kindRun:
		within := runsWithin(s.span.SpanID(), all, parents)
		for _, announced := range []struct {
			key  string
			kind kind
		}{{string(semconv.RunRequestsKey), kindRequest}, {string(semconv.RunToolsKey), kindTool}} {
			if !s.has(announced.key) {
				continue
			}
			own, here, want := int64(0), int64(0), s.int(announced.key)
			for i := range all {
				if all[i].kind != announced.kind {
					continue
				}
				run := all[i].text(string(semconv.RunIDKey))
				if run == f.SpanID {
					own++
				}
				if within[run] {
					here++
				}
			}
			if own > want {
				f.Contradictions = append(f.Contradictions, fmt.Sprintf("%s=%d, but %d spans name it as their run", announced.key, want, own))
			} else if here < want {
				f.Missing = append(f.Missing, Missing{
					fmt.Sprintf("%d of %d %s spans", want-here, want, announced.kind), true,
					"announced by " + announced.key + " but not in the trace: sampled out, lost, or without the run's id",
				})
			}
		}
	case kindRequest, kindTool:
		id := s.text(string(semconv.RunIDKey))
		if id == "" {
			return
		}
		i := slices.IndexFunc(all, func(o spanFacts) bool { return o.span.SpanID().String() == id })
		switch {
		case i < 0:
			f.Missing = append(f.Missing, Missing{"the span of the run", true, "named by " + string(semconv.RunIDKey) + " but not in the trace: the run's end is unknown"})
		case all[i].kind != kindRun:
			f.Contradictions = append(f.Contradictions, fmt.Sprintf("%s names a %s, not a run", semconv.RunIDKey, all[i].kind))
		}
	case kindOther:
	}
}
