package assemble

import (
	"cmp"
	"iter"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

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

	// Effects is what the run did, the runs within it included.
	Effects classify.Effects

	unexplained bool // a request of the run has an answer with nothing in it, and nothing says why
}

// Inner is what is known of the runs within a run. The zero value: nothing.
type Inner struct {
	Well classify.Fact    // see [classify.Run.Within]
	Did  classify.Effects // see [classify.Run.Inner]
}

// Judge is where releases are judged, one after the other: the memory that this takes
// is used again. Its zero value is ready. It is not safe for concurrent use.
type Judge struct {
	run             classify.Run
	requests, tools []int // which members those of run are
	verdicts        classify.Verdicts
	verdictOf       []*classify.Diagnosis // by member
	relations       []relation            // by member
	lists           dialect.Lists         // of run
}

// Explained reports whether no span that may still come would change the verdict
// on a run that is complete: no request of it has an answer with nothing in it,
// the reason of which other services' spans may tell.
func (j *Judge) Explained(release *Release) bool {
	d := j.Diagnose(release, Inner{})
	return !d.unexplained
}

// Diagnose judges a release: its own requests and tools as a run, and each of
// the spans that are none of those for itself. What it returns is good until the next
// call.
func (j *Judge) Diagnose(release *Release, inner Inner) Diagnoses {
	members := release.Members
	j.verdictOf = sized(j.verdictOf, len(members))
	d := Diagnoses{Carrier: -1, Members: j.verdictOf}
	j.relations = relations(members, j.relations)
	s := j.relations
	for i := range members {
		if s[i].apart && len(s[i].attempts) == 0 {
			d.Members[i] = alone(&members[i], classify.Upstream{})
		}
	}

	j.assemble(release)
	run, requests, tools := &j.run, j.requests, j.tools
	run.Within, run.Inner = inner.Well, inner.Did
	j.linkUpstream(release, d.Members)
	verdicts := &j.verdicts
	classify.JudgeInto(verdicts, run)
	for n, i := range requests {
		d.Members[i] = failed(&verdicts.Requests[n])
		d.unexplained = d.unexplained || unexplained(d.Members[i])
	}
	for n, i := range tools {
		d.Members[i] = failed(&verdicts.Tools[n])
	}
	for i := range members {
		if len(s[i].attempts) > 0 {
			d.Members[i] = logical(members, s, d.Members, i)
		}
	}
	for i := range members {
		if first := s[i].first; first >= 0 && members[first].Role == members[i].Role {
			d.Members[i] = d.Members[first]
		}
	}
	if release.Final {
		d.Run, d.Carrier, d.Effects = &verdicts.Run, carrier(release), verdicts.Effects
	}
	return d
}

// assemble builds the run of a release, and says which members its requests and
// tools are, in the order of their start.
func (j *Judge) assemble(release *Release) {
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
	requests, tools := j.requests[:0], j.tools[:0]
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
		if release.Reason == hold.RunExpired && release.Named {
			run.Ended = classify.No // there is a run, and its end will not come
		}
	}
	j.requests, j.tools = requests, tools
}

// room is n elements that are to be written, in the memory of list if that has room. It
// lets go of what else was there.
func room[E any](list []E, n int) []E {
	clear(list[min(n, len(list)):])
	return slices.Grow(list[:0], n)[:n]
}

