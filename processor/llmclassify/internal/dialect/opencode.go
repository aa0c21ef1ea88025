package dialect

import "go.opentelemetry.io/collector/pdata/ptrace"

// Opencode reads the run of the coding agent opencode (scope opencode): the span
// SessionPrompt.loop, which has no attributes. Its requests and tools are spans of the AI
// SDK, see [Vercel], which records them in the same scope. The SDK's ai.streamText is one
// step of the loop there, and not a run.
//
// The loop is OK however its requests ended. If the process is killed, neither the loop
// nor a step that failed is exported.
type Opencode struct{}

var _ Dialect = Opencode{}

// nameOpencodeLoop is the name of the span of a run.
const nameOpencodeLoop = "SessionPrompt.loop"

// Name implements [Dialect].
func (Opencode) Name() string { return "opencode" }

func (Opencode) claims() claims { return claims{scopes: scopesOf(scopeOpencode)} }

// Recognise implements [Dialect].
func (Opencode) Recognise(s *AttributeScan) Head {
	if s.name != nameOpencodeLoop {
		return Head{}
	}
	return s.head(Run)
}

// Read implements [Dialect].
func (Opencode) Read(span ptrace.Span, into Facts) {
	readRunWithoutOK(span, into.Run)
}
