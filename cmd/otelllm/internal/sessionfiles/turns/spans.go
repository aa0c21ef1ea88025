package turns

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/live"
	"github.com/otelllm/otelllm-go/semconv"
)

// ScopeName is the instrumentation scope of spans that were read from a session file. The page knows
// them by it.
const ScopeName = "github.com/otelllm/otelllm-go/cmd/otelllm/sessions"

// Writer is what is known of the process that writes a session.
type Writer uint8

// What is known of a writer.
const (
	WriterUnknown Writer = iota // nothing is, and what it wrote last is not old
	WriterAlive                 // it runs
	WriterDead                  // it is gone: by its lock, its process id or its open files
	WriterGone                  // no process is known that could go on: the one that was seen is gone, or what it wrote last is old
)

// Source is where a turn comes from.
type Source struct {
	Profile Profile
	Session string
	Number  int    // of the turn in what was read of the session, from 0
	Writer  Writer // of the session
	// Careful: something of the session was not read, or is of a version that is not known.
	Careful bool
}

// Judged is a turn with the verdict on it.
type Judged struct {
	*Turn
	Source
	State  State
	Plan   *classify.Plan // how to go on; nil for a turn that is well, or of which nothing is said
	Traces ptrace.Traces  // the spans of the turn, with their verdicts
	Trace  pcommon.TraceID
}

// State is what is said of a turn in a word.
type State uint8

// The states of turns.
const (
	Well         State = iota // it ended well
	Unwell                    // the verdict says why not
	Died                      // its process died
	Undetermined              // it is not known how it ended
	Running                   // it goes on
	Waits                     // its process waits for a person
)

// Judge judges a turn. The spans of one that goes on, or of which nothing is known, have no
// verdict.
func Judge(t *Turn, s Source) Judged {
	w := &writer{turn: t, source: s, trace: live.NewTrace(), traces: ptrace.NewTraces()}
	scope := w.traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
	scope.Scope().SetName(ScopeName)
	w.spans = scope.Spans()
	w.ids()
	state, end := w.state()
	w.writeRun(end)
	for i, r := range t.Requests {
		w.writeRequest(i, r, state)
	}
	for i, c := range slices.Concat(t.Calls, t.Within) {
		if !c.Partial {
			w.writeTool(i, c)
		}
	}
	j := Judged{Turn: t, Source: s, State: state, Traces: w.traces, Trace: w.traceID}
	if state != Running && state != Waits && state != Undetermined {
		j.State, j.Plan = w.judge(state)
	}
	return j
}

// state returns what is known of a turn before it is judged, and by what its run is over.
func (w *writer) state() (State, semconv.RunEnd) {
	t := w.turn
	switch {
	case t.Aborted:
		return Unwell, semconv.RunEndUnset
	case t.Ending == Answered:
		return Well, semconv.RunEndAnswer
	case (!t.Next || t.launched() && !t.Reopen) && w.source.Writer == WriterAlive:
		return w.living()
	case t.Ending == Failed, t.Ending == Dropped:
		return Unwell, semconv.RunEndFailure
	case t.Ending == Unclear:
		return Undetermined, semconv.RunEndUnclear
	case t.Reopen, t.Next && w.source.Profile.EndsTurns, !t.Next && w.source.Writer == WriterDead:
		return Died, semconv.RunEndProcessDied
	case t.Next, w.source.Writer == WriterGone:
		return Died, semconv.RunEndProcessSilent
	default:
		return Undetermined, semconv.RunEndUnclear
	}
}

// living returns the state of the last turn of a process that runs.
func (w *writer) living() (State, semconv.RunEnd) {
	if w.turn.Ending == Open {
		return Running, semconv.RunEndUnset
	}
	return Waits, semconv.RunEndUnset
}

// writer writes the spans of one turn, and has them judged.
type writer struct {
	turn   *Turn
	source Source
	trace  *live.Trace
	traces ptrace.Traces
	spans  ptrace.SpanSlice

	traceID pcommon.TraceID
	run     pcommon.SpanID
}

// ids sets the ids of the trace and the run. They follow from the session, so that reading it again
// gives the same.
func (w *writer) ids() {
	sum := sha256.Sum256([]byte(w.source.Profile.Agent + "\x00" + w.source.Session + "\x00" + w.turn.ID + "\x00" + w.turn.Start.String() + "\x00" + strconv.Itoa(w.source.Number)))
	copy(w.traceID[:], sum[:])
	w.run = w.id("run", 0)
}

