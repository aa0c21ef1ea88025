package judge

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// callOf returns the logical call of an attempt; for a request that is no attempt, the request itself.
func callOf(s []relation, i int) int {
	for range maxDepth {
		if !s[i].attempt {
			break
		}
		i = s[i].above
	}
	return i
}

// assemble builds the run of a release, and lists which members are its requests and tools, in the order of their start.
func (j *Judge) assemble(release *trace.Release) {
	run, s := &j.run, j.relations
	before := *run
	*run = classify.Run{}
	j.lists.Reset()
	if release.Run != nil {
		for i := range release.Members {
			if m := &release.Members[i]; m.Item == release.Run {
				m.Known.Run(m.Span, run)
			}
		}
	}
	if exceeds(release, s, run) {
		run.AnnouncedRequests, run.AnnouncedTools = 0, 0 // nothing follows from the announced numbers
	}
	requests, tools := j.requests[:0], j.tools[:0]
	for i := range release.Members {
		switch m := &release.Members[i]; {
		case !s[i].own():
		case m.Role == trace.Request:
			requests = append(requests, i)
		case m.Role == trace.Tool:
			tools = append(tools, i)
		}
	}
	byStart := func(a, b int) int { return compareStarts(&release.Members[a], &release.Members[b]) }
	slices.SortFunc(requests, byStart)
	slices.SortFunc(tools, byStart)

	run.Requests = room(before.Requests, len(requests))
	for n, i := range requests {
		m := &release.Members[i]
		m.Known.Request(m.Span, &run.Requests[n], &j.lists)
	}
	run.Tools = room(before.Tools, len(tools))
	for n, i := range tools {
		m := &release.Members[i]
		m.Known.Tool(m.Span, &run.Tools[n])
	}
	if release.Run == nil {
		span(run)
		if release.Reason == trace.RunExpired && release.Named {
			run.Ended = classify.No // there is a run, and its span will not arrive
		}
	}
	j.requests, j.tools = requests, tools
}

// exceeds reports whether more requests or tools name the run of a release than it announced, counting members that began
// before its end.
func exceeds(release *trace.Release, s []relation, run *classify.Run) bool {
	if !run.AnnouncedRequests.Observed() && !run.AnnouncedTools.Observed() {
		return false
	}
	requests, tools := 0, 0
	for i := range release.Members {
		m := &release.Members[i]
		if m.Foreign || s[i].first >= 0 || m.Run != release.RunID || release.Run.End != 0 && m.Start > release.Run.End {
			continue
		}
		switch m.Role {
		case trace.Request:
			requests++
		case trace.Tool:
			tools++
		case trace.Run:
		}
	}
	return run.AnnouncedRequests.Observed() && requests > run.AnnouncedRequests.N() ||
		run.AnnouncedTools.Observed() && tools > run.AnnouncedTools.N()
}

// compareStarts orders spans by their start, and at the same start by their id. A verdict must not depend on the order of
// arrival.
func compareStarts(a, b *trace.Member) int {
	if c := cmp.Compare(a.Start, b.Start); c != 0 {
		return c
	}
	return compareIDs(a, b)
}

func compareIDs(a, b *trace.Member) int { return bytes.Compare(a.ID[:], b.ID[:]) }

// room returns n elements to be overwritten, in the memory of list if it is large enough. It clears the elements after
// them.
func room[E any](list []E, n int) []E {
	clear(list[min(n, len(list)):])
	return slices.Grow(list[:0], n)[:n]
}

// sized returns n zero elements, in the memory of list if it is large enough.
func sized[E any](list []E, n int) []E {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}

// span gives a run without a span the time of its requests and tools.
func span(run *classify.Run) {
	for i := range run.Requests {
		r := &run.Requests[i]
		if run.Start.IsZero() || r.Start.Before(run.Start) {
			run.Start = r.Start
		}
		if r.End.After(run.End) {
			run.End = r.End
		}
	}
	for i := range run.Tools {
		t := &run.Tools[i]
		if run.Start.IsZero() || t.Start.Before(run.Start) {
			run.Start = t.Start
		}
		if t.End.After(run.End) {
			run.End = t.End
		}
	}
}
