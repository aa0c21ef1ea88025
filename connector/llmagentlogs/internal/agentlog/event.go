// Package agentlog reads the log records of coding agents into events: one file for each agent.
//
// An event has only facts that its producer records, and no text of people, models or tools: no body, prompt, argument or
// output. Error messages are compared with texts that are fixed in an agent's own source (messages.go), and are never
// carried over.
package agentlog

import (
	"cmp"
	"hash/maphash"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/semconv"
)

// Agent is the producer of a record.
type Agent uint8

// The agents.
const (
	Codex Agent = iota
	ClaudeCode
	GeminiCLI
)

var names = [...]string{Codex: "codex", ClaudeCode: "claude_code", GeminiCLI: "gemini_cli"}

// String returns the name of the agent in the configuration.
func (a Agent) String() string { return names[a] }

// Names returns the names of all agents.
func Names() []string { return names[:] }

// Kind is the kind of an event. Events at the same time happened in the order of their kinds.
type Kind uint8

// The kinds of events.
const (
	// Session tells how the conversation is run: Event.Unattended.
	Session Kind = iota
	// Prompt begins a turn, unless it names the open turn.
	Prompt
	// Began is the beginning of a model request, or the arrival of its headers.
	Began
	// Progress is a part of the open request's response: Event.Part.
	Progress
	// Done ends the open request; without one, it is a complete request.
	Done
	// Refused is a complete request that got no answer.
	Refused
	// Cut tells that the last request's answer was not complete.
	Cut
	// Detail adds the transport's code to the last request, which failed.
	Detail
	// Decision is on a tool call: Event.Rejected.
	Decision
	// Tool is a tool that was executed.
	Tool
	// GaveUp: the agent will not try the last request again.
	GaveUp
	// Ended: the agent says that the turn is over.
	Ended
	// GoesOn: the turn is not over, even if an event at the same time says so.
	GoesOn
)

// Part is a part of a response.
type Part uint8

// The parts of a response.
const (
	Something Part = iota // an event without a known part of an answer
	Text
	Reasoning
	InputBegan     // a part of the input of a call
	InputCompleted // the input of a call is complete
	ProviderTool   // a tool that the provider executes
	ItemBegan      // an item of the output, which may be a text, a call or anything else
	ItemEnded
)

// Failure is how a request failed. The zero value: no failure is known.
type Failure struct {
	Failed   bool
	End      semconv.StreamEnd
	Cause    semconv.TransportCause
	Code     string // of the transport
	Provider semconv.ProviderErrorKind
	InBand   bool
	Fetch    bool // its message is undici's for a request without a response
	Watchdog semconv.WatchdogKind
	Abort    semconv.AbortSource
	Type     string // of the error
	Limited  string // the finish reason of an answer that was cut by a limit
}

// Event is one record of an agent.
type Event struct {
	Kind  Kind
	Agent Agent
	Time  pcommon.Timestamp // when it was recorded
	Start pcommon.Timestamp // the beginning of an operation that ended at Time; Time if not recorded
	Seq   int64             // orders events at the same time, if the agent counts them

	Turn  string // the agent's id of the turn, or ""
	Trace pcommon.TraceID
	Span  pcommon.SpanID

	Part       Part
	Unattended bool // no person is asked for approval
	Rejected   bool // the call was rejected
	Side       bool // not a part of the conversation itself, such as a request for a title

	Model, Provider string
	Status          int
	Attempt         int // 1 for the first, 0 if not recorded
	InputTokens     int64
	OutputTokens    int64
	RequestID       string // on tools and decisions: of the request that made the call
	Failure         Failure

	CallID, ToolName string
	Outcome          semconv.ToolOutcome // unset if not recorded
	ToolErrorType    string
}

// Size estimates the memory of the event in a growing list, in bytes: append reserves up to twice the necessary memory.
func (e *Event) Size() int {
	const fixed = 2 * 280
	return fixed + len(e.Turn) + len(e.Model) + len(e.Provider) + len(e.RequestID) + len(e.Failure.Code) + len(e.Failure.Type) +
		len(e.CallID) + len(e.ToolName) + len(e.ToolErrorType)
}

var seed = maphash.MakeSeed()

// Hash identifies the event: a record that is delivered twice has the same hash.
func (e *Event) Hash() uint64 { return maphash.Comparable(seed, *e) }

// Compare orders events by the time at which they happened, independent of the order in which they arrived.
func Compare(a, b *Event) int {
	return cmp.Or(
		cmp.Compare(a.Time, b.Time),
		cmp.Compare(a.Seq, b.Seq),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Part, b.Part),
		cmp.Compare(a.Start, b.Start),
		cmp.Compare(a.CallID, b.CallID),
		cmp.Compare(a.ToolName, b.ToolName),
		cmp.Compare(a.Status, b.Status),
		cmp.Compare(a.Failure.End, b.Failure.End),
		cmp.Compare(a.Failure.Cause, b.Failure.Cause),
		cmp.Compare(a.Failure.Provider, b.Failure.Provider),
		cmp.Compare(a.RequestID, b.RequestID),
		cmp.Compare(string(a.Trace[:]), string(b.Trace[:])),
		cmp.Compare(string(a.Span[:]), string(b.Span[:])),
		cmp.Compare(a.Turn, b.Turn),
	)
}
