// Package acceptance holds the design's acceptance cases: what an agent meets on the
// network, and what the classified trace has to contain. The demo and the end-to-end
// test run the same cases.
package acceptance

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/agent"
)

// Case is one thing that happens to an agent, over one wire protocol.
type Case struct {
	Number  int    // number among the design's acceptance cases
	Title   string // what happens
	Variant string // distinguishes cases over the same wire protocol; may be empty
	Wire    faultyllm.Wire
	Script  []faultyllm.Exchange
	Want    Want

	// Prepare, if set, changes how the agent is set up.
	Prepare func(*World, *Setup)
}

// Label returns the case's name with its wire protocol, for people.
func (c *Case) Label() string { return c.Name() + " (" + c.Wire.String() + ")" }

// Name returns the case's name without its wire protocol, for people.
func (c *Case) Name() string {
	name := fmt.Sprintf("%02d %s", c.Number, c.Title)
	if c.Variant != "" {
		name += ": " + c.Variant
	}
	return name
}

var notInKey = regexp.MustCompile(`[^a-z0-9]+`)

// Key returns the case's name in URLs and files.
func (c *Case) Key() string {
	key := fmt.Sprintf("%02d-%s", c.Number, c.Wire)
	if c.Variant != "" {
		key += "-" + strings.Trim(notInKey.ReplaceAllString(strings.ToLower(c.Variant), "-"), "-")
	}
	return key
}

// Setup describes how the agent of a case is created and run.
type Setup struct {
	Config agent.Config
	Agent  agent.Agent

	BaseURL        string
	Transport      *http.Transport
	Wrap           func(http.RoundTripper) http.RoundTripper // wraps Transport, below otelllm; may be nil
	Options        []otelllm.TransportOption                 // options of the transport
	SessionOptions []otelllm.Option                          // options of a session over a WebSocket
	APIKey         string
	Headers        map[string]string // added to each request
	Query          map[string]string // added to each request's URL
	Prompt         string
	Deadline       time.Duration // the caller's deadline; 0 for none
	NoTools        bool          // the agent's author did not use StartTool
	Killed         bool          // the agent's process dies after its first answer: the run has no end
	Forgets        bool          // the agent drops a stream, and the garbage collector has to find it
	Abort          func(source otelllm.AbortSource, reason string)
}

// Verdict is the expected verdict on one span. The zero value is a span that reports no
// failure. In a verdict with a class, unset fields are not compared.
type Verdict struct {
	Class  semconv.Class
	Cause  semconv.Cause
	Phase  semconv.Phase
	Origin semconv.Origin
	Safety semconv.RetrySafety
	Reason semconv.RetryReason
}

// Want is what the classified trace of a case has to contain.
type Want struct {
	Outcome  semconv.RunOutcome
	Run      Verdict
	Live     Verdict   // the client's own verdict, if it cannot see what the Collector sees; Run if unset
	Requests []Verdict // every request, ordered by start time
	Tools    []Verdict // every tool, ordered by start time
	Served   []Verdict // a gateway's spans below them, ordered by start time: requests that it served and requests that it sent upstream

	Recovered      int
	MissingOutputs []string
	RetryAfter     time.Duration       // on the first request
	InBand         bool                // the last request's error came inside a 200
	Summary        semconv.SummaryKey  // of the run's summary; not compared if unset
	Evidence       []string            // entries in the run's evidence
	Ends           []semconv.StreamEnd // how the requests ended, if their verdicts do not show it
}
