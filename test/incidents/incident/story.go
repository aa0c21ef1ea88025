// Package incident replays the incidents that this project began with: the same agent
// meets the same fault over real HTTP, once under the telemetry that it had, and once
// under otelllm.
package incident

import (
	"context"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// Story is an incident that can be replayed.
type Story struct {
	Name      string // name of its folder
	Title     string
	Met       string // what users saw
	Happened  string // what had happened
	Do        string // what to do about it
	Telemetry string // whose spans the agent had
	Acts      []Act
}

// Act is one run of the agent.
type Act struct {
	Label  string // distinguishes it from the other acts of its story; empty if it is the only one
	Wire   faultyllm.Wire
	Script []faultyllm.Exchange
	// Run runs the agent's program to its end. Its error is what the user saw.
	Run func(ctx context.Context, p *Program) error
	// Node, if set, replaces Run.
	Node *NodeAgent

	// Before is the content of its spans before, as [Lines] prints and [Plain] filters
	// it.
	Before []string
	// Misled is the name of the span that was misleading.
	Misled string
	// After is the expected verdict on the run's span under otelllm.
	After Verdict
	// Alone lists the classes that llm_classify may give the run by the spans before,
	// without anything from otelllm. Unclassified is right for every story.
	Alone []semconv.Class
}

// Verdict holds the parts of a verdict on a run that the stories compare.
type Verdict struct {
	Outcome semconv.RunOutcome
	Class   semconv.Class
	Cause   semconv.Cause
	Phase   semconv.Phase
	Origin  semconv.Origin
	Safety  semconv.RetrySafety
	Reason  semconv.RetryReason
}

// Program is the input of an act's agent.
type Program struct {
	BaseURL string  // base URL of the model, as the wire protocol's SDK expects it
	DeadURL string  // URL on which no server listens
	Tracing Tracing // the agent's tracing
	Gateway Tracing // the tracing of the gateway between agent and model, if there is one
}

// title returns the title of an act of the story.
func (s *Story) title(a *Act) string {
	if a.Label == "" {
		return s.Title
	}
	return s.Title + ": " + a.Label
}
