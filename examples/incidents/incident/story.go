// Package incident plays the incidents that this project began with: the same
// agent meets the same fault over real HTTP, once under the telemetry that it had,
// and once under otelllm.
package incident

import (
	"context"

	"github.com/otelllm/otelllm-go/examples/faultyllm"
	"github.com/otelllm/otelllm-go/semconv"
)

// Story is an incident that can be made to happen again.
type Story struct {
	Name      string // of its folder
	Title     string
	Met       string // what users saw
	Happened  string // what had happened
	Do        string // what to do about it
	Telemetry string // whose spans the agent had
	Acts      []Act
}

// Act is one run of the agent.
type Act struct {
	Label  string // tells it from the others of its story; empty: it is the only one
	Wire   faultyllm.Wire
	Script []faultyllm.Exchange
	// Run is the agent's program, to its end. Its error is what its user got.
	Run func(ctx context.Context, p *Program) error
	// Node, if set, is the agent instead.
	Node *NodeAgent

	// Before is what its spans said, as [Lines] prints them and [Plain] leaves them.
	Before []string
	// Misled is the name of the span that people went by.
	Misled string
	// After is what the run's span says under otelllm, once it is judged.
	After Verdict
	// Alone is the class that llm_classify may give the run by the spans as they were
	// before, without a word from otelllm; unclassified is right for every story.
	Alone []semconv.Class
}

// Verdict is what matters of a verdict on a run.
type Verdict struct {
	Outcome semconv.RunOutcome
	Class   semconv.Class
	Cause   semconv.Cause
	Phase   semconv.Phase
	Origin  semconv.Origin
	Safety  semconv.RetrySafety
	Reason  semconv.RetryReason
}

// Program is what the agent of an act is given.
type Program struct {
	BaseURL string  // of the model, as the wire's SDK wants it
	Nobody  string  // URL at which nothing answers
	Tracing Tracing // of the agent
	Gateway Tracing // of what stands between it and the model, if there is such a thing
}

// title of an act among those of its story.
func (s *Story) title(a *Act) string {
	if a.Label == "" {
		return s.Title
	}
	return s.Title + ": " + a.Label
}
