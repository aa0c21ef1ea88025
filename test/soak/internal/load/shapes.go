package load

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// maker generates one trace.
type maker struct {
	rng   *rand.Rand
	pace  Pace
	epoch time.Time
	trace Trace
	calls int // tool calls so far
}

// around returns a random time of about d.
func (m *maker) around(d time.Duration) time.Duration {
	return d/2 + time.Duration(m.rng.Int64N(int64(d)))
}

func (m *maker) chance(percent int) bool { return m.rng.IntN(100) < percent }

func (m *maker) id() (id pcommon.SpanID) {
	for id.IsEmpty() {
		v := m.rng.Uint64()
		for i := range id {
			id[i] = byte(v >> (8 * i))
		}
	}
	return id
}

// span adds a span that is sent when it ends, or up to a third of a turn later, because
// exporters send in batches and not in order.
func (m *maker) span(service int, role Role, run, id, parent pcommon.SpanID, name string, from, to time.Duration) *Span {
	s := ptrace.NewSpan()
	s.SetTraceID(m.trace.ID)
	s.SetSpanID(id)
	s.SetParentSpanID(parent)
	s.SetName(name)
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(m.epoch.Add(from)))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(m.epoch.Add(to)))
	s.SetKind(ptrace.SpanKindInternal)
	at := to + time.Duration(m.rng.Int64N(int64(m.pace.Turn/3)))
	m.trace.Spans = append(m.trace.Spans, Span{Span: s, Role: role, RunID: run, At: at, Service: service})
	return &m.trace.Spans[len(m.trace.Spans)-1]
}

// other adds a span that llm_classify passes on.
func (m *maker) other(service int, parent pcommon.SpanID, name string, from, to time.Duration) {
	s := m.span(service, Other, pcommon.SpanID{}, m.id(), parent, name, from, to)
	s.SetKind(ptrace.SpanKindClient)
	s.Attributes().PutStr("db.system.name", "postgresql")
	s.Attributes().PutInt("db.response.returned_rows", m.rng.Int64N(100))
}

// server adds a root span above everything.
func (m *maker) server(id pcommon.SpanID, to time.Duration) {
	s := m.span(frontend, Other, pcommon.SpanID{}, id, pcommon.SpanID{}, "POST /ask", 0, to)
	s.SetKind(ptrace.SpanKindServer)
	s.Attributes().PutStr("http.request.method", "POST")
	s.Attributes().PutStr("http.route", "/ask")
	s.Attributes().PutInt("http.response.status_code", 200)
}

// agent describes the special properties of a run.
type agent struct {
	nests   bool // one of its tools is an agent
	long    bool // it lasts longer than max_hold
	silent  bool // it announces no counts
	endless bool // its run span is never sent
	late    bool // one of its spans begins after its end, and is sent after the verdict
	huge    bool // it has more spans than may be held

	parent pcommon.SpanID
	around *running // the run that contains it
	from   time.Duration
}

