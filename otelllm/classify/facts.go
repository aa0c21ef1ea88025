package classify

import (
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// Fact is a fact with three values. Its zero value is NotObserved: a reader that sets
// nothing claims nothing, because absent evidence is not negative evidence.
type Fact uint8

// The values of a [Fact].
const (
	NotObserved Fact = iota // not looked for, or not recorded by the producer
	No                      // observed to be false
	Yes                     // observed to be true
)

// FactOf returns Yes for true and No for false.
func FactOf(b bool) Fact {
	if b {
		return Yes
	}
	return No
}

// Count is a count that may not have been observed. The zero value means "not observed";
// [Counted] returns an observed one.
type Count uint32

// Counted returns an observed count. A negative n means not observed; n saturates at
// 2^32-2.
func Counted(n int) Count {
	if n < 0 {
		return 0
	}
	if uint64(n) >= 1<<32-1 {
		return 1<<32 - 1
	}
	return Count(n) + 1
}

// Observed reports whether the count was observed.
func (c Count) Observed() bool { return c != 0 }

// N returns the count, or 0 if it was not observed.
func (c Count) N() int {
	if c == 0 {
		return 0
	}
	return int(c - 1)
}

// atLeast returns the count as a lower bound if uncertain is true: an observed zero then
// becomes not observed.
func (c Count) atLeast(uncertain bool) Count {
	if uncertain && c == 1 {
		return 0
	}
	return c
}

// Fact returns Yes for an observed count above zero and No for an observed zero.
func (c Count) Fact() Fact {
	switch c {
	case 0:
		return NotObserved
	case 1:
		return No
	default:
		return Yes
	}
}

// Basis is the kind of evidence for the end of a request. It bounds the confidence of the
// verdict. The zero value is the weakest.
type Basis uint8

// The values of a [Basis].
const (
	Inferred     Basis = iota // from something missing, or from a status and text alone
	Corroborated              // untyped, but two independent facts agree
	Typed                     // a cause, a status or a protocol event
)

// MaxIDs bounds every list of ids in facts; the vocabulary sets it to 64. A list of that
// length may have been cut: an id that is not in it is not known to be absent.
const MaxIDs = 64

// Finish is the combined meaning of a response's finish reasons.
type Finish uint8

// The values of a [Finish]. Those after FinishWaiting are limits.
const (
	FinishNotObserved   Finish = iota // the producer does not record finish reasons
	FinishMissing                     // a finish reason was due and never arrived
	FinishNothingDue                  // the request asked for no answer, such as one that loads a model
	FinishOther                       // a reason that is not known to be a good end
	FinishUnstated                    // the server ended the answer, and sends no reasons
	FinishStop                        // the model finished
	FinishToolCalls                   // the model requests tool calls
	FinishCompacted                   // the model summarised the history, and the client continues from there
	FinishWaiting                     // the answer waits for a person or for a background job
	FinishLimited                     // cut by a limit that is not named
	FinishMaxTokens                   // cut by an output token limit
	FinishContentFilter               // cut by a content filter
	FinishRefusal                     // the model refused
	FinishContextWindow               // the context window was full
	FinishPaused                      // paused, to be continued
)

// Transport is the failure that the transport reported.
type Transport struct {
	Stage semconv.TransportStage
	Cause semconv.TransportCause
	// Code is the transport's own low-cardinality code, at most 80 bytes. For the cause
	// tls it distinguishes a certificate that does not verify ([CodeCertificate]) from a
	// handshake that failed for another reason.
	Code string
}

// CodeCertificate is the transport code for a peer certificate that does not verify.
// OpenSSL and Python use the same name.
const CodeCertificate = "CERTIFICATE_VERIFY_FAILED"

// CodeNotTLS is the transport code for a peer that does not speak TLS, such as a plain
// HTTP server.
const CodeNotTLS = "NOT_TLS"

// permanent reports whether a TLS failure will occur again at the next attempt: the
// certificate does not verify, or the peer does not speak TLS. Without a code that is not
// known. Codes other than those of this package are from Node: those of
// X509_verify_cert_error_string, as node:tls reports them, and those of OpenSSL.
func (t Transport) permanent() Fact {
	switch t.Code {
	case "":
		return NotObserved
	case CodeCertificate, CodeNotTLS, "ERR_SSL_WRONG_VERSION_NUMBER", "EPROTO", "WRONG_VERSION_NUMBER", "CERT_HAS_EXPIRED", "CERT_NOT_YET_VALID", "CERT_REVOKED", "CERT_REJECTED", "CERT_UNTRUSTED",
		"DEPTH_ZERO_SELF_SIGNED_CERT", "SELF_SIGNED_CERT_IN_CHAIN", "ERR_TLS_CERT_ALTNAME_INVALID",
		"UNABLE_TO_GET_ISSUER_CERT", "UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
		"HOSTNAME_MISMATCH", "INVALID_CA":
		return Yes
	default:
		return No
	}
}

// ProviderError is the error that the provider itself reported.
type ProviderError struct {
	Kind   semconv.ProviderErrorKind
	Code   string // the provider's code or type, as [SanitizeCode] returns it
	InBand bool   // it arrived inside a stream with status 200
	// History is what the error says is wrong with the history; unset: nothing, or only its
	// code says it.
	History semconv.ProviderErrorHistory
	// Intermediary: the error is that of a server in front of the provider, or such a server has
	// appended another answer to the one that it had begun to pass on.
	Intermediary bool
}

// Connection is what is known about the connection on which a request was sent.
type Connection struct {
	Reused   Fact          // it had served another request before
	Idle     time.Duration // how long it had been idle before, if it was reused
	Protocol string        // the HTTP version: "1.1", "2"; "" if not observed
}

// Upstream is how the request ended which a gateway made for its response, as another span
// of the trace records it: Yes with the classification of its failure, or No if it was
// answered. The zero value means that neither was observed.
type Upstream struct {
	Failed Fact
	Class  semconv.Class
	Cause  semconv.Cause
	Origin semconv.Origin
}

// ErrorID identifies an error, to recognise it where it is recorded again. The zero value
// means that none is recorded that can be recognised.
type ErrorID struct{ class, message uint32 } // hashes

// minErrorMessage is the length of the shortest message that identifies an error, in bytes.
const minErrorMessage = 16

// IdentifyError returns the id of an error of this type, as error.type or an exception has it,
// with this message. The message should be "" if the producer writes it for every error. It is
// not kept.
func IdentifyError(errorType, message string) (id ErrorID) {
	if name := errorType[strings.LastIndexAny(errorType, ".:/*")+1:]; name != "" {
		id.class = hash(name)
	}
	if len(message) >= minErrorMessage {
		id.message = hash(message)
	}
	return id
}

// hash returns a hash of s that is not 0 (FNV-1a).
func hash(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return max(h, 1)
}

// Abort is a deliberate end by this side. The zero value means that none was observed.
type Abort struct {
	Source semconv.AbortSource
	Reason string // the application's low-cardinality reason, at most 80 bytes
}

// Watchdog is a watchdog that fired. The zero value means that none fired.
type Watchdog struct {
	Kind  semconv.WatchdogKind
	Limit time.Duration
}

// Request holds the facts of one attempt of one model call. The zero value means that
// nothing was observed.
type Request struct {
	Start, End time.Time
	Attempt    int // 1 for the first attempt; 0 if not observed
	// FailedBefore is how many attempts at this request failed before the one that is
	// described here, where its producer counts them and records nothing else of them.
	FailedBefore int

	// Error identifies the error that the producer recorded, as it does for the run.
	Error ErrorID

	Basis  Basis
	Phase  semconv.Phase     // the phase in which the request ended
	Ended  semconv.StreamEnd // how it ended
	Failed Fact              // whether the producer marked it as failed; No only if the producer thereby reports success

	Status     int // HTTP status; 0 if there was none or it was not observed
	Connection Connection
	Transport  Transport
	Provider   ProviderError
	Abort      Abort
	Watchdog   Watchdog
	Finish     Finish

	// Unread is true if a part of what the consumer received could not be decoded. Counts
	// are then lower bounds, and a count of zero means not observed.
	Unread                                            bool
	Text, Reasoning                                   Count    // deltas
	ToolInputsStarted, ToolInputsCompleted, ToolCalls Count    // calls that the client executes
	CallIDs                                           []string // complete calls, at most MaxIDs
	CallNames                                         []string // the tools of CallIDs, in the same order; nil if not observed
	OpenCallIDs                                       []string // calls whose input began and never completed, at most MaxIDs
	ProviderTools                                     []string // provider-executed tools that the request offered, at most MaxIDs; nil if not observed
	ToolInputsInvalid                                 Count    // calls whose input is not JSON at its end
	ProviderToolsStarted                              Count
	ProviderToolTypes                                 []string // types of the provider-executed tools that began, at most MaxIDs; nil if not observed

	HistoryCalls   []string // calls in the request's history, the newest MaxIDs; nil if not observed
	HistoryOutputs []string // outputs in the request's history, the newest MaxIDs; nil if not observed
	// HistoryEndsWithOutputs: the history ends with outputs of tools, and the model may end its
	// turn without a word after them.
	HistoryEndsWithOutputs bool
	MaxTokens              Count // the bound on the tokens of the answer that the request asked for
	OutputTokens           Count // the tokens of the answer, as the provider counts them

	Background    bool          // the provider continues to process the request even if the stream is not read
	Events        Count         // semantic events
	TimeToHeaders time.Duration // since Start; 0 if none arrived or not observed
	LastProgress  time.Duration // since Start; 0 if there was none or not observed
	LongestGap    time.Duration
	RetryAfter    time.Duration // the wait that the provider asked for; 0 for none
	Open          bool          // the stream is still open: a live diagnosis reads the facts so far
	Upstream      Upstream
}

// Tool holds the facts of one execution of one tool call. A call that was not executed has
// no Tool.
type Tool struct {
	Start, End time.Time // a zero End means still running, or the end was not observed
	CallID     string
	Name       string

	Effect             semconv.ToolEffect  // unset means unknown
	Outcome            semconv.ToolOutcome // unset means not observed
	FailedBeforeEffect bool                // the application asserts that the tool failed before it changed anything
	Handoff            bool                // the tool hands over to another agent
	Delivery           semconv.OutputDelivery
	DeliveryError      string // error type of a failed delivery; a later delivery may have succeeded
	ErrorType          string // error.type of the tool's own failure
	Abort              Abort  // what interrupted it, if this side did
	Waits              bool   // it ended to wait for a person or a job, and a run may end on that
	// FromHistory: only the conversation shows the call. Without an outcome and a delivery, it
	// ended before it had any output of the call.
	FromHistory bool
}

// Run holds the facts of one agent run: its requests and tools, in any order, and what is
// known about the run itself.
type Run struct {
	Start, End time.Time
	Ended      Fact                // Yes: the end of the run was observed. No: it is known never to come. NotObserved: the run is open, or has no span
	EndedBy    semconv.RunEnd      // by what an inferred run is over; unset: it is open, or the application declared it
	Previous   semconv.RunPrevious // what the conversation did before an inferred run; unset: not known
	Failed     Fact                // whether the run itself was marked as failed
	ErrorType  string
	Error      ErrorID
	Abort      Abort

	AnnouncedRequests Count // how many the run itself counted
	AnnouncedTools    Count
	// Retries is how often the run itself counted that it sent a request again after a
	// failure. The attempts that failed may be among Requests, without anything that shows it.
	Retries int
	// Waits is true if the run ended to wait for a person or a job.
	Waits bool
	// ReturnsCalls is true if the producer may end a run well on an answer that asks for tool
	// calls, such as one that a person has to approve, and records nothing by which that
	// differs from a run that was stopped there. Nothing is then said of such a run.
	ReturnsCalls bool
	// OKUnproven is true if the run's status is OK, which its producer also sets where the last
	// answer was cut or its reader stopped. Failed is not observed then. Nothing is said of a run
	// against which nothing speaks but that its last request does not show how it ended.
	OKUnproven bool
	// Within is Yes if every run that began within this one succeeded, such as an agent
	// that is a tool of another agent, and No if one of them did not.
	Within Fact
	// Inner is what the runs that began within this one did. Repeating this run repeats
	// them, and the announced counts include them.
	Inner         Effects
	ToolsRecorded Fact // whether the producer would have recorded every tool that ran; announced counts that match say so too
	// Partial is true if parts of the run may be missing here, such as those that were judged
	// before. Inner may have what they did, joined from the Effects of their verdicts. No
	// verdict is then less careful than it would be if all parts were here; without their
	// effects, a retry is at least never called safe.
	Partial bool
	// Doubts are the reasons for Partial, as `doubt.name`. They are part of the missing
	// evidence of verdicts for which missing parts count.
	Doubts []string
	// Open is true if the run goes on: a tool whose call a request began may still run.
	Open bool

	Requests []Request
	Tools    []Tool
}
