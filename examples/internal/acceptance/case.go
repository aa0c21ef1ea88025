// Package acceptance holds the acceptance cases of the design: what is done to an
// agent on the wire, and what the classified trace has to say about it. The
// demo and the end-to-end test run the same cases.
package acceptance

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/examples/faultyllm"
	"github.com/otelllm/otelllm-go/examples/internal/agent"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
)

// Case is one thing that happens to an agent, over one wire.
type Case struct {
	Number  int    // of the acceptance cases of the design
	Title   string // what is done
	Variant string // which of several, empty where the wire alone tells
	Wire    faultyllm.Wire
	Script  []faultyllm.Exchange
	Want    Want

	// Prepare, if set, changes how the agent is set up.
	Prepare func(*World, *Setup)
}

// Label names the case for people.
func (c *Case) Label() string { return c.Name() + " (" + c.Wire.String() + ")" }

// Name names the case for people, whatever the wire.
func (c *Case) Name() string {
	name := fmt.Sprintf("%02d %s", c.Number, c.Title)
	if c.Variant != "" {
		name += ": " + c.Variant
	}
	return name
}

var notInKey = regexp.MustCompile(`[^a-z0-9]+`)

// Key names the case in URLs and files.
func (c *Case) Key() string {
	key := fmt.Sprintf("%02d-%s", c.Number, c.Wire)
	if c.Variant != "" {
		key += "-" + strings.Trim(notInKey.ReplaceAllString(strings.ToLower(c.Variant), "-"), "-")
	}
	return key
}

// Setup is how the agent of a case is made and run.
type Setup struct {
	Config agent.Config
	Agent  agent.Agent

	BaseURL        string
	Transport      *http.Transport
	Wrap           func(http.RoundTripper) http.RoundTripper // around Transport, below otelllm; nil: nothing
	Options        []otelllm.TransportOption                 // of the transport
	SessionOptions []otelllm.RequestOption                   // of a session over a WebSocket
	APIKey         string
	Headers        map[string]string // of each request
	Query          map[string]string // of each request's URL
	Prompt         string
	Deadline       time.Duration // of the caller; 0: none
	NoRun          bool          // the agent's author did not use StartRun and StartTool
	Killed         bool          // the agent's process dies after its first answer: the run has no end
	Forgets        bool          // the agent drops a stream, and the garbage collector has to find it
	Abort          otelllm.AbortFunc
}

// Verdict is what is expected of one span. The zero value is a span that tells
// of no failure. Members of a verdict with a class that are unset are not
// compared.
type Verdict struct {
	Class  semconv.Class
	Cause  semconv.Cause
	Phase  semconv.Phase
	Origin semconv.Origin
	Safety semconv.RetrySafety
	Reason semconv.RetryReason
}

// Want is what the classified trace of a case has to say.
type Want struct {
	Outcome  semconv.RunOutcome
	Run      Verdict
	Live     Verdict   // the client's own view, where it cannot see what the Collector sees; unset: Run
	Requests []Verdict // every request, in the order of their start
	Tools    []Verdict // every tool, likewise
	Served   []Verdict // what a gateway did beneath them, likewise: what it served, and what it asked upstream

	Recovered      int
	MissingOutputs []string
	RetryAfter     time.Duration       // of the first request
	InBand         bool                // the last request's error came inside a 200
	Says           []string            // in the run's summary
	Evidence       []string            // among the run's evidence
	Ends           []semconv.StreamEnd // how the requests ended, where that is not told by their verdicts
}
