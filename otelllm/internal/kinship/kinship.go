// Package kinship tells which model requests belong to one run of an agent that does not say so. Consecutive requests of a
// conversation carry the proof in their bodies: a request repeats an earlier one, or continues the history of an earlier
// one with its answer and further messages.
//
// The package is pure: it keeps hashes and ids, takes the time as an argument, and starts nothing. If the bytes allow two
// readings, nothing is joined.
//
// # What cannot be decided
//
// Two agents without ids of a session, and without traces, begin with the same words. The first one fails. If these words
// come again within [Config.Settle], they count as a further attempt of the first agent, although they may be the first
// request of the second. The same holds for a request after a pause, or after a part of an answer: a second agent with the
// same words may have written that itself. At the bounds, a request of an evicted conversation joins another one that began
// with the same words later, if no ids distinguish the two. A request that was not recorded may have made any calls: a
// request with its history, and with calls of no other agent, counts as its next step. Within a session, the same request
// after minStall, while the first one is open, counts as a repetition after giving up; within [Config.Repeat] of a whole
// answer it counts as a repetition of an answer that the client did not take, although the client may ask a second time.
//
// These requests begin a run of their own, although they belong to an earlier one:
//   - The agent changes its history (a summary), and its last answer had no calls, or calls
//     whose ids are counted or absent; unless that history was refused as too long, and the
//     summary was asked for then.
//   - The agent changes its instructions or its protocol, no id of a session identifies it,
//     and the last answer had no calls with random ids. The date and the time are no change.
//   - It repeats a step that failed, with other outputs or without one, and no call has a
//     random id.
//   - Another conversation has the same words, and the ids do not distinguish the two.
//   - The request before it ended in the beginning of an answer (a prefill), and its answer
//     had no calls with random ids. The next history has both as one message.
//   - It refers to an earlier response, or to a call of a response, that has not ended for
//     the caller of this package.
//   - It repeats one without an id of the session, and their clients say that the two are in
//     different traces.
//   - It repeats, with the whole history, one that failed and referred to an earlier response
//     instead, and neither the first request of that history is known nor a call of it that has
//     a random id.
//   - It comes after more than maxRequests later ones of its conversation.
package kinship

