package judge

import (
	"cmp"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// relation is the relation of a member to its run.
type relation struct {
	// above is the index of the nearest request or tool above it, -1 if none.
	above int
	// apart: the member is not one of the run's own requests and tools, but judged on its own: a gateway's request beneath
	// the agent's, an MCP call beneath the tool that makes it.
	apart bool
	// duplicate: another member is the same request, and shows more of it.
	duplicate bool
	// first is the index of the same span, delivered before, or -1.
	first int
	// clashes: a different span has the same id.
	clashes bool
	// attempts are the requests beneath a logical call that are its attempts. Together they are one request, so that the
	// call is not one of the run's requests itself.
	attempts []int
	// lacks: the call shows text or tool calls that none of its attempts shows, so that the attempt with them is not here.
	lacks bool
	// attempt: the member is an attempt of the request above it.
	attempt bool
}

// own reports whether the member is one of the run's own requests or tools.
func (s *relation) own() bool { return !s.apart && !s.duplicate && s.first < 0 && len(s.attempts) == 0 }

// relations finds the relation of every member of a release, by index, in the memory of s.
func relations(release *trace.Release, s []relation) []relation {
	members := release.Members
	names := func(m *trace.Member) bool { return !m.Run.IsEmpty() && m.Run == release.RunID } // others are of runs that yielded
	find := trace.Finder(members)
	s = sized(s, len(members))
	for i := range members {
		m := &members[i]
		s[i].above, s[i].first = -1, -1
		if first := find(m.ID); first != i && !m.Foreign {
			if s[i].clashes = !sameSpan(m, &members[first]); !s[i].clashes {
				s[i].first = first
				continue
			}
		}
		above := find(m.Above)
		s[i].apart = m.Foreign
		if above < 0 || above == i || members[above].Foreign && !m.Foreign {
			continue
		}
		s[i].above = above
		if m.Foreign {
			continue
		}
		switch a := &members[above]; {
		case m.Role == trace.Request && a.Role == trace.Request:
			if attempts(m, a, names) {
				s[above].attempts, s[i].attempt = append(s[above].attempts, i), true
			} else {
				s[i].apart = !names(m)
			}
		case m.Role == trace.Tool && a.Role == trace.Tool:
			s[i].apart = !names(m) && sameCall(m, a)
		}
	}
	setProxiesApart(members, s, names)
	setLonePartsApart(members, s)
	setDuplicates(release, s)
	setForeignServicesApart(release, s, names)
	setObservedApart(release, s)
	for i := range s {
		if !s[i].apart && s[i].first < 0 && !names(&members[i]) {
			s[i].apart = beneathApart(s, i)
		}
	}
	for i := range s {
		s[i].lacks = lacksAttempt(members, i, s[i].attempts)
	}
	return s
}

// lacksAttempt reports whether a logical call shows text or tool calls that none of its attempts shows.
func lacksAttempt(members []trace.Member, call int, attempts []int) bool {
	if len(attempts) == 0 {
		return false
	}
	text, calls := shows(&members[call])
	for _, at := range attempts {
		t, c := shows(&members[at])
		text, calls = text && !t, calls && !c
	}
	return text || calls
}

// shows reports whether a request shows that its response had text, and tool calls.
func shows(m *trace.Member) (text, calls bool) {
	r := m.Known.Facts(m.Span, dialect.Request).Request
	return r.Text.N() > 0, r.ToolCalls.N() > 0
}

// setLonePartsApart sets parts of requests apart whose request is unknown.
func setLonePartsApart(members []trace.Member, s []relation) {
	for i := range members {
		if members[i].Known.Part && !s[i].attempt && s[i].first < 0 {
			s[i].apart = true
		}
	}
}

// setDuplicates finds requests that have two spans: one of a run that yielded, such as a run made of an agent's logs, and
// the agent's own. They are one request if they are attempts of one call or children of one span, overlap in time, and
// agree in all facts that both show. Of several candidates, the one nearest in time is taken. The span that shows less is
// not one of the run's requests.
func setDuplicates(release *trace.Release, s []relation) {
	members := release.Members
	reported := func(m *trace.Member) bool { return !m.Run.IsEmpty() && m.Run != release.RunID && m.Yields }
	if !anyMember(members, func(m *trace.Member) bool { return m.Role == trace.Request && reported(m) }) {
		return
	}
	type place struct {
		of      pcommon.SpanID
		attempt bool
	}
	placeOf := func(i int) (place, bool) {
		m := &members[i]
		switch {
		case m.Role != trace.Request || m.Foreign || s[i].apart || s[i].duplicate || s[i].first >= 0 || len(s[i].attempts) > 0:
			return place{}, false
		case s[i].attempt:
			return place{members[s[i].above].ID, true}, true
		default:
			return place{m.Parent, false}, !m.Parent.IsEmpty()
		}
	}
	// A part of an attempt belongs to the successful one, whenever it was recorded.
	same := func(i, o int) bool {
		a, b := &members[i], &members[o]
		overlap := a.Start <= b.End && b.Start <= a.End || s[i].attempt && b.Known.Part && detail(a) < 2 && detail(b) < 2
		return overlap && !differ(a, b)
	}
	paired := make(map[int]bool) // members that already have a duplicate
	own := make(map[place][]int)
	for i := range members {
		if at, ok := placeOf(i); ok && !reported(&members[i]) && !members[i].Known.Server {
			own[at] = append(own[at], i)
		}
	}
	for i := range members {
		at, ok := placeOf(i)
		if !ok || !reported(&members[i]) {
			continue
		}
		nearest := -1
		candidates := own[at]
		for _, o := range candidates[:min(len(candidates), maxReported)] {
			if !paired[o] && same(i, o) && (nearest < 0 || apartBy(&members[i], &members[o]) < apartBy(&members[i], &members[nearest])) {
				nearest = o
			}
		}
		if nearest < 0 {
			continue
		}
		paired[nearest] = true
		if detail(&members[i]) > detail(&members[nearest]) {
			setDuplicate(s, nearest)
		} else {
			setDuplicate(s, i)
		}
	}
}

// setDuplicate marks a member as a duplicate, which is not one of the run's requests.
func setDuplicate(s []relation, i int) {
	s[i].duplicate = true
	if s[i].attempt {
		s[i].attempt = false
		above := &s[s[i].above]
		above.attempts = slices.DeleteFunc(above.attempts, func(n int) bool { return n == i })
	}
}

// differ reports whether two requests cannot be one: they asked different models, or are different attempts, or made
// different calls, as far as both show that. The attempt number does not tell if one request stands for attempts before it:
// Claude Code's spans count all of them, while its logs begin again when a stream breaks.
func differ(a, b *trace.Member) bool {
	x, y := a.Known.Facts(a.Span, dialect.Request).Request, b.Known.Facts(b.Span, dialect.Request).Request
	if x.Attempt > 0 && y.Attempt > 0 && x.Attempt != y.Attempt && x.FailedBefore+y.FailedBefore == 0 {
		return true
	}
	if len(x.CallIDs) > 0 && len(y.CallIDs) > 0 && !slices.ContainsFunc(x.CallIDs, func(id string) bool { return slices.Contains(y.CallIDs, id) }) {
		return true
	}
	model, other := modelOf(a), modelOf(b)
	// One may be the dated form of the other.
	return model != "" && other != "" && !strings.HasPrefix(model, other) && !strings.HasPrefix(other, model)
}

// modelOf returns the model of a request, without the provider before it ("openai/gpt-5"); "" if it is not recorded.
func modelOf(m *trace.Member) string {
	name := ""
	if m.Known.Names != nil { // its span is released
		name = m.Known.Names.Model
	} else {
		_, name = dialect.ModelOf(m.Span)
	}
	return name[strings.LastIndexByte(name, '/')+1:]
}

// apartBy returns by how much the times of two spans differ.
func apartBy(a, b *trace.Member) pcommon.Timestamp {
	return max(a.Start, b.Start) - min(a.Start, b.Start) + max(a.End, b.End) - min(a.End, b.End)
}

// maxReported bounds the requests of one place that are compared with a reported one.
const maxReported = 256

// detail ranks how much a request's span shows of its ending: success, then a failure, then a failure with a known cause.
func detail(m *trace.Member) int {
	r := m.Known.Facts(m.Span, dialect.Request).Request
	switch failed := classify.Failed(r); {
	case failed && (r.Ended != semconv.StreamEndUnset || r.Transport.Cause != semconv.TransportCauseUnset || r.Provider.Kind != semconv.ProviderErrorKindUnset):
		return 3
	case failed:
		return 2
	case r.Ended != semconv.StreamEndUnset || r.Failed != classify.NotObserved:
		return 1
	default:
		return 0
	}
}

// sameSpan reports whether two members with one id are one span, delivered twice, as far as the run is concerned.
func sameSpan(a, b *trace.Member) bool {
	if a.Role != b.Role || a.Start != b.Start || a.End != b.End {
		return false
	}
	if a.Role == trace.Run {
		x, y := a.Announced, b.Announced
		x.Void, y.Void = false, false
		return x == y
	}
	return effectsOf(a) == effectsOf(b)
}

// attempts reports whether m is an attempt of the logical call a above it. Only the client of this project names a run, and
// it records attempts. If neither names a run, both must belong to one service, and m must not serve a request of another.
func attempts(m, a *trace.Member, names func(*trace.Member) bool) bool {
	if names(a) {
		return false
	}
	return names(m) || !m.Known.Server && trace.SameService(m.Item, a.Item)
}

// sameCall reports whether the tool span m executes the call of a above it, as the span of an MCP client does beneath the
// agent's.
func sameCall(m, a *trace.Member) bool {
	inner, outer := m.Known.Facts(m.Span, dialect.Tool).Tool, a.Known.Facts(a.Span, dialect.Tool).Tool
	return inner.CallID == "" || inner.CallID == outer.CallID
}

// setForeignServicesApart sets requests of other services apart, in a run whose own client records every request: the run's
// own would name it.
func setForeignServicesApart(release *trace.Release, s []relation, names func(*trace.Member) bool) {
	run, members := release.Run, release.Members
	if run == nil || !anyMember(members, func(m *trace.Member) bool { return m.Role == trace.Request && names(m) }) {
		return
	}
	for i := range members {
		if m := &members[i]; m.Role == trace.Request && !names(m) && !trace.SameService(m.Item, run) {
			s[i].apart = true
		}
	}
}

// setObservedApart sets tools apart that a yielding run observed in its requests, if the tool's own span is here.
func setObservedApart(release *trace.Release, s []relation) {
	members := release.Members
	observed := func(m *trace.Member) bool { return m.Role == trace.Tool && !m.Run.IsEmpty() && m.Run != release.RunID }
	if !anyMember(members, observed) {
		return
	}
	executed := make(map[string]*spanTimes) // by call, or by the name of the tool
	// A rejected call did nothing, and Claude Code has a span of the rejection alone.
	rejected := func(m *trace.Member) bool {
		return m.Known.Facts(m.Span, dialect.Tool).Tool.Outcome == semconv.ToolOutcomeRejected && executed[rejectedTool].during(m.Item)
	}
	add := func(key string, it *trace.Item) {
		if executed[key] == nil {
			executed[key] = new(spanTimes)
		}
		executed[key].add(it)
	}
	tools := func(visit func(i int, m *trace.Member, id, name string)) { eachTool(members, s, visit) }
	tools(func(_ int, m *trace.Member, id, name string) {
		if id == "" {
			id = name
		}
		if !observed(m) {
			add(id, m.Item)
		}
	})
	// Of several observers of one call, the one nearest to the agent counts.
	depths := depthsOf(s)
	var order []int
	tools(func(i int, m *trace.Member, _, _ string) {
		if observed(m) {
			order = append(order, i)
		}
	})
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(depths[a], depths[b]), compareStarts(&members[a], &members[b]))
	})
	for _, i := range order {
		m := &members[i]
		id, name := executedCall(m)
		same := id != "" && executed[id].during(m.Item) || executed[name].during(m.Item) || rejected(m)
		if s[i].apart = s[i].apart || same; !same && id != "" {
			add(id, m.Item) // another run may have observed it, too
		}
	}
}

// eachTool visits the tools of a run, each once, with its call.
func eachTool(members []trace.Member, s []relation, visit func(i int, m *trace.Member, id, name string)) {
	for i := range members {
		if m := &members[i]; m.Role == trace.Tool && !m.Foreign && s[i].first < 0 {
			id, name := executedCall(m)
			visit(i, m, id, name)
		}
	}
}

// executedCall returns the id of a tool's call, "" if it is not recorded, and a key for the tool's name.
func executedCall(m *trace.Member) (id, name string) {
	t := m.Known.Facts(m.Span, dialect.Tool).Tool
	if t.CallID == "" && t.Name == "" && t.Outcome == semconv.ToolOutcomeRejected {
		return "", rejectedTool
	}
	return t.CallID, "tool " + t.Name
}

// rejectedTool stands for a rejected call without a recorded id or name.
const rejectedTool = "rejected"

// beneathApart reports whether a member is beneath one that is apart, and so is apart.
func beneathApart(s []relation, i int) bool {
	for range maxDepth {
		if i = s[i].above; i < 0 {
			return false
		}
		if s[i].apart {
			return true
		}
	}
	return false
}
