package judge

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

// setOwnErrors finds errors that a gateway returned although its own requests were answered: the error is the gateway's,
// not the provider's. It judges such requests apart again, and marks the run's own requests as far as no failure explains
// them.
func (j *Judge) setOwnErrors(release *trace.Release, verdicts []*classify.Diagnosis) {
	members, s := release.Members, j.relations
	var last map[pcommon.SpanID]int
	var own map[int]int // the run's own requests: by member, the index in the run
	for i := range members {
		if !s[i].apart || s[i].above < 0 || members[i].Known.Server || !answered(&members[i], verdicts[i]) {
			continue
		}
		if last == nil {
			last, own = lastTries(members, s), make(map[int]int, len(j.requests))
			for n, at := range j.requests {
				own[at] = n
			}
		}
		if at, ok := last[members[i].Parent]; ok && at != i {
			continue // a later attempt decides
		}
		// A served request is between the gateway's own request and the agent's.
		for at, n := s[i].above, 0; at >= 0 && n < maxDepth && members[at].Role == trace.Request; at, n = s[at].above, n+1 {
			if of, ok := own[at]; ok {
				j.run.Requests[of].Upstream = classify.Upstream{Failed: classify.No}
			} else if d := verdicts[at]; s[at].apart && d != nil && d.Class == semconv.ClassProviderError {
				verdicts[at] = judgeAlone(&members[at], classify.Upstream{Failed: classify.No})
			}
			if !members[at].Known.Server {
				break
			}
		}
	}
}

// setProxiesApart sets the requests of a proxy apart, if the proxied request got an HTTP error although one of them was
// answered: they are no attempts of it. The proxy is of the same service.
func setProxiesApart(members []trace.Member, s []relation, names func(*trace.Member) bool) {
	for i := range s {
		if len(s[i].attempts) == 0 || members[i].Known.Facts(members[i].Span, dialect.Request).Request.Status < 400 {
			continue
		}
		proxied := false
		for _, at := range s[i].attempts {
			proxied = proxied || !names(&members[at]) && answered(&members[at], nil)
		}
		if !proxied {
			continue
		}
		for _, at := range s[i].attempts {
			s[at].attempt, s[at].apart = false, true
		}
		s[i].attempts = nil
	}
}

// answered reports whether a request apart got its answer, as far as its span shows.
func answered(m *trace.Member, verdict *classify.Diagnosis) bool {
	if m.Role != trace.Request {
		return false
	}
	if verdict != nil {
		return verdict.Class == semconv.ClassOutputLimited || isEmpty(verdict)
	}
	r := m.Known.Facts(m.Span, dialect.Request).Request
	return r.Failed == classify.No || r.Ended == semconv.StreamEndTerminalEvent
}

// isEmpty reports whether an answer was empty without a visible reason.
func isEmpty(d *classify.Diagnosis) bool {
	return d.Class == semconv.ClassEmptyCompletion && d.Cause != semconv.CauseSwallowedError
}
