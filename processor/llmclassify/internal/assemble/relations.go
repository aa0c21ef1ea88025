package assemble

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
)

// relation is what a member is to its run.
type relation struct {
	// above is the index of the nearest request or tool above it, -1 if none.
	above int
	// apart: it is not one of the run's own requests and tools, but judged on its own: a
	// gateway's request beneath the agent's, an MCP call beneath the tool that makes it.
	apart bool
	// first is the index of the same span, delivered before, or -1.
	first int
	// attempts are the requests beneath it whose logical call it is. They are one request
	// with it, so that it is not one of the run's requests itself.
	attempts []int
	// attempt: it is one of the attempts of what is above it.
	attempt bool
}

// own reports whether it is one of the run's own requests or tools.
func (s *relation) own() bool { return !s.apart && s.first < 0 && len(s.attempts) == 0 }

// relations finds the relation of every member of a release, by index, in the memory of s.
func relations(release *Release, s []relation) []relation {
	members := release.Members
	names := func(m *Member) bool { return !m.Run.IsEmpty() && m.Run == release.RunID } // others are of runs that yielded
	find := finder(members)
	s = sized(s, len(members))
	for i := range members {
		m := &members[i]
		s[i].above, s[i].first = -1, -1
		if first := find(m.ID); first != i && !m.Foreign {
			s[i].first = first
			continue
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
		case m.Role == hold.Request && a.Role == hold.Request:
			if attempts(m, a, names) {
				s[above].attempts, s[i].attempt = append(s[above].attempts, i), true
			} else {
				s[i].apart = !names(m)
			}
		case m.Role == hold.Tool && a.Role == hold.Tool:
			s[i].apart = !names(m) && sameCall(m, a)
		}
	}
	setForeignServicesApart(release, s, names)
	setObservedApart(release, s)
	for i := range s {
		if !s[i].apart && s[i].first < 0 && !names(&members[i]) {
			s[i].apart = beneathApart(s, i)
		}
	}
	return s
}

// finder returns a function that finds members by id: the first of several, or -1.
func finder(members []Member) func(pcommon.SpanID) int {
	const few = 32 // they are searched one by one
	if len(members) <= few {
		return func(id pcommon.SpanID) int {
			if id.IsEmpty() {
				return -1
			}
			for i := range members {
				if members[i].ID == id {
					return i
				}
			}
			return -1
		}
	}
	byID := make(map[pcommon.SpanID]int, len(members))
	for i := range members {
		if _, ok := byID[members[i].ID]; !ok {
			byID[members[i].ID] = i
		}
	}
	return func(id pcommon.SpanID) int {
		if i, ok := byID[id]; ok {
			return i
		}
		return -1
	}
}

// attempts reports whether m is an attempt of the logical call a above it. Only the
// client of this project names a run, and it records attempts. If neither names a run,
// both must belong to one service, and m must not serve a request of another.
func attempts(m, a *Member, names func(*Member) bool) bool {
	if names(a) {
		return false
	}
	return names(m) || !m.Known.Server && SameService(m.Item, a.Item)
}

// sameCall reports whether the tool span m executes the call of a above it, as the span
// of an MCP client does beneath the agent's.
func sameCall(m, a *Member) bool {
	inner, outer := m.Known.Facts(m.Span, dialect.Tool).Tool, a.Known.Facts(a.Span, dialect.Tool).Tool
	return inner.CallID == "" || inner.CallID == outer.CallID
}

// setForeignServicesApart sets requests apart that another service made, in a run whose
// own client records every request: the run's own would name it.
func setForeignServicesApart(release *Release, s []relation, names func(*Member) bool) {
	run, members := release.Run, release.Members
	if run == nil || !slices.ContainsFunc(members, func(m Member) bool { return !m.Foreign && m.Role == hold.Request && names(&m) }) {
		return
	}
	for i := range members {
		if m := &members[i]; m.Role == hold.Request && !names(m) && !SameService(m.Item, run) {
			s[i].apart = true
		}
	}
}

// setObservedApart sets the tools apart that a run which yielded has observed in its
// requests, if the one that executed the call has a span of its own here.
func setObservedApart(release *Release, s []relation) {
	members := release.Members
	observed := func(m *Member) bool { return m.Role == hold.Tool && !m.Run.IsEmpty() && m.Run != release.RunID }
	if !slices.ContainsFunc(members, func(m Member) bool { return !m.Foreign && observed(&m) }) {
		return
	}
	executed := make(map[string]*spanTimes) // by call, or by the name of the tool
	key := func(m *Member) (id, name string) {
		t := m.Known.Facts(m.Span, dialect.Tool).Tool
		return t.CallID, "tool " + t.Name
	}
	times := func(key string) *spanTimes {
		if executed[key] == nil {
			executed[key] = &spanTimes{}
		}
		return executed[key]
	}
	// What may be added is announced first.
	tools := func(visit func(i int, m *Member, id, name string)) {
		for i := range members {
			if m := &members[i]; m.Role == hold.Tool && !m.Foreign && s[i].first < 0 {
				id, name := key(m)
				visit(i, m, id, name)
			}
		}
	}
	tools(func(_ int, m *Member, id, name string) {
		if id == "" && !observed(m) {
			id = name
		}
		if id != "" {
			times(id).addStart(m.Start)
		}
	})
	tools(func(_ int, m *Member, id, name string) {
		if id == "" {
			id = name
		}
		if !observed(m) {
			times(id).add(m.Item)
		}
	})
	// Of several that observed one call, the one nearest to the agent counts.
	depths := depthsOf(s)
	var order []int
	tools(func(i int, m *Member, _, _ string) {
		if observed(m) {
			order = append(order, i)
		}
	})
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(depths[a], depths[b]), compareStarts(&members[a], &members[b]))
	})
	for _, i := range order {
		m := &members[i]
		id, name := key(m)
		same := id != "" && executed[id].during(m.Item) || executed[name].during(m.Item)
		if s[i].apart = s[i].apart || same; !same && id != "" {
			times(id).add(m.Item) // another run may have observed it, too
		}
	}
}

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
