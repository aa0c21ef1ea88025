// Package kinship tells which model requests belong to one run of an agent that does not
// say so. Consecutive requests of a conversation carry the proof in their bodies: a
// request repeats an earlier one, or its history is that of an earlier one with the answer
// and what followed.
//
// The package is pure: it keeps hashes and ids, takes the time as an argument, and starts
// nothing. Where two readings of the bytes are possible it joins nothing.
//
// # What cannot be decided
//
// Two agents without ids of a session, and without traces, begin with the same words. The
// first one fails. When these words come again within [Config.Settle], they are taken for a
// further attempt of the first agent, although they may be the first request of the second.
// The same holds for what follows a pause, or the part of an answer that had come: a second
// agent with the same words may have written that itself. And where the bounds are reached,
// what belongs to a conversation that was evicted is taken for that of another one that
// began with the same words later, without ids that distinguish the two. A request that was
// not recorded may have made any calls: what has its history and calls of no other agent is
// taken for its next step. Within a session, the same request again after minStall, while
// the first one is open, is taken for one that gave it up, and within [Config.Repeat] of a
// whole answer for one that did not take it, although it may ask a second time.
//
// These requests begin a run of their own, although they belong to an earlier one:
//   - The agent changes its history (a summary), and its last answer had no calls, or calls
//     whose ids are counted or absent; unless that history was refused as too long, and the
//     summary was asked for then.
//   - The agent changes its instructions or its protocol, no id of a session says who it is,
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
	// Repeat is how long a complete answer waits for the same request again, if that would be
	// known to come from the same client.
	Repeat time.Duration
	// Alone: one agent sends all requests.
	Alone bool
	// MaxConversations and MaxBytes bound what is kept: by the tracker for all
	// conversations, and by its caller for runs that are not over, as [Tracker.Keep] is
	// told. The conversation that has been quiet for longest goes first, and its runs are
	// over. One conversation always stays. What the caller keeps for requests that are
	// open, beside their run, is not counted.
	MaxConversations, MaxBytes int
	// DataBytes is what the caller keeps as the Data of a conversation.
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
	// minStall is the age from which on a request without an answer may be repeated. The
	// same request that comes earlier is another one: agents ask several times at once.
	minStall = time.Second
)

// Sent is what is known of a request when it is sent.
type Sent struct {
	// Transcript is read during the call only.
	Transcript *wire.Transcript
	// Client is the hash of what the client says about itself and its conversation besides
	// the body: requests with different values are not kin. 0: nothing.
	Client uint64
	// Affine: Client has an id that the client sends with all requests of one conversation, so that
	// one server gets them. Other clients may send the same one with several.
	Affine bool
	// Session is the hash of an id that the client sends with all requests of one
	// conversation; 0: it sends none.
	Session uint64
	// Trace is the trace that the client says the request is in; 0: it says none. The same
	// words in two traces may be those of two agents, unless they have the same Session.
	Trace uint64
}

// Relation is what a request is to the earlier ones.
type Relation uint8

// The values of a [Relation].
const (
	// First: it begins a conversation, as far as is known.
	First Relation = iota
	// Next: it continues a conversation with a new run: the run before it had its answer.
	Next
	// Fork: it continues an earlier request that another one has continued before it.
	// That is another agent, or a person who went back: a run of its own.
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
	// Began are the calls that the response began and did not complete. Some agents keep them in
	// their history all the same.
	Began []Call
	// Way is in which way it failed, to compare it with other failures.
	Way    string
	Result Result
	// Unnamed: the response has, or may have, calls that are not in Calls.
	Unnamed bool
	// Continues: the answer is complete, and it is the client's turn although the answer
	// has no calls: the model paused.
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

// Previous is what became of what the conversation did before a run.
type Previous uint8

// The values of a [Previous].
const (
	// Unknown: nothing is known, or nothing was done.
	Unknown Previous = iota
	// Settled: the run before it ended with its answer, and the history goes on from there.
	Settled
	// Unsettled: calls were handed out, the run that they belong to is not known to have ended, or
	// the history was rewritten since, and the run may go on with the same task.
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
	// Unclear: a later request may have continued the run, and it cannot be told which
	// one.
	Unclear
	// Evicted: the bounds were reached.
	Evicted
)

// Begun is a request that [Tracker.Begin] has added.
type Begun struct {
	*Request
	// Observed are the calls of the request before it, if the request is a Step. Calls
	// without ids are left out if it is not clear which of them have outputs.
	Observed []Observed
	// MadeUp are calls whose outputs, which the request has, were made up by the agent, if the
	// request is not a Step. Their names are known if a request that is remembered made them.
	MadeUp []Call
	// Previous is what the conversation did before, if the request begins a run.
	Previous Previous
	// Ended are the runs that are over by now: those that waited for too long, and those
	// for which the bounds leave no room.
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
	n        int                   // of requests
	acted    bool                  // calls were handed out, or a history had outputs
	first    Run

	newer, older *Conversation // in the order in which they were used last
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
	way      string // in which the newest attempt failed
	inARow   int32  // steps with these calls, or attempts that failed in this way
	repeated int32

	open    int32 // requests that have not ended
	over    bool
	unclear bool // see Unclear
}

// Conversation returns the conversation that the run belongs to.
func (run *Run) Conversation() *Conversation { return run.conversation }

// Repeated returns how often the run repeated a step without progress: it made the same
// calls with the same input again, or its answer was cut in the same way again. It is the
// length of the longest such sequence, without the first step.
func (run *Run) Repeated() int { return int(run.repeated) }

// Request is one request of a run.
type Request struct {
	// Run is the run that the request belongs to.
	Run *Run
	// Before is the request that it continues or repeats; nil for the first one, and once
	// that request is forgotten.
	Before *Request
	// Attempt is its number among the attempts of one call, from 1.
	Attempt int
	// Relation is what it is to the earlier requests.
	Relation Relation

	forced    bool
	session   bool // its client sends an id of the conversation
	continued bool // by another one, or repeated
	resumes   bool // it goes on with the stream of the request before it
	rereads   bool // it reads a response once more that another request has read
	returned  bool // a later request of the run has outputs of its calls
	aside     bool // the run that it comes from goes on without it
	shortens  bool // it asks for a summary, since the history of the request before it was too long
	known     bool // what is the same as it comes from the same client
	affine    bool // see [Sent.Affine]
	gone      bool // it is not in the tracker any more
	size      int32

	kin     uint64 // the hash of its client and session
	end     uint64 // the hash of its history and of kin
	opening uint64
	tools   uint64
	tail    uint64 // [wire.Transcript.Tail] of a request that names an earlier response and has no answers; else 0
	trace   uint64
	sender  uint64 // the hash of its client and session without what its body says
	words   uint64 // [wire.TranscriptPoint.Words] of its history
	voice   uint64 // [wire.Transcript.Voice]
	offers  uint64 // [wire.Transcript.Offers]
	answers int32  // how often the model had answered
	began   int64  // in nanoseconds
	live    func() Answer
	answer  Answer
	ended   time.Time
	twin    *Request // the next one in twins
}

// Answer returns how the request ended. Ended is zero while it is pending.
func (r *Request) Answer() (a Answer, ended time.Time) { return r.answer, r.ended }

// Observed is what the next request shows about a call.
type Observed struct {
	Call
	// Sent: the request has its output. Otherwise the conversation goes on without it.
	Sent   bool
	Result wire.TranscriptResult
}
