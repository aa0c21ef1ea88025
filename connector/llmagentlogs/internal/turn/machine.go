package turn

import (
	"cmp"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/agentlog"
	"github.com/otelllm/otelllm-go/semconv"
)

// Machine follows one conversation. A new one needs only the agent and the id. It is not safe for concurrent use.
type Machine struct {
	Agent        agentlog.Agent
	Conversation string
	Join         bool // turns may join the traces that their records name

	unattended bool
	provider   string
	turn       *turn
	past       *turn // the last turn that ended
}

// state is the state of a turn after its last part.
type state uint8

const (
	begun     state = iota // nothing but the prompt
	open                   // a request without an end
	completed              // the last request got its whole response, whose content is unknown
	answered               // the last response was the answer
	calling                // the last response asks for tools, which may run
	failed                 // the last request failed
	acted                  // a tool ended, and its output has to go to the model
)

// call is an approved call of a tool.
type call struct{ id, tool string }

func (c call) is(e *agentlog.Event) bool { return c == call{e.CallID, e.ToolName} }

// turn is an open turn. Its memory does not grow with its length.
type turn struct {
	Place
	start, last pcommon.Timestamp
	handled     pcommon.Timestamp // time of the latest event that was handled
	requests    int
	parts       int
	state       state
	open        *Request          // without an end
	held        *Request          // with an end that a later event may revoke
	caller      string            // the id of the request that made the last call
	rejected    []agentlog.Event  // decisions against calls that may yet have a result
	calls       []call            // approved calls without a result
	decided     bool              // there was a decision on a call since the last request began
	responseAt  pcommon.Timestamp // end of the last response
	ended       bool              // the agent says that the turn is over, and no event came after that
	failure     *agentlog.Failure // of the last request, if it failed
	gaveUp      bool              // the agent does not try the last request again
	lossy       bool              // records of the turn are missing, or came too late
	reported    bool              // the turn ended before, and its run was reported
	named       pcommon.TraceID   // the trace that the prompt's record names, joined or not
}

// The decisions that wait for the result of their call are bounded.
const maxRejected, maxCalls = 64, 64

// Bytes estimates the memory of the conversation.
func (m *Machine) Bytes() int {
	const fixed, aTurn, aPart, aCall = 300, 500, 400, 32
	n := fixed + len(m.Conversation)
	for _, t := range [...]*turn{m.turn, m.past} {
		if t == nil {
			continue
		}
		n += aTurn + len(t.Key) + len(t.caller) + aPart*(2+cap(t.rejected)) + aCall*cap(t.calls)
		for _, c := range t.calls {
			n += len(c.id) + len(c.tool)
		}
	}
	return n
}

// Handle takes the next event. It reports whether the event belongs to a turn: an event before the first prompt does not.
func (m *Machine) Handle(e *agentlog.Event, to Sink) bool {
	switch e.Kind {
	case agentlog.Session:
		m.unattended, m.provider = e.Unattended, e.Provider
		return true
	case agentlog.Prompt:
		m.prompt(e, to)
		return true
	default:
	}
	t := m.turn
	if t == nil {
		t = m.past // which went on after all; its run has been reported
	}
	if t == nil || e.Turn != "" && t.Key != e.Turn || !t.named.IsEmpty() && !e.Trace.IsEmpty() && e.Trace != t.named {
		return false
	}
	m.turn, m.past = t, nil
	if e.Side {
		t.last = max(t.last, e.Time)
		return true
	}
	t.lossy = t.lossy || e.Time < t.handled // an event that is too late may change anything
	t.last, t.handled = max(t.last, e.Time), max(t.handled, e.Time)
	event := *e
	event.Provider = cmp.Or(event.Provider, m.provider)
	t.ended = false
	t.handle(&event, to)
	return true
}