import (
	"time"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// Config bounds a [Tracker].
type Config struct {
	// Settle is how long a failed request waits for a further attempt.
	Settle time.Duration
	// Idle is how long an answer with calls waits for the request with their outputs.
	Idle time.Duration
	// Repeat is how long a complete answer waits for the same request again, if that request would be known to come from
	// the same client.
	Repeat time.Duration
	// Alone: one agent sends all requests.
	Alone bool
	// MaxConversations and MaxBytes bound the memory: of the tracker for all conversations, and of its caller for runs that
	// are not over, as passed to [Tracker.Keep]. The conversation that has been quiet for longest is evicted first, and its
	// runs are over. One conversation always stays. The caller's memory for open requests, beside their run, is not
	// counted.
	MaxConversations, MaxBytes int
	// DataBytes is the size of the Data of a conversation.
	DataBytes int
}

// DefaultConfig returns the bounds that are used unless the application asks for others.
func DefaultConfig() Config {
	return Config{
		Settle:           2 * time.Minute,
		Idle:             30 * time.Minute,
		Repeat:           10 * time.Second,
		MaxConversations: 10_000,
		MaxBytes:         16 << 20,
	}
}

const (
	// maxRequests bounds the requests of a conversation that are remembered.
	maxRequests = 8
	// maxTwins bounds the requests with the same history that are told apart.
	maxTwins = 8
	// minStall is the age from which on a request without an answer may be repeated. The same request before that is
	// another one: agents ask several times at once.
	minStall = time.Second
)

// Sent holds the facts of a request that are known when it is sent.
type Sent struct {
	// Transcript is read during the call only.
	Transcript *wire.Transcript
	// Client is the hash of the client's statements about itself and its conversation besides the body: requests with
	// different values are not kin. 0: there are none.
	Client uint64
	// Affine: Client has an id that the client sends with all requests of one conversation, so that one server gets them.
	// Other clients may send the same one with several.
	Affine bool
	// Session is the hash of an id that the client sends with all requests of one conversation; 0: it sends none.
	Session uint64
	// Trace is the trace that the client names; 0: it names none. The same words in two traces may be of two agents, unless
	// they have the same Session.
	Trace uint64
}

// Relation is the relation of a request to the earlier ones.
type Relation uint8

// The values of a [Relation].
const (
	// First: it begins a conversation, as far as is known.
	First Relation = iota
	// Next: it continues a conversation with a new run: the run before it had its answer.
	Next
	// Fork: it continues an earlier request that another one has continued before it. That is another agent, or a person
	// who went back: a run of its own.
	Fork
	// Step: it continues the run with the outputs of calls.
	Step
	// Again: it is a further attempt of the request before it.
	Again
)

// Joins reports whether the request belongs to the run of an earlier one.
func (r Relation) Joins() bool { return r == Step || r == Again }

// Answer is how a request ended.
type Answer struct {
	// Calls are the calls that the response handed over, or may have handed over.
	Calls []Call
	// ResponseID is the response's own id; "": it has none.
	ResponseID string
	// Began are the calls that the response began and did not complete. Some agents keep them in their history all the
	// same.
	Began []Call
	// Way identifies a failure, to compare it with other failures.
	Way    string
	Result Result
	// Unnamed: the response has, or may have, calls that are not in Calls.
	Unnamed bool
	// Continues: the answer is complete, and it is the client's turn although the answer has no calls: the model paused.
	Continues bool
	// Queued: the provider goes on with the response, which can be requested later.
	Queued bool
	// Text: a part of the answer's text, or of its reasoning, had come.
	Text bool
	// TooLong: the request was refused because its history is too long.
	TooLong bool
}

// finished reports whether the answer is complete and asks for nothing more.
func (a *Answer) finished() bool { return a.Result == Answered && !a.waits() }

// waits reports whether it is the client's turn after the answer.
func (a *Answer) waits() bool { return len(a.Calls) > 0 || a.Unnamed || a.Continues }

// Call is a call that a response handed over.
type Call struct{ ID, Name string }

// Result is how a request ended, as far as kinship asks.
type Result uint8

// The values of a [Result].
const (
	// Pending: it has not ended.
	Pending Result = iota
	Answered
	Failed
	// Stopped: this side ended it.
	Stopped
	// Unobserved: it was not recorded, and any of the others may be true.
	Unobserved
	// Redirected: the answer is that the request has to be sent to another place.
	Redirected
)

// Previous is the state of a conversation before a run.
type Previous uint8

// The values of a [Previous].
const (
	// Unknown: nothing is known, or nothing was done.
	Unknown Previous = iota
	// Settled: the run before it ended with its answer, and the history goes on from there.
	Settled
	// Unsettled: calls were handed out. Their run is not known to have ended, or the history was rewritten since, and the
	// run may go on with the same task.
	Unsettled
)

// Reason is why a run is over.
type Reason uint8

// The values of a [Reason].
const (
	// Finished: the last answer asks for nothing more.
	Finished Reason = iota
	// Broken: the last request failed or was stopped, and no further attempt came.
	Broken
	// Idle: the outputs of the last answer's calls never came.
	Idle
	// Unclear: it is not known whether a later request continued the run.
	Unclear
	// Evicted: the bounds were reached.
	Evicted
)

// Begun is a request that [Tracker.Begin] has added.
type Begun struct {
	*Request
	// Observed are the calls of the request before it, if the request is a Step. Calls without ids are left out if it is
	// not clear which of them have outputs.
	Observed []Observed
	// MadeUp are calls in the history whose outputs the agent made up, if the request is not a Step. Their names are known
	// if a remembered request made them.
	MadeUp []Call
	// Previous is the state of the conversation before, if the request begins a run.
	Previous Previous
	// Ended are the runs that are over by now: runs that waited for too long, and runs that the bounds leave no room for.
	Ended []Ended
}

// Ended is a run that is over.
type Ended struct {
	Run    *Run
	Reason Reason
}

// Conversation is a sequence of runs.
type Conversation struct {
	// Data is the caller's.
	Data any

	session  uint64
	requests [maxRequests]*Request // the oldest first
	n        int                   // number of requests
	acted    bool                  // calls were handed out, or a history had outputs
	first    Run

	newer, older *Conversation // in the order of their last use
}

// Run is requests that serve one task.
type Run struct {
	// Data is the caller's.
	Data any

	conversation *Conversation
	last         *Request // the newest one; nil once it is forgotten
	deadline     time.Time
	slot         int // in Tracker.due; -1: it has no deadline
	kept         int // see Tracker.Keep

	calls    uint64 // hash of the calls of the newest step
	way      string // Answer.Way of the newest attempt
	inARow   int32  // steps with these calls, or attempts that failed in this way
	repeated int32

	open    int32 // requests that have not ended
	over    bool
	unclear bool // see Unclear
}

// Conversation returns the conversation that the run belongs to.
func (run *Run) Conversation() *Conversation { return run.conversation }

// Repeated returns how often the run repeated a step without progress: it made the same calls with the same input again, or
// its answer was cut in the same way again. That is the length of the longest such sequence, without the first step.
func (run *Run) Repeated() int { return int(run.repeated) }

// Request is one request of a run.
type Request struct {
	// Run is the run that the request belongs to.
	Run *Run
	// Before is the request that this one continues or repeats; nil for the first one, and once the earlier one is
	// forgotten.
	Before *Request
	// Attempt is its number among the attempts of one call, from 1.
	Attempt int
	// Relation is the relation to the earlier requests.
	Relation Relation

	forced    bool
	session   bool // its client sends an id of the conversation
	continued bool // another request continues or repeats it
	resumes   bool // it goes on with the stream of the request before it
	rereads   bool // it reads a response once more that another request has read
	returned  bool // a later request of the run has outputs of its calls
	aside     bool // the run that it comes from goes on without it
	shortens  bool // it asks for a summary, since the history of the request before it was too long
	known     bool // an equal request comes from the same client
	affine    bool // see [Sent.Affine]
	gone      bool // the tracker has forgotten it
	size      int32

	kin     uint64 // the hash of its client and session
	end     uint64 // the hash of its history and of kin
	opening uint64
	tools   uint64
	tail    uint64 // [wire.Transcript.Tail] of a request that names an earlier response and has no answers; else 0
	trace   uint64
	sender  uint64 // the hash of its client and session without the statements in its body
	words   uint64 // [wire.TranscriptPoint.Words] of its history
	voice   uint64 // [wire.Transcript.Voice]
	offers  uint64 // [wire.Transcript.Offers]
	answers int32  // number of the model's answers in its history
	began   int64  // in nanoseconds
	live    func() Answer
	answer  Answer
	ended   time.Time
	twin    *Request // the next one in twins
}

// Answer returns how the request ended. Ended is zero while it is pending.
func (r *Request) Answer() (a Answer, ended time.Time) { return r.answer, r.ended }

// Observed is a call with its output, as the next request shows them.
type Observed struct {
	Call
	// Sent: the request has its output. Otherwise the conversation goes on without it.
	Sent   bool
	Result wire.TranscriptResult
}