// agent adds a run: turns of a model call and the tools that it calls, until an answer.
// It returns the end of the run. Its spans also count for the run around it.
func (m *maker) agent(a agent) time.Duration {
	r := &running{maker: m, plan: Plan{ID: m.id(), Named: true, Ends: !a.endless, Announces: !a.silent}}
	root := a.parent
	if root.IsEmpty() {
		root = m.id()
	}
	turns, turn := 1+m.rng.IntN(5), m.pace.Turn
	switch {
	case a.long:
		turns = 5 + m.rng.IntN(4)
		turn = 2 * m.pace.MaxHold / time.Duration(turns)
	case a.huge:
		turns = m.pace.SpanLimit*4/5 + m.rng.IntN(m.pace.SpanLimit/2)
		turn = m.pace.MaxHold / time.Duration(2*turns)
	}
	r.now = a.from + m.around(turn/10+1)
	failedFor, recovered := m.rng.IntN(100), m.chance(25)
	for i := range turns {
		if recovered && i == turns/2 {
			r.request(turn/4, ending{cut: true, shown: m.chance(30)})
			r.retried = true
		}
		last := i == turns-1
		if last && failedFor < 12 {
			r.request(turn/2, ending{cut: true, shown: m.chance(30)})
			break
		}
		tools := 1
		if !a.huge {
			tools += m.rng.IntN(2)
		}
		if last {
			tools = 0
		}
		calls := make([]string, tools)
		for c := range calls {
			m.calls++
			calls[c] = fmt.Sprintf("call_%d", m.calls)
		}
		r.request(turn/2, ending{calls: calls})
		for c, call := range calls {
			r.tool(call, turn/time.Duration(4*tools), a.nests && i == 0 && c == 0)
		}
	}
	failed := failedFor < 12
	switch {
	case a.endless:
		r.plan.Outcome = semconv.RunOutcomeIncomplete
	case failed:
		r.plan.Outcome = semconv.RunOutcomeFailed
	case recovered:
		r.plan.Outcome = semconv.RunOutcomeRecovered
	default:
		r.plan.Outcome = semconv.RunOutcomeSucceeded
	}
	end := r.now + time.Millisecond
	if !a.endless {
		r.end(a, root, end, failed)
	}
	if a.late {
		announced := r.plan.Spans
		r.now = end + time.Millisecond // spans that begin before the end are announced
		r.request(turn/2, ending{late: true})
		m.other(coder, r.plan.ID, "INSERT answers", r.now, r.now+time.Millisecond)
		r.plan.Spans = announced
	}
	if a.around != nil {
		a.around.requests += r.requests
		a.around.tools += r.tools
		a.around.plan.Risky = a.around.plan.Risky || r.plan.Risky
	}
	m.trace.Runs = append(m.trace.Runs, r.plan)
	if a.parent.IsEmpty() {
		m.server(root, end+time.Millisecond)
	}
	return end
}

func (m *maker) several() {
	root, end := m.id(), time.Duration(0)
	for range 2 + m.rng.IntN(3) {
		from := m.around(m.pace.Turn)
		end = max(end, m.agent(agent{parent: root, from: from, silent: m.chance(20)}))
	}
	m.server(root, end+time.Millisecond)
}

// running is a run under construction.
type running struct {
	*maker
	plan            Plan
	now             time.Duration
	requests, tools int      // including those of runs within it
	done            []string // calls whose output is in the history
	retried         bool     // the next request is a second attempt
}

// end adds the run span.
func (r *running) end(a agent, parent pcommon.SpanID, at time.Duration, failed bool) {
	s := r.span(coder, Run, r.plan.ID, r.plan.ID, parent, "invoke_agent coder", a.from, at)
	r.plan.Spans++
	put(s, otelsemconv.GenAIOperationNameInvokeAgent, otelsemconv.GenAIAgentName("coder"),
		otelsemconv.GenAIConversationID(r.trace.ID.String()))
	if a.around != nil {
		put(s, semconv.RunID(hex.EncodeToString(a.around.plan.ID[:])))
	}
	if r.plan.Announces {
		put(s, semconv.RunRequests(r.requests), semconv.RunTools(r.tools))
	}
	if failed {
		s.Status().SetCode(ptrace.StatusCodeError)
		put(s, otelsemconv.ErrorTypeKey.String("*net.OpError"))
	}
}

// ending is how a request ends.
type ending struct {
	calls []string // tool calls of the answer
	cut   bool     // the connection is reset
	shown bool     // after text
	late  bool
}