func (w *writer) id(kind string, n int) (id pcommon.SpanID) {
	sum := sha256.Sum256([]byte(hex.EncodeToString(w.traceID[:]) + kind + strconv.Itoa(n)))
	copy(id[:], sum[:])
	return id
}

// begin makes a span of the turn.
func (w *writer) begin(id pcommon.SpanID, name string, start, end time.Time) ptrace.Span {
	span := w.spans.AppendEmpty()
	span.SetTraceID(w.traceID)
	span.SetSpanID(id)
	span.SetName(name)
	span.SetKind(ptrace.SpanKindInternal)
	span.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
	span.SetEndTimestamp(pcommon.NewTimestampFromTime(later(start, end)))
	put(span, semconv.RunID(w.run.String()))
	if id != w.run {
		span.SetParentSpanID(w.run)
	}
	return span
}

func (w *writer) writeRun(end semconv.RunEnd) {
	t := w.turn
	span := w.begin(w.run, "invoke_agent "+w.source.Profile.Agent, t.Start, t.End)
	span.Attributes().Remove(string(semconv.RunIDKey))
	put(span, otelsemconv.GenAIOperationNameInvokeAgent)
	put(span, otelsemconv.GenAIAgentName(w.source.Profile.Agent))
	putText(span, otelsemconv.GenAIConversationIDKey, w.source.Session)
	put(span, semconv.RunRequests(len(t.Requests)))
	if end != semconv.RunEndUnset {
		put(span, semconv.RunEndAttr(end))
	}
	if t.over() && !t.Concluded && !w.doubtful() { // what is not here by then, did not happen
		put(span, semconv.RunTools(w.tools()))
	}
	if t.Aborted {
		put(span, semconv.AbortSourceAttr(semconv.AbortSourceUser))
	}
	w.trace.Set(live.Span{Span: span, Kind: live.KindRun})
}

// tools returns how many tools have a span.
func (w *writer) tools() (n int) {
	for _, c := range w.turn.Calls {
		if !c.Partial {
			n++
		}
	}
	return n
}

// doubtful reports whether more may have happened than is here.
func (w *writer) doubtful() bool { return w.source.Careful || w.turn.Partial || w.turn.Hidden }

func (w *writer) writeRequest(n int, r *Request, state State) {
	span := w.begin(w.id("request", n), nameOf("chat", w.turn.Model), r.Start, r.End)
	span.SetKind(ptrace.SpanKindClient)
	put(span, otelsemconv.GenAIOperationNameChat)
	putText(span, otelsemconv.GenAIRequestModelKey, w.turn.Model)
	putText(span, otelsemconv.GenAIResponseIDKey, r.ResponseID)
	w.writeAnswer(span, r)
	putIDs(span, semconv.HistoryToolCallsKey, r.Known)
	putIDs(span, semconv.HistoryToolOutputsKey, r.Carried)
	switch {
	case r.Complete:
		put(span, semconv.StreamEndAttr(semconv.StreamEndTerminalEvent))
		if r.Finish != "" {
			put(span, otelsemconv.GenAIResponseFinishReasons(r.Finish))
		}
	case r.Failed, r.Broken:
		writeFault(span, r)
	case w.turn.Aborted:
		put(span, semconv.AbortSourceAttr(semconv.AbortSourceUser))
	}
	open := state == Running && !r.Ended()
	w.trace.Set(live.Span{Span: span, Kind: live.KindRequest, Open: open})
}

