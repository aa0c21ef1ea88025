// Package event has what the session files of coding agents are read into: neutral events, which
// have room for ids, names, codes and counts, and none for what people, models or tools wrote.
package event

import "time"

// Kind is what happened.
type Kind uint8

// The kinds of events.
const (
	// Turn begins a user's turn: what follows belongs to it.
	Turn Kind = iota + 1
	// Request is a model request that was sent. It carries all outputs that were recorded before.
	Request
	// Going is a sign of a model request that was sent: it opens one only if none is open.
	Going
	// Model names the model of the requests that follow.
	Model
	// Text is visible text in the answer to the open request.
	Text
	// Reasoning is reasoning in the answer to the open request.
	Reasoning
	// Call is a complete call of a tool in the answer to the open request: it may run from now on.
	Call
	// ProviderTool is a tool that the provider executes while it answers.
	ProviderTool
	// LateCall is a call of the answer before, which was recorded without it.
	LateCall
	// PartialCall is a call whose input is not known to be complete.
	PartialCall
	// Response completes the answer to the open request. Code is its finish reason; "" if it is not
	// known, nor that the answer is complete.
	Response
	// Failed ends the open request with an error: Code, and its HTTP status in Count.
	Failed
	// Broken ends the open request: its answer broke off, and nothing says why.
	Broken
	// Output is what a tool returned: ID is that of its call, Outcome says how the tool ended.
	Output
	// Launched: the call's tool returned at once, and goes on. ID is that of the call; an Output comes
	// when the tool has ended, in this turn or in a later one.
	Launched
	// LeftRunning: the call's tool returned at once, and left something running that the turn does not
	// wait for, such as a command in the background. ID is that of the call; an Output may come when
	// it has ended.
	LeftRunning
	// Told is what a resume wrote in the place of an output, which never was. ID is that of the call.
	Told
	// Owed: the model is to be asked once more, although it has answered.
	Owed
	// MaybeOwed: the model may be asked once more, although it has answered.
	MaybeOwed
	// Aborted: a person stopped the turn.
	Aborted
	// Ended: the agent itself recorded the end of the turn. Code is "" for a good one.
	Ended
	// Dropped: the agent removed the turn from its history.
	Dropped
	// Resumed: the session was opened again; what is open in the turn died with its process.
	Resumed
)

// Outcome is how a tool ended.
type Outcome uint8

// The outcomes of tools.
const (
	OutcomeUnknown Outcome = iota
	Succeeded
	FailedTool
	Interrupted // it was stopped while it ran, or may have run
	Rejected    // it did not run: a person or a rule refused the call
)

// Event is one thing that an agent recorded. [Log.Add] cleans its strings.
type Event struct {
	Time    time.Time // zero if not recorded
	Turn    string    // the agent's id of the turn; "" if it has none
	Kind    Kind
	ID      string // of the call, or of the response
	Name    string // of the tool, or of the model
	Code    string // a finish reason, or an error's code
	Count   int    // an HTTP status
	Outcome Outcome
}