// request adds one attempt of a model call, with the HTTP client's span below it.
func (r *running) request(takes time.Duration, e ending) {
	from, to := r.now, r.now+r.around(takes+1)
	r.now = to
	id := r.id()
	s := r.span(coder, Request, r.plan.ID, id, r.plan.ID, "chat gpt-soak", from, to)
	s.SetKind(ptrace.SpanKindClient)
	s.Late = e.late
	r.plan.Spans++
	r.requests++
	attempt := 1
	if r.retried {
		attempt, r.retried = 2, false
	}
	put(s, otelsemconv.GenAIOperationNameChat, otelsemconv.GenAIProviderNameOpenAI,
		otelsemconv.GenAIRequestModel("gpt-soak"), otelsemconv.GenAIRequestStream(true),
		otelsemconv.ServerAddress("api.example.com"), otelsemconv.HTTPResponseStatusCode(200),
		semconv.RunID(hex.EncodeToString(r.plan.ID[:])), semconv.RequestAttempt(attempt), semconv.RequestProviderTools(),
		semconv.HistoryToolCalls(r.done...), semconv.HistoryToolOutputs(r.done...))
	text := 0
	if e.shown {
		s.Shown, s.Risky, r.plan.Risky = true, true, true
	}
	if len(e.calls) == 0 && !e.cut || e.shown {
		text = 1 + r.rng.IntN(30)
	}
	events := 1 + text + 2*len(e.calls)
	put(s, semconv.StreamEvents(events), semconv.StreamBytes(120*events), semconv.StreamKeepalives(0),
		semconv.StreamTextChunks(text), semconv.StreamReasoningChunks(0),
		semconv.StreamToolInputsStarted(len(e.calls)), semconv.StreamToolInputsCompleted(len(e.calls)),
		semconv.StreamToolCalls(len(e.calls)), semconv.StreamProviderToolsStarted(0),
		semconv.StreamTimeToHeaders(0.02), semconv.StreamLastProgress(0.05), semconv.StreamLongestGap(0.03))
	switch {
	case e.cut:
		s.Status().SetCode(ptrace.StatusCodeError)
		phase := semconv.PhaseResponseStarted
		if e.shown {
			phase = semconv.PhaseText
		}
		put(s, semconv.StreamPhase(phase), semconv.StreamEndAttr(semconv.StreamEndReadError),
			otelsemconv.GenAIResponseFinishReasons("error"), otelsemconv.ErrorTypeKey.String("*net.OpError"),
			semconv.TransportStageAttr(semconv.TransportStageBody), semconv.TransportCauseAttr(semconv.TransportCauseConnectionReset),
			semconv.TransportCode("ECONNRESET"), semconv.TransportErrorChain("*net.OpError", "*os.SyscallError", "syscall.Errno"))
		if r.chance(20) { // the client's own verdict, which is replaced
			put(s, semconv.FailureClass(semconv.ClassStreamInterrupted), semconv.FailureCause(semconv.CauseConnectionReset),
				semconv.ClassificationTrigger(semconv.TriggerClient))
		}
	case len(e.calls) > 0:
		put(s, semconv.StreamPhase(semconv.PhaseStreamEnd), semconv.StreamEndAttr(semconv.StreamEndTerminalEvent),
			otelsemconv.GenAIResponseFinishReasons("tool_calls"), semconv.StreamToolCallIDs(e.calls...))
	default:
		put(s, semconv.StreamPhase(semconv.PhaseStreamEnd), semconv.StreamEndAttr(semconv.StreamEndTerminalEvent),
			otelsemconv.GenAIResponseFinishReasons("stop"))
	}
	if event := s.Events().AppendEmpty(); !e.cut {
		event.SetName("llm.stream.finish")
		event.SetTimestamp(s.EndTimestamp())
	} else {
		event.SetName("llm.stream.interrupted")
		event.SetTimestamp(s.EndTimestamp())
	}
	http := r.span(coder, Other, pcommon.SpanID{}, r.id(), id, "POST", from, to)
	http.SetKind(ptrace.SpanKindClient)
	put(http, otelsemconv.HTTPRequestMethodPost, otelsemconv.ServerAddress("api.example.com"), otelsemconv.HTTPResponseStatusCode(200))
}

