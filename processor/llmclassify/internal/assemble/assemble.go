package assemble

import (
	"cmp"
	"slices"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/semconv"
)

// Diagnoses are the verdicts on the spans of one release.
type Diagnoses struct {
	// Run is the run's, nil where it is not due.
	Run *classify.Diagnosis
	// Carrier is the member that carries Run: the run span, or without one the
	// last LLM span to end.
	Carrier int
	// Members are the verdicts on requests and tools, by member; nil where nothing
	// failed.
	Members []*classify.Diagnosis
}

// Diagnose judges a release: its own requests and tools as a run, and each of
// the spans that are none of those for itself.
func Diagnose(release *Release) Diagnoses {
	members := release.Members
	d := Diagnoses{Carrier: -1, Members: make([]*classify.Diagnosis, len(members))}
	s := standings(members)
	for i := range members {
		if s[i].apart && len(s[i].attempts) == 0 {
			d.Members[i] = alone(&members[i])
		}
	}

	run, requests, tools := assemble(release, s)
	linkUpstream(release, s, d.Members, run, requests)
	verdicts := classify.Judge(run)
	for n, i := range requests {
		d.Members[i] = failed(&verdicts.Requests[n])
	}
	for n, i := range tools {
		d.Members[i] = failed(&verdicts.Tools[n])
	}
	for i := range members {
		if len(s[i].attempts) > 0 {
			d.Members[i] = logical(members, s, d.Members, i)
		}
	}
	if release.Whole {
		d.Run, d.Carrier = &verdicts.Run, carrier(release)
	}
	return d
}

// assemble builds the run of a release, and says which members its requests and
// tools are, in the order of their start.
func assemble(release *Release, s []standing) (run *classify.Run, requests, tools []int) {
	run = &classify.Run{}
	if release.Run != nil {
		for i := range release.Members {
			if m := &release.Members[i]; m.Item == release.Run {
				*run = *m.Known.Facts(m.Span, dialect.Run).Run
			}
		}
	}
	for i := range release.Members {
		switch m := &release.Members[i]; {
		case !s[i].own():
		case m.Role == hold.Request:
			requests = append(requests, i)
		case m.Role == hold.Tool:
			tools = append(tools, i)
		}
	}
	byStart := func(a, b int) int { return cmp.Compare(release.Members[a].Start, release.Members[b].Start) }
	slices.SortStableFunc(requests, byStart)
	slices.SortStableFunc(tools, byStart)

	run.Requests = make([]classify.Request, len(requests))
	for n, i := range requests {
		m := &release.Members[i]
		m.Known.Request(m.Span, &run.Requests[n])
	}
	run.Tools = make([]classify.Tool, len(tools))
	for n, i := range tools {
		m := &release.Members[i]
		m.Known.Tool(m.Span, &run.Tools[n])
	}
	if release.Run == nil {
		span(run)
	}
	return run, requests, tools
}

// span gives a run without a span of its own the time of its parts.
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

// failed is the verdict where it tells of a failure, else nil.
func failed(d *classify.Diagnosis) *classify.Diagnosis {
	if !d.Failed() {
		return nil
	}
	return d
}

// alone judges a request or tool for itself.
func alone(m *Member) *classify.Diagnosis {
	switch m.Role {
	case hold.Request:
		run := classify.Run{Requests: make([]classify.Request, 1)}
		m.Known.Request(m.Span, &run.Requests[0])
		return failed(&classify.Judge(&run).Requests[0])
	case hold.Tool:
		run := classify.Run{Tools: make([]classify.Tool, 1)}
		m.Known.Tool(m.Span, &run.Tools[0])
		return failed(&classify.Judge(&run).Tools[0])
	default:
		return nil
	}
}

// logical is the verdict on the logical call of several attempts: the last
// one's. Where that did not fail, who recorded the call saw less than who
// recorded the attempt, unless the call was marked as failed.
func logical(members []Member, s []standing, verdicts []*classify.Diagnosis, i int) *classify.Diagnosis {
	last := i
	for range maxDepth {
		attempts := s[last].attempts
		if len(attempts) == 0 {
			break
		}
		last = slices.MaxFunc(attempts, func(a, b int) int { return cmp.Compare(members[a].Start, members[b].Start) })
	}
	if last != i && verdicts[last] != nil {
		return verdicts[last]
	}
	m := &members[i]
	if m.Known.Facts(m.Span, dialect.Request).Request.Failed != classify.Yes {
		return nil
	}
	return alone(m)
}

// linkUpstream tells requests that another span of the trace holds the failure
// behind their answer: one beneath it, or of another service within its time.
func linkUpstream(release *Release, s []standing, verdicts []*classify.Diagnosis, run *classify.Run, requests []int) {
	for i := range release.Members {
		if !s[i].apart || !failedUpstream(verdicts[i]) {
			continue
		}
		failed := &release.Members[i]
		for n, request := range requests {
			m := &release.Members[request]
			within := m.Start <= failed.Start && failed.End <= m.End && !sameService(m.Item, failed.Item)
			if within || beneath(s, i, request) {
				run.Requests[n].UpstreamFailed = classify.Yes
			}
		}
	}
}

func beneath(s []standing, i, request int) bool {
	for range maxDepth {
		if i = s[i].above; i < 0 {
			return false
		}
		if i == request {
			return true
		}
	}
	return false
}

// failedUpstream: what a request apart came to is a failure that an answer could
// have swallowed. One that this side ended is not: a gateway stops when its
// caller does.
func failedUpstream(d *classify.Diagnosis) bool {
	if d == nil {
		return false
	}
	switch d.Class {
	case semconv.ClassLocalAbort, semconv.ClassOutputLimited:
		return false
	default:
		return true
	}
}

// carrier is the member that carries the run's verdict.
func carrier(release *Release) int {
	last := -1
	for i := range release.Members {
		m := &release.Members[i]
		switch {
		case !m.Out:
		case m.Item == release.Run:
			return i
		case m.Role == hold.Run: // delivered twice
		case last < 0 || m.End >= release.Members[last].End:
			last = i
		}
	}
	return last
}
