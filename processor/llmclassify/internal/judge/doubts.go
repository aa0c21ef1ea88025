package judge

import (
	"slices"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// partial reports whether parts of the run may be missing: parts were judged before or forgotten, different spans share one
// id, the spans were released early to make room or for a shutdown, or they are beneath a root that did not wait for the
// rest. A root with no span of its service beneath it is taken for complete, and so is one that only passes a request on.
func (j *Judge) partial(release *trace.Release) bool {
	if release.Doubt.Has(^trace.Uncounted) || j.clash() {
		return true
	}
	switch release.Reason {
	case trace.Late:
		return true
	case trace.Memory, trace.SpanLimit:
	case trace.Complete:
		if release.Run != nil {
			return false
		}
	default:
		if counted(release) || !early(release) && release.Doubt == 0 {
			return false
		}
	}
	calls, last := 0, 0
	for i := range j.relations {
		if s := &j.relations[i]; !s.apart && s.first < 0 && !s.attempt {
			calls, last = calls+1, i
		}
	}
	if calls != 1 || !release.Members[last].Root() {
		return true
	}
	return len(j.relations[last].attempts) > 0 && !j.passesOn(release, last)
}

// clash reports whether different spans of the release share one id.
func (j *Judge) clash() bool {
	return slices.ContainsFunc(j.relations, func(s relation) bool { return s.clashes })
}

// early reports whether a release made room, or the Collector stopped, before other parts had time to arrive.
func early(release *trace.Release) bool {
	return release.Reason == trace.Memory || release.Reason == trace.Shutdown && !release.Settled
}

// doubts returns the names of the reasons why parts of the run may be missing. There are none if its spans name no run, and
// nothing else is missing.
func (j *Judge) doubts(release *trace.Release) []string {
	d := release.Doubt
	if counted(release) {
		d &^= trace.Uncounted
	}
	names := d.Names()
	if j.clash() {
		names = append(names, "doubt.same_span_id")
	}
	switch {
	case release.Reason == trace.Late:
		names = append(names, "doubt.late")
	case early(release), release.Reason == trace.SpanLimit:
		names = append(names, "doubt.released_early")
	}
	return names
}

// counted reports whether the run of a release announced how many parts it has, so that a missing one shows.
func counted(release *trace.Release) bool {
	return release.Run != nil && release.Run.Announced.Known && !release.Run.Announced.Void
}
