// Package turns makes the events of a session into its turns, and these into spans with the facts
// of the vocabulary, which are judged as those of any other producer are.
package turns

import (
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
)

// Profile is what the absence of a record means with an agent. What it does not say is not known.
type Profile struct {
	Agent string // its name, as its own telemetry has it
	// CallsFirst: a call is on the disk before its tool runs. No call then means that no tool ran.
	CallsFirst bool
	// EndsTurns: the agent records the end of every turn that its process survives. A turn without
	// it was cut short.
	EndsTurns bool
	// HidesCalls: an answer that is recorded without calls may have had some, which run.
	HidesCalls bool
	// SubAgents are the tools that run a sub-agent.
	SubAgents []string
	// PartialText: what was shown of an answer that broke off is recorded with it.
	PartialText bool
	// Resume is what a resume tells the model of a call without an output.
	Resume Resume
}

// Resume is what an agent tells the model when a session is resumed in which a call has no output.
type Resume uint8

// What a resume tells the model.
const (
	ResumeUnknown     Resume = iota
	ResumeAsks               // that the outcome is not known, and to check
	ResumeMisleads           // that the call was aborted or interrupted, or returned nothing
	ResumeSaysRetry          // that the call failed, and to try it again
	ResumeSendsPrompt        // nothing: the turn is dropped, and its prompt is sent again
)

// Turn is what is known of one turn of a user.
type Turn struct {
	ID         string
	Start, End time.Time // End is that of the last event
	Model      string
	Requests   []*Request
	Calls      []*Call

	Ending  Ending
	Code    string // of the error on which it ended
	Aborted bool   // a person stopped it
	// Concluded: its end is concluded from its last request, and not recorded.
	Concluded bool
	Next      bool // another turn began after it
	Reopen    bool // the session was opened again before anything ended the turn
	Partial   bool // events before the first ones are not known
	Owed      bool // the model is to be asked once more
	MaybeOwed bool // the model may be asked once more
	Hidden    bool // a sub-agent may have done something that is not here, and nothing shows that it ended well
	Unlisted  bool // likewise, and the session of the sub-agent was not read, or not all of it

	// Within are the calls of its sub-agents that nothing in the turn shows to have ended well. A turn that was answered
	// has none.
	Within []*Call
}

// Ending is how a turn ended, by its own records.
type Ending uint8

// The endings of turns.
const (
	Open     Ending = iota // nothing ended it
	Answered               // the last answer asks for nothing more
	Failed                 // the agent gave up
	Dropped                // the agent removed it from its history
	Unclear                // it is not known how
)

// Request is a model request of a turn.
type Request struct {
	Start, End time.Time
	Sent       bool // its beginning was recorded, and not concluded from its answer
	Complete   bool
	Broken     bool // its answer broke off
	Failed     bool // it ended with an error
	Finish     string
	Code       string
	Status     int
	ResponseID string
	Text       int
	Reasoning  int
	Provider   int     // tools that the provider executed
	Calls      []*Call // that its answer made
	Carried    []*Call // whose outputs it carried, the newest first; not all of very many
	Known      []*Call // that are in its history, likewise
}

// Call is a call of a tool.
type Call struct {
	ID, Name   string
	Partial    bool // its input is not known to be complete
	Start, End time.Time
	Returned   bool // its output was recorded
	Outcome    event.Outcome
	Carried    bool // a request carried its output
	Launched   bool // it returned at once, and its tool goes on until an output comes
	Left       bool // likewise, and the turn does not wait for it
}

// open reports whether the tool may be running, or may have run unnoticed.
func (c *Call) open() bool { return !c.Returned }

// MayHaveBeenCut reports whether the tool was stopped while it ran, or nothing shows that it ended.
func (c *Call) MayHaveBeenCut() bool {
	return !c.Partial && (c.open() || c.Outcome == event.Interrupted)
}

// Ended reports whether the request is over, by its records.
func (r *Request) Ended() bool { return r.Complete || r.Broken || r.Failed }

// over reports whether the agent recorded the end of the turn.
func (t *Turn) over() bool { return t.Ending != Open || t.Aborted }

// last returns the last request, or nil.
func (t *Turn) last() *Request {
	if len(t.Requests) == 0 {
		return nil
	}
	return t.Requests[len(t.Requests)-1]
}

// launched reports whether all that the turn waits for goes on beside later turns.
func (t *Turn) launched() bool {
	waiting := t.Waiting()
	return len(waiting) > 0 && !slices.ContainsFunc(waiting, func(c *Call) bool { return !c.Launched })
}

// Unanswered returns the calls to which the history has no output at all, so that a resume makes one
// up.
func (t *Turn) Unanswered() []*Call {
	return slices.DeleteFunc(t.Waiting(), func(c *Call) bool { return c.Launched })
}

// LeftRunning returns the calls that left something running of which no end is recorded.
func (t *Turn) LeftRunning() []*Call {
	return slices.DeleteFunc(t.Waiting(), func(c *Call) bool { return !c.Left })
}

// Waiting returns the calls without an output.
func (t *Turn) Waiting() (list []*Call) {
	for _, c := range t.Calls {
		if c.open() && !c.Partial {
			list = append(list, c)
		}
	}
	return list
}
