package classify

import "github.com/otelllm/otelllm-go/semconv"

// Effects is what a run did that a repetition of the run would do again. An enclosing run
// joins it into its own effects. The zero value means that the run did nothing.
type Effects struct {
	// Requests and Tools count the observed parts of the run, including those of the runs
	// within it.
	Requests, Tools int

	started       effects
	calls         callState
	providerTools providerTools
	text          bool   // visible text was streamed
	incomplete    bool   // a fact that a guard reads was not observed
	continues     bool   // the provider continues to process a request
	tool          string // the name of the tool that may do the most harm, "" if it is not known
	requests      Retry  // the most careful verdict on a request

	// The following fields matter to the other parts of a run that is Partial.
	tools      Retry  // the most careful verdict on a tool
	repeated   bool   // a request was sent again, or two had the same protocol violation
	violations uint64 // a set of [semconv.TransportCause]: the protocol violations; unset: a tool input that is not valid
	opened     idSet  // of calls whose input began and never completed
	unmade     idSet  // of executed calls that no response is known to have made
}

// idSet is a set of ids in which an id may seem to be that is not.
type idSet uint64

// add adds an id.
func (s *idSet) add(id string) {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * prime
	}
	*s |= 1 << (h >> 58)
}

// mayHaveExecuted reports whether a call of an enclosing run may have been executed within this one,
// by a tool that must not run twice.
func (e *Effects) mayHaveExecuted() bool {
	return e.started != 0 && e.started.worst() >= semconv.ToolEffectNonIdempotent || e.calls == callsUnknown || e.incomplete
}

// Join returns what the two runs did together.
func (e Effects) Join(o Effects) Effects {
	e.tool = e.started.toolName(e.tool, o.started, o.tool)
	e.requests = moreCareful(e.requests, o.requests)
	e.Requests += o.Requests
	e.Tools += o.Tools
	e.started |= o.started
	e.calls = max(e.calls, o.calls)
	e.providerTools = max(e.providerTools, o.providerTools)
	e.text = e.text || o.text
	e.incomplete = e.incomplete || o.incomplete
	e.continues = e.continues || o.continues
	e.tools = moreCareful(e.tools, o.tools)
	e.repeated = e.repeated || o.repeated || e.violations&o.violations != 0
	e.violations |= o.violations
	e.opened |= o.opened
	e.unmade |= o.unmade
	return e
}

// toolName returns the name of a tool with the most harmful effect of two sets, the first of
// which is s, by the names of such a tool of each. It returns "" if that is not known.
func (s effects) toolName(name string, other effects, otherName string) string {
	switch a, b := s.harm(), other.harm(); {
	case b > a, b == a && name == "":
		return otherName
	default:
		return name
	}
}

// harm ranks the set by its most harmful effect: 4 for non-idempotent, 3 for unknown, 2
// for idempotent, 1 for read-only, 0 for the empty set.
func (s effects) harm() int {
	for rank, e := range [...]semconv.ToolEffect{semconv.ToolEffectNonIdempotent, semconv.ToolEffectUnknown, semconv.ToolEffectIdempotent, semconv.ToolEffectReadOnly} {
		if s.has(e) {
			return 4 - rank
		}
	}
	return 0
}
