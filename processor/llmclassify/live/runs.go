package live

import (
	"encoding/hex"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// run is one run of the trace, as its spans show it now.
type run struct {
	id      pcommon.SpanID
	span    *part // its own span, or nil
	named   bool  // a part names it, or its span is here
	members []*part
	inner   []*run // runs that began within it
	outer   *run

	// toolsHere is set for a run without its earlier parts: whether a tool that ran would be here. It is nil for a run with
	// all its parts, which show that themselves.
	toolsHere *bool
}

// runs finds the runs, in the order in which their first spans were set.
func (t *Trace) runs() []*run {
	view := trace.View(t.items, t.others)
	byID := make(map[pcommon.SpanID]*run)
	var list []*run
	get := func(id pcommon.SpanID) *run {
		r := byID[id]
		if r == nil {
			r = &run{id: id}
			byID[id] = r
			list = append(list, r)
		}
		return r
	}
	for _, p := range t.order {
		if p.kind == KindRun {
			r := get(p.item.ID)
			r.span, r.named = p, true
			continue
		}
		place := trace.Locate(view, &p.item)
		t.incomplete = t.incomplete || place.Endless
		p.above = place.Above
		r := get(place.Run)
		r.named = r.named || place.OfRun()
		r.members = append(r.members, p)
	}
	for _, r := range list {
		if r.span != nil {
			outer, endless := trace.Around(view, &r.span.item)
			t.incomplete = t.incomplete || endless
			r.setOuter(byID[outer])
		}
	}
	return list
}

// setOuter makes r a run within outer, unless outer is within r.
func (r *run) setOuter(outer *run) {
	for o := outer; o != nil; o = o.outer {
		if o == r {
			return
		}
	}
	if r.outer = outer; outer != nil {
		outer.inner = append(outer.inner, r)
	}
}

// declaresTools reports whether the run, or a run around it, declares that it records every tool.
func (r *run) declaresTools() bool {
	for ; r != nil; r = r.outer {
		if r.span != nil && r.span.item.Known.Facts(noSpan, ofDialect[KindRun]).Run.AnnouncedTools.Observed() {
			return true
		}
	}
	return false
}

// since returns the run without the parts that began before that time.
func (t *Trace) since(r *run, at pcommon.Timestamp) *run {
	later := *r
	here := (t.reportsTools(r) || r.declaresTools()) && !r.ranUnrecorded()
	later.toolsHere = &here
	later.members = slices.DeleteFunc(slices.Clone(r.members), func(p *part) bool { return p.item.Start < at })
	return &later
}

// open reports whether the run has not ended.
func (r *run) open() bool { return r.span == nil || r.span.open }

// count returns how many of the parts name the run.
func (r *run) count() (requests, tools int) {
	for _, p := range r.members {
		switch {
		case p.item.Run != r.id:
		case p.kind == KindTool:
			tools++
		default:
			requests++
		}
	}
	return requests, tools
}

// reportsTools reports whether a running tool of the run would be here: another one was, and its producer reports tools
// when they begin. Other producers report a tool after its end.
func (t *Trace) reportsTools(r *run) bool {
	return slices.ContainsFunc(r.members, func(p *part) bool {
		return p.kind == KindTool && (p.facts || t.begins[p.service])
	})
}

// spanID parses an id of 16 hexadecimal digits. It returns the empty id for any other text.
func spanID(text string) (id pcommon.SpanID) {
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == len(id) {
		id = pcommon.SpanID(raw)
	}
	return id
}