// prompt begins a turn, which ends the one before. A prompt with the id or in the trace of the open turn belongs to that
// turn: people may write while the agent works.
func (m *Machine) prompt(e *agentlog.Event, to Sink) {
	key := e.Turn
	if key == "" && !e.Trace.IsEmpty() {
		key = e.Trace.String()
	}
	if key == "" {
		key = strconv.FormatUint(uint64(e.Time), 10)
	}
	if t := cmp.Or(m.turn, m.past); t != nil && t.Key == key {
		t.last = max(t.last, e.Time)
		m.turn, m.past = t, nil
		return
	}
	if t := m.turn; t != nil && t.state == completed && m.Agent != agentlog.Codex {
		t.state = answered // Codex takes prompts while a tool runs
	}
	m.over(to)
	m.turn = &turn{
		Place: Place{Agent: m.Agent, Conversation: m.Conversation, Key: key},
		start: e.Time, last: e.Time, named: e.Trace,
	}
	if m.Join && !e.Span.IsEmpty() {
		m.turn.Trace, m.turn.Above = e.Trace, e.Span
	}
}

// Waits is the next event that an open turn waits for.
type Waits uint8

// The values of [Waits].
const (
	// ForNothing: no turn is open.
	ForNothing Waits = iota
	// ForNothingMore: the agent has given up, or says that the turn is over. Only records of earlier events may come.
	ForNothingMore
	// ForAttempt: nothing is known to go on. The next record would be another attempt of the failed request, or nothing is
	// due.
	ForAttempt
	// ForWork: a request, a tool or a person, which may be indistinguishable.
	ForWork
)

// Waits returns the next event that the open turn waits for.
func (m *Machine) Waits() Waits {
	switch t := m.turn; {
	case t == nil:
		return ForNothing
	case t.state == failed && t.gaveUp, t.ended:
		return ForNothingMore
	case t.state == failed && len(t.calls) == 0, t.state == answered && m.unattended:
		return ForAttempt
	default:
		return ForWork
	}
}

// Silent ends the open turn, if there is one, after a silence.
func (m *Machine) Silent(to Sink) {
	switch {
	case m.turn == nil:
	case m.Waits() != ForWork:
		m.over(to)
	case m.turn.state == calling && m.unattended && !m.turn.decided: // otherwise a person may be asked, or a tool runs
		m.close(semconv.RunEndIdle, to)
	case m.turn.state == open && m.unattended && m.turn.failure != nil:
		// An agent that fails loses its last records, one that ends well does not.
		m.close(semconv.RunEndIdle, to)
	default:
		m.close(semconv.RunEndUnclear, to) // a request, a tool or a person may have gone on
	}
}

// Stop ends the open turn, if there is one, because no more records will be read. It claims no outcome that is not certain
// by then.
func (m *Machine) Stop(by semconv.RunEnd, to Sink) {
	switch w := m.Waits(); {
	case w == ForNothing:
	case w == ForNothingMore, w == ForAttempt && m.turn.state == answered:
		m.over(to)
	default:
		m.close(by, to)
	}
}

// maxExit bounds the time from the answer to the record that the turn is over. If that comes later, the agent may have been
// stopped while a tool ran.
const maxExit = pcommon.Timestamp(time.Second)

// over ends the open turn, if there is one, because it is over.
func (m *Machine) over(to Sink) {
	if m.turn == nil {
		return
	}
	by := semconv.RunEndUnclear // a person may have stopped it
	switch m.turn.state {
	case answered:
		by = semconv.RunEndAnswer
	case completed:
		if t := m.turn; t.ended && t.handled-t.responseAt <= maxExit {
			by = semconv.RunEndAnswer
		}
	case failed:
		by = semconv.RunEndFailure
	default:
	}
	m.close(by, to)
}

// Lost notes that records of the conversation are missing: no outcome is claimed for the open turn. Later records may
// belong to a turn whose prompt is missing, so the past turn does not go on.
func (m *Machine) Lost() {
	if m.past = nil; m.turn != nil {
		m.turn.lossy = true
	}
}

// close reports the unreported requests and rejections of the open turn, and then the turn itself.
func (m *Machine) close(by semconv.RunEnd, to Sink) {
	t := m.turn
	m.turn, m.past = nil, t
	t.reject(to)
	t.flush(to)
	if t.parts == 0 || t.reported {
		return
	}
	t.reported = true
	if t.lossy {
		by = semconv.RunEndEvicted
	}
	run := Run{Start: t.start, End: t.last, EndedBy: by, Requests: t.requests}
	if by == semconv.RunEndFailure && t.failure != nil {
		run.ErrorType = ErrorType(t.failure, 0)
	}
	to.Run(t.Place, &run)
}
