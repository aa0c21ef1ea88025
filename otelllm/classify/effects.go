package classify

import "github.com/otelllm/otelllm-go/semconv"

// Effects is what a run did that a repetition of it would do again. The run around it
// joins it into its own. The zero value: nothing.
type Effects struct {
	// Requests and Tools are how many parts of the run were seen, those of the runs
	// within it included.
	Requests, Tools int

	started       effects
	calls         callState
	providerTools providerTools
	text          bool   // visible text had been streamed
	incomplete    bool   // something that a guard reads was not observed
	continues     bool   // the provider goes on with a request
	tool          string // the name of the tool that may do the most harm
}

// Join is what two runs did together.
func (e Effects) Join(o Effects) Effects {
	if o.started.harm() > e.started.harm() || e.tool == "" {
		e.tool = o.tool
	}
	e.Requests += o.Requests
	e.Tools += o.Tools
	e.started |= o.started
	e.calls = max(e.calls, o.calls)
	e.providerTools = max(e.providerTools, o.providerTools)
	e.text = e.text || o.text
	e.incomplete = e.incomplete || o.incomplete
	e.continues = e.continues || o.continues
	return e
}

// worst is the effect of which there is the most to fear.
func (s effects) harm() int {
	for rank, e := range [...]semconv.ToolEffect{semconv.ToolEffectNonIdempotent, semconv.ToolEffectUnknown, semconv.ToolEffectIdempotent, semconv.ToolEffectReadOnly} {
		if s.has(e) {
			return 4 - rank
		}
	}
	return 0
}