// writeAnswer writes what arrived of the answer. A zero is written only where the absence of a
// record shows it.
func (w *writer) writeAnswer(span ptrace.Span, r *Request) {
	all := r.Complete || r.Failed && w.source.Profile.PartialText
	if w.doubtful() || w.source.Profile.HidesCalls {
		all = false
	}
	counts := [...]struct {
		key attribute.Key
		n   int
	}{
		{semconv.StreamTextChunksKey, r.Text},
		{semconv.StreamReasoningChunksKey, r.Reasoning},
		{semconv.StreamProviderToolsStartedKey, r.Provider},
		{semconv.StreamToolInputsStartedKey, len(r.Calls)},
	}
	for _, c := range counts {
		if c.n > 0 || all {
			put(span, c.key.Int(c.n))
		}
	}
	var whole, partial []*Call
	names := make([]string, 0, len(r.Calls))
	for _, c := range r.Calls {
		if c.Partial {
			partial = append(partial, c)
			continue
		}
		whole = append(whole, c)
		names = append(names, c.Name)
	}
	if len(whole) > 0 || all {
		put(span, semconv.StreamToolCallsKey.Int(len(whole)))
		put(span, semconv.StreamToolInputsCompletedKey.Int(len(whole)))
	}
	if len(whole) > 0 {
		putIDs(span, semconv.StreamToolCallIDsKey, whole)
		put(span, semconv.StreamToolCallNamesKey.StringSlice(names[:min(len(names), maxIDs)]))
	}
	if len(partial) > 0 {
		putIDs(span, semconv.StreamOpenToolCallIDsKey, partial)
	}
}

// writeFault writes how a request failed.
func writeFault(span ptrace.Span, r *Request) {
	f := faultOf(r)
	if f.end != semconv.StreamEndUnset {
		put(span, semconv.StreamEndAttr(f.end))
	}
	if f.cause != semconv.TransportCauseUnset {
		put(span, semconv.TransportCauseAttr(f.cause))
	}
	if f.provider != semconv.ProviderErrorKindUnset {
		put(span, semconv.ProviderErrorKindAttr(f.provider))
		putText(span, semconv.ProviderErrorCodeKey, r.Code)
	}
	if r.Status > 0 {
		put(span, otelsemconv.HTTPResponseStatusCode(r.Status))
	}
	fail(span, r.Code)
}

// outcomes are the vocabulary's.
var outcomes = map[event.Outcome]semconv.ToolOutcome{
	event.Succeeded: semconv.ToolOutcomeSucceeded, event.FailedTool: semconv.ToolOutcomeFailed,
	event.Interrupted: semconv.ToolOutcomeInterrupted, event.Rejected: semconv.ToolOutcomeRejected,
}

func (w *writer) writeTool(n int, c *Call) {
	span := w.begin(w.id("tool", n), nameOf("execute_tool", c.Name), c.Start, c.End)
	put(span, otelsemconv.GenAIOperationNameExecuteTool)
	putText(span, otelsemconv.GenAIToolNameKey, c.Name)
	putText(span, otelsemconv.GenAIToolCallIDKey, c.ID)
	put(span, semconv.ToolEffectAttr(semconv.ToolEffectUnknown))
	if o, ok := outcomes[c.Outcome]; ok {
		put(span, semconv.ToolOutcomeAttr(o))
		if o != semconv.ToolOutcomeSucceeded {
			fail(span, o.String())
		}
	}
	if c.open() { // its end was not observed
		span.SetEndTimestamp(0)
	} else if !c.Carried {
		put(span, semconv.ToolOutputDelivery(semconv.OutputDeliveryCached)) // the file has it
	}
	w.trace.Set(live.Span{Span: span, Kind: live.KindTool})
}

// judge judges the turn, and writes the verdicts on its spans.
func (w *writer) judge(state State) (State, *classify.Plan) {
	if w.doubtful() || w.turn.Concluded && w.turn.Ending == Failed {
		w.trace.SetIncomplete()
	}
	v, ok := w.trace.JudgeRun(w.run)
	if !ok || v.Run == nil || v.Run.Outcome == semconv.RunOutcomeUnset || !v.Run.Failed() && state != Well {
		return Undetermined, nil // its own records say that it did not end well, and the rules found nothing
	}
	for _, span := range w.spans.All() {
		from := live.PartAttributes(v.Parts[span.SpanID()])
		if span.SpanID() == w.run {
			from = live.RunAttributes(v.Run, &v.Plan)
		}
		for key, value := range from.All() {
			value.CopyTo(span.Attributes().PutEmpty(key))
		}
	}
	switch {
	case !v.Run.Failed(), v.Run.Outcome == semconv.RunOutcomeWaiting:
		return Well, nil
	case v.Run.Cause == semconv.CauseProcessDied:
		return Died, &v.Plan
	default:
		return Unwell, &v.Plan
	}
}