// sized is n zero elements, in the memory of list if that has room.
func sized[E any](list []E, n int) []E {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
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

// failed is the verdict where it reports a failure, else nil.
func failed(d *classify.Diagnosis) *classify.Diagnosis {
	if !d.Failed() {
		return nil
	}
	return d
}

// alone judges a request or tool for itself; upstream is the failure that another span
// holds behind a request's answer.
func alone(m *Member, upstream classify.Upstream) *classify.Diagnosis {
	switch m.Role {
	case hold.Request:
		run := classify.Run{Requests: make([]classify.Request, 1)}
		m.Known.Request(m.Span, &run.Requests[0], nil)
		run.Requests[0].Upstream = upstream
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
func logical(members []Member, s []relation, verdicts []*classify.Diagnosis, i int) *classify.Diagnosis {
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
	return alone(m, classify.Upstream{})
}

// unexplained: an answer came to its end with nothing in it, and nothing says why.
func unexplained(d *classify.Diagnosis) bool {
	return d != nil && d.Cause == semconv.CauseNoContent
}

// linkUpstream finds the failure of another span behind what a request came to, where
// that is of a gateway's making: what a gateway served, or asked for itself, is beneath
// the request, or of another service within its time. It judges the requests apart anew
// that such a failure explains, and writes it to the run's own.
func (j *Judge) linkUpstream(release *Release, verdicts []*classify.Diagnosis) {
	members, s := release.Members, j.relations
	var behind map[int]int // the lowest failure behind a request, by member
	var last map[pcommon.SpanID]int
	lower := func(request, i int) {
		if before, ok := behind[request]; !ok || isLower(members, s, i, before) {
			behind[request] = i
		}
	}
	for i := range members {
		if !s[i].apart || !failedUpstream(verdicts[i]) {
			continue
		}
		if last == nil {
			last, behind = lastTries(members, s), make(map[int]int)
		}
		if at, ok := last[members[i].Parent]; ok && at != i && !failedUpstream(verdicts[at]) {
			continue // a further try made it good
		}
		for above := range ancestors(s, i) {
			if members[above].Role == hold.Request {
				lower(above, i)
			}
		}
		for _, request := range j.requests {
			if meanwhile(members[request].Item, members[i].Item) {
				lower(request, i)
			}
		}
	}
	for n, request := range j.requests {
		if i, ok := behind[request]; ok && mayBeGateways(&j.run.Requests[n]) {
			j.run.Requests[n].Upstream = upstreamOf(verdicts[i])
		}
	}
	var anew map[int]classify.Upstream
	for request, i := range behind {
		if m := &members[request]; s[request].apart && verdicts[request] != nil && mayBeGateways(m.Known.Facts(m.Span, dialect.Request).Request) {
			if anew == nil {
				anew = make(map[int]classify.Upstream)
			}
			anew[request] = upstreamOf(verdicts[i])
		}
	}
	for request, upstream := range anew {
		verdicts[request] = alone(&members[request], upstream)
	}
}

// lastTries are the requests apart that began last under their parent, by that.
func lastTries(members []Member, s []relation) map[pcommon.SpanID]int {
	last := make(map[pcommon.SpanID]int)
	for i := range members {
		m := &members[i]
		if !s[i].apart || s[i].first >= 0 || m.Role != hold.Request || m.Parent.IsEmpty() {
			continue
		}
		if before, ok := last[m.Parent]; !ok || m.Start >= members[before].Start {
			last[m.Parent] = i
		}
	}
	return last
}

// isLower reports whether span a is further from the agent than span b: it is beneath
// more others, or it is what a gateway asked for and b what one served, or it came later.
func isLower(members []Member, s []relation, a, b int) bool {
	depth := func(i int) (n int) {
		for range ancestors(s, i) {
			n++
		}
		return n
	}
	if x, y := depth(a), depth(b); x != y {
		return x > y
	}
	x, y := members[a].Item, members[b].Item
	if x.Known.Server != y.Known.Server {
		return !x.Known.Server
	}
	return x.Start > y.Start
}

// mayBeGateways reports whether what a request came to may be of a gateway's making: an
// error of a server, an error in the stream, a cut, or an answer with nothing in it.
func mayBeGateways(r *classify.Request) bool {
	switch {
	case r.Abort.Source != semconv.AbortSourceUnset || r.Watchdog.Kind != semconv.WatchdogKindUnset:
		return false // it ended on this side
	case r.Status >= 500 || r.Provider.InBand:
		return true
	case r.Status >= 400:
		return false
	}
	switch r.Ended {
	case semconv.StreamEndEOF, semconv.StreamEndReadError:
		return true
	case semconv.StreamEndNoResponse:
		return r.Phase != semconv.PhaseBeforeConnection
	default:
		return r.Text.Fact() == classify.No
	}
}

// upstreamOf is a failure as what lies behind another one.
func upstreamOf(d *classify.Diagnosis) classify.Upstream {
	return classify.Upstream{Failed: classify.Yes, Class: d.Class, Cause: d.Cause, Origin: d.Origin}
}

// meanwhile reports whether another service did it within the time of the
// request, as far as their clocks agree.
func meanwhile(request, it *Item) bool {
	return !sameService(request, it) && request.Start <= it.Start+maxSkew && it.End <= request.End+maxSkew
}

// ancestors are the requests and tools above a member, the nearest first.
func ancestors(s []relation, i int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for range maxDepth {
			if i = s[i].above; i < 0 || !yield(i) {
				return
			}
		}
	}
}

// failedUpstream: what a request apart came to is a failure that may be behind another
// one. One that this side ended is not, as a gateway stops when its caller does; but one
// that the gateway's shutdown ended is.
func failedUpstream(d *classify.Diagnosis) bool {
	if d == nil {
		return false
	}
	switch d.Class {
	case semconv.ClassLocalAbort:
		return d.Cause == semconv.CauseShutdown
	case semconv.ClassOutputLimited:
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
