package classify

import (
	"strconv"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// maxEvidence bounds the lists of evidence, in entries; maxEvidenceLen bounds each entry,
// in bytes.
const (
	maxEvidence    = 24
	maxEvidenceLen = 256
)

// Names of facts from the OpenTelemetry conventions. Evidence names them; this package
// neither reads nor writes them.
const (
	factStatus       = "http.response.status_code"
	factErrorType    = "error.type"
	factFinish       = "gen_ai.response.finish_reasons"
	factToolCallID   = "gen_ai.tool.call.id"
	factToolName     = "gen_ai.tool.name"
	factProtocol     = "network.protocol.version"
	factAgentRunSpan = "invoke_agent"

	factUpstream = "gateway.upstream" // how the request ended that a gateway made for this one
)

// evidence collects entries of the form `fact=value`.
type evidence []string

func (e *evidence) add(fact, value string) {
	if value == "" || len(*e) >= maxEvidence {
		return
	}
	entry := fact + "=" + value
	*e = append(*e, strings.ToValidUTF8(entry[:min(len(entry), maxEvidenceLen)], ""))
}

// count adds a count that was observed. A zero is evidence too: it is why no guard
// objected to a retry.
func (e *evidence) count(fact string, c Count) {
	if c.Observed() {
		e.add(fact, strconv.Itoa(c.N()))
	}
}

// positive adds a count that is not zero.
func (e *evidence) positive(fact string, c Count) {
	if c.Fact() == Yes {
		e.add(fact, strconv.Itoa(c.N()))
	}
}

// connection adds what is known about the connection that failed. A connection that had
// been idle for long was probably closed by the other side before it was used.
func (e *evidence) connection(c Connection) {
	e.add(factProtocol, c.Protocol)
	if c.Reused == NotObserved {
		return
	}
	e.add(string(semconv.ConnectionReusedKey), strconv.FormatBool(c.Reused == Yes))
	if c.Idle > 0 {
		e.add(string(semconv.ConnectionIdleKey), strconv.FormatFloat(c.Idle.Seconds(), 'f', 3, 64))
	}
}

// requestEvidence returns the facts on which the verdict on a request is based. unmatched
// are the ids that break its history.
func requestEvidence(r *Request, c classification, unmatched []string) []string {
	e := make(evidence, 0, 16)
	e.add(string(semconv.StreamEndKey), r.Ended.String())
	if r.Status > 0 {
		e.add(factStatus, strconv.Itoa(r.Status))
	}
	e.add(string(semconv.TransportCauseKey), r.Transport.Cause.String())
	e.add(string(semconv.TransportCodeKey), r.Transport.Code)
	e.add(string(semconv.TransportStageKey), r.Transport.Stage.String())
	e.add(string(semconv.ProviderErrorKindKey), r.Provider.Kind.String())
	e.add(string(semconv.ProviderErrorCodeKey), r.Provider.Code)
	if r.Provider.InBand {
		e.add(string(semconv.ProviderErrorInBandKey), "true")
	}
	if r.Provider.History != semconv.ProviderErrorHistoryUnset {
		e.add(string(semconv.ProviderErrorHistoryKey), r.Provider.History.String())
	}
	if r.Provider.Intermediary {
		e.add(string(semconv.ProviderErrorIntermediaryKey), "true")
	}
	switch r.Upstream.Failed {
	case Yes:
		e.add(factUpstream, r.Upstream.Class.String()+"/"+r.Upstream.Cause.String())
	case No:
		e.add(factUpstream, "answered")
	}
	e.addAbort(r.Abort)
	if r.Abort.Source == semconv.AbortSourceUnset && r.Basis == Typed && c.class != semconv.ClassLocalAbort {
		e.add(string(semconv.AbortSourceKey), "none") // what ended it, this side did not
	}
	if r.silence() > 0 {
		e.add(string(semconv.StreamLastProgressKey), strconv.FormatFloat(r.LastProgress.Seconds(), 'f', 3, 64))
	}
	switch {
	case r.Watchdog.Kind != semconv.WatchdogKindUnset:
		e.add(string(semconv.WatchdogKindKey), r.Watchdog.Kind.String())
	case r.Basis == Typed && c.class != semconv.ClassWatchdogTimeout:
		e.add(string(semconv.WatchdogKindKey), "none")
	}
	if c.origin == semconv.OriginTransport {
		e.connection(r.Connection)
	}
	switch c.cause { // as many ids as the bound of an entry allows
	case semconv.CauseMissingOutput, semconv.CauseDuplicateCall:
		e.add(string(semconv.HistoryToolCallsKey), strings.Join(unmatched, ","))
	case semconv.CauseMissingCall:
		e.add(string(semconv.HistoryToolOutputsKey), strings.Join(unmatched, ","))
	}
	if r.Background {
		e.add(string(semconv.RequestBackgroundKey), "true")
	}
	if r.Unread {
		e.add(string(semconv.StreamUnreadKey), "true")
	}
	if finish := r.finish(); finish.limited() != semconv.CauseUnset || finish == FinishMissing {
		e.add(factFinish, finishText(finish))
	}
	e.add(string(semconv.StreamPhaseKey), r.Phase.String())
	e.count(string(semconv.StreamTextChunksKey), r.Text)
	e.positive(string(semconv.StreamReasoningChunksKey), r.Reasoning)
	e.positive(string(semconv.StreamToolInputsStartedKey), r.ToolInputsStarted)
	e.positive(string(semconv.StreamToolInputsCompletedKey), r.ToolInputsCompleted)
	e.positive(string(semconv.StreamToolInputsInvalidKey), r.ToolInputsInvalid)
	e.count(string(semconv.StreamToolCallsKey), r.ToolCalls)
	if len(r.ProviderTools) > 0 {
		e.count(string(semconv.StreamProviderToolsStartedKey), r.ProviderToolsStarted)
	} else {
		e.positive(string(semconv.StreamProviderToolsStartedKey), r.ProviderToolsStarted)
	}
	if r.Attempt > 1 {
		e.add(string(semconv.RequestAttemptKey), strconv.Itoa(r.Attempt))
	}
	return e
}

func (e *evidence) addAbort(a Abort) {
	e.add(string(semconv.AbortSourceKey), a.Source.String())
	e.add(string(semconv.AbortReasonKey), a.Reason)
}

func finishText(f Finish) string {
	switch f {
	case FinishMissing:
		return "missing"
	case FinishLimited:
		return "incomplete"
	default:
		return f.limited().String()
	}
}

// toolEvidence returns the facts on which the verdict on a tool is based.
func toolEvidence(t *Tool) []string {
	e := make(evidence, 0, 6)
	e.addTool(t)
	return e
}

func (e *evidence) addTool(t *Tool) {
	e.add(factToolName, safeName(t.Name))
	e.add(factToolCallID, t.CallID)
	e.add(string(semconv.ToolOutcomeKey), t.Outcome.String())
	e.add(factErrorType, t.ErrorType)
	e.add(string(semconv.ToolEffectKey), t.effect().String())
	if t.FailedBeforeEffect {
		e.add(string(semconv.ToolFailedBeforeEffectKey), "true")
	}
	e.add(string(semconv.ToolOutputDeliveryKey), t.Delivery.String())
	e.add(string(semconv.ToolOutputErrorKey), t.DeliveryError)
	e.addAbort(t.Abort)
}

// runEvidence returns the facts on which the verdict on a run is based: those of the part
// that failed, and the effects that the guards read.
func (j *judge) runEvidence(p *primary) []string {
	e := make(evidence, 0, 12)
	if p.request != nil {
		e = append(e, requestEvidence(p.request, p.classification, unmatched(p.request, p.cause))...)
	}
	if p.tool != nil {
		e.addTool(p.tool)
	}
	if p.request == nil && p.tool == nil {
		e.addAbort(j.run.Abort)
		e.add(factErrorType, j.run.ErrorType)
	}
	switch {
	case j.run.Ended == No:
		e.add(factAgentRunSpan, "missing")
	case j.run.EndedBy != semconv.RunEndUnset:
		e.add(string(semconv.RunEndKey), j.run.EndedBy.String())
	}
	e.announced(string(semconv.RunRequestsKey), j.run.AnnouncedRequests, len(j.run.Requests)+j.run.Inner.Requests)
	e.announced(string(semconv.RunToolsKey), j.run.AnnouncedTools, len(j.run.Tools)+j.run.Inner.Tools)
	for t := range j.run.Tools {
		tool := &j.run.Tools[t]
		if tool == p.tool || !tool.MayHaveActed() {
			continue
		}
		switch effect := tool.effect(); effect {
		case semconv.ToolEffectNonIdempotent, semconv.ToolEffectUnknown:
			e.add(factToolName, safeName(tool.Name))
			e.add(string(semconv.ToolEffectKey), effect.String())
			return e // one such tool decides the guard
		default:
		}
	}
	e.unrecorded(j)
	return e
}

func (e *evidence) announced(fact string, announced Count, seen int) {
	if announced.N() > seen {
		e.add(fact, strconv.Itoa(announced.N())+" (seen "+strconv.Itoa(seen)+")")
	}
}

// missingEvidence returns the names of the facts that would have raised the confidence,
// and the doubts of the run if missing parts count. r is the request that the verdict is
// about; it is nil for a tool.
func missingEvidence(k *risk, r *Request, doubts []string) []string {
	if k.confidence() == semconv.ConfidenceHigh {
		return nil
	}
	var names []string
	miss := func(missing bool, name string) {
		if missing {
			names = append(names, name)
		}
	}
	if r != nil && k.basis != Typed {
		miss(r.Ended == semconv.StreamEndUnset, string(semconv.StreamEndKey))
		miss(r.Transport.Cause == semconv.TransportCauseUnset && r.Status < 400 && !r.Provider.InBand, string(semconv.TransportCauseKey))
		miss(r.Finish == FinishNotObserved, factFinish)
		miss(r.Phase == semconv.PhaseUnset || r.Phase == semconv.PhaseUnknown, string(semconv.StreamPhaseKey))
	}
	miss(k.text == NotObserved, string(semconv.StreamTextChunksKey))
	miss(k.calls == callsUnknown, string(semconv.RunToolsKey))
	miss(k.started.has(semconv.ToolEffectUnknown), string(semconv.ToolEffectKey))
	miss(k.providerTools == providerToolsUnknown, string(semconv.RequestProviderToolsKey))
	miss(k.missingOutput == NotObserved, string(semconv.HistoryToolOutputsKey))
	miss(k.unannouncedParts, string(semconv.RunRequestsKey))
	miss(k.partsMissing && !k.endMissing && !k.unannouncedParts && len(doubts) == 0, string(semconv.RunIDKey))
	miss(k.endMissing, factAgentRunSpan)
	if k.partsMissing {
		names = append(names, doubts...)
	}
	return names[:min(len(names), maxEvidence)]
}
