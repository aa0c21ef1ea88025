package classify

import (
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// Fact is a three-valued fact. Its zero value is NotObserved, so that a reader
// which sets nothing claims nothing: absent evidence is not negative evidence.
type Fact uint8

// The values of a [Fact].
const (
	NotObserved Fact = iota // not looked at, or never recorded by the producer
	No                      // seen not to be
	Yes                     // seen
)

// FactOf is Yes or No.
func FactOf(b bool) Fact {
	if b {
		return Yes
	}
	return No
}

// Count is a count that may not have been observed. The zero value is "not
// observed"; [Counted] makes an observed one.
type Count uint32

// Counted is an observed count. Negative n counts as not observed; it saturates
// at 2^32-2.
func Counted(n int) Count {
	if n < 0 {
		return 0
	}
	if uint64(n) >= 1<<32-1 {
		return 1<<32 - 1
	}
	return Count(n) + 1
}

// Observed reports whether it was counted.
func (c Count) Observed() bool { return c != 0 }

// N is the count, 0 when it was not observed.
func (c Count) N() int {
	if c == 0 {
		return 0
	}
	return int(c - 1)
}

// least is the count where it may be more than was seen: a zero is then not observed.
func (c Count) atLeast(uncertain bool) Count {
	if uncertain && c == 1 {
		return 0
	}
	return c
}

// Fact is Yes for an observed count above zero, No for an observed zero.
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

// Basis says what the end of a request was concluded from. It bounds the
// confidence of the verdict. The zero value is the weakest.
type Basis uint8

// The values of a [Basis].
const (
	Inferred     Basis = iota // from something missing, or from a status and text alone
	Corroborated              // untyped, but two independent facts agree
	Typed                     // a cause, a status or an event of the protocol
)

// MaxIDs bounds every list of ids in facts (the vocabulary's 64). A list of
// that length may have been cut: an id that is not in it is not known to be absent.
const MaxIDs = 64

// Finish is what the finish reasons of a response say together.
type Finish uint8

// The values of a [Finish]. The ones after FinishWaiting are limits.
const (
	FinishNotObserved   Finish = iota // the producer records none
	FinishMissing                     // one was due and never came
	FinishNothingDue                  // the request asked for no answer, as one that loads a model
	FinishOther                       // a reason that is not known: the model came to its end
	FinishStop                        // the model came to its end
	FinishToolCalls                   // the model wants tools executed
	FinishWaiting                     // the answer waits for a person, or for a job in the background
	FinishMaxTokens                   // cut by an output token limit
	FinishContentFilter               // cut by a content filter
	FinishRefusal                     // the model refused
	FinishContextWindow               // the context window was full
	FinishPaused                      // paused, meant to be continued
)

// Transport is what the transport reported.
type Transport struct {
	Stage semconv.TransportStage
	Cause semconv.TransportCause
	// Code is the raw low-cardinality code, at most 80 bytes. For the cause tls it
	// tells a certificate that does not verify ([CodeCertificate]) from a handshake
	// that failed for another reason.
	Code string
}

// CodeCertificate is the transport code of a peer's certificate that does not
// verify: the name that OpenSSL and Python have for it.
const CodeCertificate = "CERTIFICATE_VERIFY_FAILED"

// CodeNotTLS is the transport code of a peer that does not speak TLS: HTTPS to the port
// of a plain HTTP server.
const CodeNotTLS = "NOT_TLS"

// lasting reports whether a TLS failure will be there at the next try: a certificate
// does not verify, or the peer does not speak TLS. Without a code that is not known. The
// codes beside those of this package are Node's (X509_verify_cert_error_string as
// node:tls reports it, and OpenSSL's).
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

// ProviderError is the provider's own word about a failure.
type ProviderError struct {
	Kind   semconv.ProviderErrorKind
	Code   string // the provider's code or type, as [SanitizeCode] leaves it
	InBand bool   // it came inside a 200 stream
}

// Connection is what is known of the connection that a request went out on.
type Connection struct {
	Reused   Fact          // it had served another request before
	Idle     time.Duration // how long it had been idle before, where it was reused
	Protocol string        // the version of HTTP: "1.1", "2"; "" when not observed
}

// Upstream is the failure that another span of the trace holds behind a response: that
// of the request which a gateway made for it. The zero value: none was observed.
type Upstream struct {
	Failed Fact
	Class  semconv.Class
	Cause  semconv.Cause
	Origin semconv.Origin
}

// Abort is a deliberate end by this side. The zero value means that none was observed.
type Abort struct {
	Source semconv.AbortSource
	Reason string // the application's low-cardinality word, at most 80 bytes
}

// Watchdog is a watchdog that fired. The zero value means that none did.
type Watchdog struct {
	Kind  semconv.WatchdogKind
	Limit time.Duration
}

// Request holds the facts of one attempt of one model call. In its zero value
// nothing was observed.
type Request struct {
	Start, End time.Time
	Attempt    int // 1 for the first try; 0 when not observed

	Basis  Basis
	Phase  semconv.Phase     // where it was when it ended
	Ended  semconv.StreamEnd // how it ended
	Failed Fact              // the producer marked it as failed; No only where the producer means success by it

	Status     int // HTTP status; 0 when there was none or it was not observed
	Connection Connection
	Transport  Transport
	Provider   ProviderError
	Abort      Abort
	Watchdog   Watchdog
	Finish     Finish

	// Unread: a part of what the consumer was given could not be decoded. The counts are
	// then what was seen at least, and a count of zero is not observed.
	Unread                                            bool
	Text, Reasoning                                   Count    // deltas
	ToolInputsStarted, ToolInputsCompleted, ToolCalls Count    // client-executed calls
	CallIDs                                           []string // materialised calls, at most MaxIDs
	OpenCallIDs                                       []string // input began and never completed, at most MaxIDs
	ProviderTools                                     []string // offered provider-executed tools; nil: not observed
	ProviderToolsStarted                              Count

	HistoryCalls   []string // calls in the request's history, the newest MaxIDs; nil: not observed
	HistoryOutputs []string // outputs in the request's history, the newest MaxIDs; nil: not observed

	Background    bool          // the provider goes on with the request also when the stream is not read
	Events        Count         // semantic events
	TimeToHeaders time.Duration // from Start; 0: none came, or not observed
	LastProgress  time.Duration // from Start; 0: none, or not observed
	LongestGap    time.Duration
	RetryAfter    time.Duration // the provider's wish; 0: none
	Open          bool          // the stream goes on: a live diagnosis looks at what came so far
	Upstream      Upstream
}

// Tool holds the facts of one execution of one tool call. Only an execution
// that began has facts; a call that was not executed has no Tool.
type Tool struct {
	Start, End time.Time // zero End: still running, or its end was not observed
	CallID     string
	Name       string

	Effect             semconv.ToolEffect  // unset reads as unknown
	Outcome            semconv.ToolOutcome // unset: not observed
	FailedBeforeEffect bool                // the application vouches that nothing happened
	Handoff            bool                // it hands over to another agent
	Delivery           semconv.OutputDelivery
	DeliveryError      string // error type of a failed delivery; a later one may have gone well
	ErrorType          string // error.type of the tool's own failure
	Abort              Abort  // what interrupted it, when this side did
}

// Run holds the facts of one agent run: its requests and tools in any order,
// and what is known of the run itself.
type Run struct {
	Start, End time.Time
	Ended      Fact // Yes: the run's end was seen. No: it is known never to come. NotObserved: open, or no run span exists
	Failed     Fact // the run itself was marked as failed
	ErrorType  string
	Abort      Abort

	AnnouncedRequests Count // how many began under the run, by its own count
	AnnouncedTools    Count
	// Within: every run that began within this one, as an agent that is a tool of
	// another does, is known to have gone well (Yes), or one of them is not (No).
	Within Fact
	// Inner is what the runs that began within this one did. A repetition of this run
	// repeats it, and the announced counts include it.
	Inner         Effects
	ToolsRecorded Fact // the producer would have recorded every tool that ran; a full manifest says so too

	Requests []Request
	Tools    []Tool
}
