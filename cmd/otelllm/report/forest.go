package report

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/semconv"
)

// forest is the spans of a trace, with what leads from one to another. What is made of it
// takes a time in proportion to the number of spans, save for runs within runs.
type forest struct {
	spans    []Span // ordered by start time
	byID     map[pcommon.SpanID]int
	children map[pcommon.SpanID][]int
	named    map[string][]int         // by the run that they name
	beneath  map[pcommon.SpanID][]int // that name no run, by the nearest judged run above
}

func newForest(spans []Span) *forest {
	f := &forest{
		spans: spans, byID: make(map[pcommon.SpanID]int, len(spans)), children: make(map[pcommon.SpanID][]int),
		named: make(map[string][]int), beneath: make(map[pcommon.SpanID][]int),
	}
	for i := range spans {
		f.byID[spans[i].ID] = i
		f.children[spans[i].Parent] = append(f.children[spans[i].Parent], i)
	}
	nearest := make(map[pcommon.SpanID]pcommon.SpanID)
	for i := range spans {
		if run, ok := spans[i].Attributes.Get(string(semconv.RunIDKey)); ok {
			f.named[run.Str()] = append(f.named[run.Str()], i)
		} else if run := f.nearest(spans[i].Parent, nearest); !run.IsEmpty() {
			f.beneath[run] = append(f.beneath[run], i)
		}
	}
	return f
}

// nearest returns the nearest judged run upwards from the span with this id, or the empty
// id. A span below a request is another instrumentation's record of it, and of no run. Known
// has what was found before.
func (f *forest) nearest(id pcommon.SpanID, known map[pcommon.SpanID]pcommon.SpanID) (run pcommon.SpanID) {
	var path []pcommon.SpanID
	for {
		i, here := f.byID[id]
		before, again := known[id]
		switch {
		case again:
			run = before // on a cycle it is empty
		case !here || kindOf(&f.spans[i]) == kindRequest:
		case f.spans[i].Verdict.Outcome != semconv.RunOutcomeUnset:
			run = id
		default:
			path = append(path, id)
			known[id] = pcommon.SpanID{}
			id = f.spans[i].Parent
			continue
		}
		for _, on := range path {
			known[on] = run
		}
		return run
	}
}

// runs returns the judged runs.
func (f *forest) runs() []Run {
	var runs []Run
	for i := range f.spans {
		if f.spans[i].Verdict.Outcome != semconv.RunOutcomeUnset {
			runs = append(runs, f.run(&f.spans[i]))
		}
	}
	return runs
}

// run returns the run whose verdict the span carries.
func (f *forest) run(carrier *Span) Run {
	run := Run{Span: *carrier}
	named, unnamed := f.parts(carrier)
	names := make(map[kind]bool) // kinds with a span that names the run
	for _, i := range named {
		names[kindOf(&f.spans[i])] = true
	}
	// If some spans of a kind name the run, a span that does not is another
	// instrumentation's record of the same call.
	unnamed = slices.DeleteFunc(slices.Clone(unnamed), func(i int) bool { return names[kindOf(&f.spans[i])] })
	parts := slices.Concat(named, unnamed)
	slices.Sort(parts)
	var requests []int
	for _, i := range parts {
		switch span := &f.spans[i]; kindOf(span) {
		case kindRequest:
			run.Requests = append(run.Requests, *span)
			requests = append(requests, i)
		case kindTool:
			run.Tools = append(run.Tools, *span)
		case kindOther:
		}
	}
	run.Served = f.served(requests)
	return run
}

// parts returns the spans that name the run which a span carries the verdict of, and those
// that name no run and are beneath it, or beside the request or tool that represents it.
func (f *forest) parts(carrier *Span) (named, unnamed []int) {
	id := carrier.ID
	if carrier.Name == semconv.SpanRunAbandoned { // it represents a run whose span never arrived
		id = carrier.Parent
	}
	named = f.named[id.String()]
	if kindOf(carrier) == kindOther {
		return named, f.beneath[carrier.ID]
	}
	for _, i := range f.children[carrier.Parent] {
		if _, names := f.spans[i].Attributes.Get(string(semconv.RunIDKey)); !names {
			unnamed = append(unnamed, i)
		}
	}
	return named, unnamed
}

// served returns the model calls that are descendants of these requests, and not among them.
func (f *forest) served(requests []int) []Span {
	seen := make(map[int]bool, len(requests)) // parents may form a cycle
	for _, i := range requests {
		seen[i] = true
	}
	var found []int
	for todo := slices.Clone(requests); len(todo) > 0; {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, child := range f.children[f.spans[i].ID] {
			if seen[child] {
				continue
			}
			seen[child] = true
			todo = append(todo, child)
			if kindOf(&f.spans[child]) == kindRequest {
				found = append(found, child)
			}
		}
	}
	slices.Sort(found)
	var list []Span
	for _, i := range found {
		list = append(list, f.spans[i])
	}
	return list
}

// lone returns what is shown although it belongs to none of the runs.
func (f *forest) lone(runs []Run) (list []Run) {
	within := make(map[pcommon.SpanID]bool)
	for _, run := range runs {
		for _, parts := range [][]Span{{run.Span}, run.Requests, run.Tools, run.Served} {
			for i := range parts {
				within[parts[i].ID] = true
			}
		}
		// What has no operation is in none of these lists, nor another instrumentation's
		// record of the same call.
		named, unnamed := f.parts(&run.Span)
		for _, i := range slices.Concat(named, unnamed) {
			within[f.spans[i].ID] = true
		}
	}
	var alone []int
	for i := range f.spans {
		if loneKind(&f.spans[i]) != "" && !within[f.spans[i].ID] {
			alone = append(alone, i)
		}
	}
	above := make(map[pcommon.SpanID]bool)
	for _, i := range alone {
		if kindOf(&f.spans[i]) == kindRequest {
			above[f.spans[i].ID] = true
		}
	}
	known, shown := make(map[pcommon.SpanID]bool), make(map[pcommon.SpanID]bool)
	add := func(i int) {
		one := Run{Span: f.spans[i]}
		if kindOf(&one.Span) == kindRequest {
			one.Served = f.served([]int{i})
		}
		list = append(list, one)
		shown[one.ID] = true
		for n := range one.Served {
			shown[one.Served[n].ID] = true
		}
	}
	for _, i := range alone {
		if !f.under(f.spans[i].Parent, above, known) {
			add(i)
		}
	}
	for _, i := range alone {
		if !shown[f.spans[i].ID] { // its parents form a cycle
			add(i)
		}
	}
	slices.SortStableFunc(list, func(a, b Run) int { return a.Start.Compare(b.Start) })
	return list
}

// under reports whether one of these spans is the one with this id, or above it. Known has
// what was found before.
func (f *forest) under(id pcommon.SpanID, above, known map[pcommon.SpanID]bool) (found bool) {
	var path []pcommon.SpanID
	for {
		i, here := f.byID[id]
		before, again := known[id]
		switch {
		case again:
			found = before
		case above[id]:
			found = true
		case here:
			path = append(path, id)
			known[id] = false
			id = f.spans[i].Parent
			continue
		}
		for _, on := range path {
			known[on] = found
		}
		return found
	}
}
