package judge

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// unexplained reports whether a response ended without content and without a known reason.
func unexplained(d *classify.Diagnosis) bool {
	return d != nil && d.Cause == semconv.CauseNoContent
}

// linkUpstream finds the failures of other spans behind the results of requests that a gateway may have caused. A request
// that a gateway served or made is beneath the agent's request, or belongs to another service within the request's time.
// linkUpstream writes such a failure to the run's own requests, and judges the other explained requests again.
func (j *Judge) linkUpstream(release *trace.Release, verdicts []*classify.Diagnosis) {
	j.setOwnErrors(release, verdicts)
	members, s := release.Members, j.relations
	var failed []int
	var last map[pcommon.SpanID]int
	for i := range members {
		if !s[i].apart || !failedUpstream(verdicts[i]) {
			continue
		}
		if last == nil {
			last = lastTries(members, s)
		}
		if at, ok := last[members[i].Parent]; ok && at != i && !failedUpstream(verdicts[at]) {
			continue // a later attempt succeeded
		}
		failed = append(failed, i)
	}
	if len(failed) == 0 {
		return
	}
	depths := depthsOf(s)
	slices.SortStableFunc(failed, func(a, b int) int {
		const empty = semconv.ClassEmptyCompletion
		switch x, y := verdicts[a].Class == empty, verdicts[b].Class == empty; {
		case x != y: // any other failure explains more than an empty answer
			if y {
				return -1
			}
			return 1
		case isLower(members, depths, a, b):
			return -1
		case isLower(members, depths, b, a):
			return 1
		default:
			return 0
		}
	})
	behind, cut := lowestBehind(members, s, depths, failed, j.requests)
	if cut {
		j.run.Partial, j.run.Doubts = true, append(j.run.Doubts, trace.TooMany.Names()...)
	}
	for n, request := range j.requests {
		if rank := behind[request]; rank != noRank && mayBeGateways(&j.run.Requests[n]) {
			j.run.Requests[n].Upstream = upstreamOf(verdicts[failed[rank]])
		}
	}
	again := make(map[int]classify.Upstream)
	for request, rank := range behind {
		if m := &members[request]; rank != noRank && s[request].apart && verdicts[request] != nil && mayBeGateways(m.Known.Facts(m.Span, dialect.Request).Request) {
			again[request] = upstreamOf(verdicts[failed[rank]])
		}
	}
	for request, upstream := range again {
		verdicts[request] = judgeAlone(&members[request], upstream)
	}
}

// lastTries returns the last of the requests apart under each parent, by the parent.
func lastTries(members []trace.Member, s []relation) map[pcommon.SpanID]int {
	last := make(map[pcommon.SpanID]int)
	for i := range members {
		m := &members[i]
		if !s[i].apart || s[i].first >= 0 || m.Role != trace.Request || m.Parent.IsEmpty() {
			continue
		}
		if before, ok := last[m.Parent]; !ok || compareStarts(m, &members[before]) > 0 {
			last[m.Parent] = i
		}
	}
	return last
}

// isLower reports whether span a is further from the agent than span b: it is beneath more spans, or a gateway made it and
// served b, or it began later.
func isLower(members []trace.Member, depths []int32, a, b int) bool {
	if x, y := depths[a], depths[b]; x != y {
		return x > y
	}
	x, y := members[a].Item, members[b].Item
	if x.Known.Server != y.Known.Server {
		return !x.Known.Server
	}
	return compareStarts(&members[a], &members[b]) > 0
}

// mayBeGateways reports whether a gateway may have caused the result of a request: a server error, an error in the stream,
// a truncated stream, or an empty response.
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

// upstreamOf is a failure as the cause of another one.
func upstreamOf(d *classify.Diagnosis) classify.Upstream {
	return classify.Upstream{Failed: classify.Yes, Class: d.Class, Cause: d.Cause, Origin: d.Origin}
}

// failedUpstream reports whether the result of a request apart is a failure that may be the cause of another one. A request
// that this side ended is not, as a gateway stops when its caller does. A request that the gateway's shutdown ended is.
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
		return !isEmpty(d) // as far as the verdict shows, no failure is hidden behind it
	}
}