// tool adds the execution of a call, which may be an agent of its own.
func (r *running) tool(call string, takes time.Duration, nests bool) {
	id, from := r.id(), r.now
	if nests {
		r.now = r.agent(agent{parent: id, around: r, from: from})
	} else {
		r.now += r.around(takes + 1)
		r.other(coder, id, "SELECT files", from, r.now)
	}
	s := r.span(coder, Tool, r.plan.ID, id, r.plan.ID, "execute_tool search", from, r.now)
	r.plan.Spans++
	r.tools++
	effect := semconv.ToolEffectReadOnly
	if r.chance(15) {
		effect, s.Risky, r.plan.Risky = semconv.ToolEffectNonIdempotent, true, true
	}
	put(s, otelsemconv.GenAIOperationNameExecuteTool, otelsemconv.GenAIToolName("search"), otelsemconv.GenAIToolCallID(call),
		semconv.RunID(hex.EncodeToString(r.plan.ID[:])), semconv.ToolEffectAttr(effect),
		semconv.ToolOutcomeAttr(semconv.ToolOutcomeSucceeded))
	r.done = append(r.done, call)
}

// conventions adds an agent in Python according to OpenTelemetry's GenAI conventions:
// no span names the run, and nothing is announced.
func (m *maker) conventions() {
	plan := Plan{ID: m.id(), Ends: true, Outcome: semconv.RunOutcomeSucceeded}
	root, now := m.id(), m.around(m.pace.Turn/10)
	for range 1 + m.rng.IntN(3) {
		from := now
		now += m.around(m.pace.Turn / 2)
		s := m.span(researcher, Request, plan.ID, m.id(), plan.ID, "chat mistral-soak", from, now)
		s.SetKind(ptrace.SpanKindClient)
		plan.Spans++
		put(s, otelsemconv.GenAIOperationNameChat, otelsemconv.GenAIProviderNameMistralAI,
			otelsemconv.GenAIRequestModel("mistral-soak"), otelsemconv.GenAIResponseFinishReasons("stop"),
			otelsemconv.GenAIUsageInputTokens(m.rng.IntN(4000)), otelsemconv.GenAIUsageOutputTokens(m.rng.IntN(800)))
		m.other(frontend, plan.ID, "SELECT pages", from, now)
	}
	s := m.span(researcher, Run, plan.ID, plan.ID, root, "invoke_agent researcher", 0, now+time.Millisecond)
	plan.Spans++
	put(s, otelsemconv.GenAIOperationNameInvokeAgent, otelsemconv.GenAIAgentName("researcher"))
	m.trace.Runs = append(m.trace.Runs, plan)
	m.server(root, now+2*time.Millisecond)
}

// unnamed adds two model calls in a server, without an agent.
func (m *maker) unnamed() {
	root := m.id()
	from := m.around(m.pace.Turn / 10)
	to := from
	for range 2 {
		to = from + m.around(m.pace.Turn)
		s := m.span(researcher, Request, root, m.id(), root, "chat mistral-soak", from, to)
		s.SetKind(ptrace.SpanKindClient)
		put(s, otelsemconv.GenAIOperationNameChat, otelsemconv.GenAIProviderNameMistralAI,
			otelsemconv.GenAIRequestModel("mistral-soak"), otelsemconv.GenAIResponseFinishReasons("stop"))
		from = to + time.Millisecond
	}
	m.trace.Runs = append(m.trace.Runs, Plan{ID: root, Outcome: semconv.RunOutcomeSucceeded, Spans: 2})
	m.server(root, to+time.Millisecond)
}

func (m *maker) others() {
	root := m.id()
	for range 3 + m.rng.IntN(10) {
		from := m.around(m.pace.Turn)
		m.other(frontend, root, "SELECT orders", from, from+m.around(m.pace.Turn/4))
	}
	m.server(root, 2*m.pace.Turn)
}
