package dialect

import (
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Opencode reads the runs and tools of the coding agent opencode (scope opencode): the span
// SessionPrompt.loop, which has no attributes, and Tool.execute, for its own tools and those
// of MCP servers. Its requests are spans of the AI SDK, see [Vercel], which records them in
// the same scope. The SDK's ai.streamText is one step of the loop there, and not a run, and
// its ai.toolCall is the call that Tool.execute executes.
//
// The loop is OK however its requests ended, and so is every span whose work was
// interrupted: status.interrupted distinguishes that. If the process is killed, neither the
// loop nor a step that failed is exported. Measured with opencode 1.18.33.
type Opencode struct{}

var _ Dialect = Opencode{}

// Names and keys of opencode's spans.
const (
	nameOpencodeLoop       = "SessionPrompt.loop"
	nameOpencodeTool       = "Tool.execute"
	keyOpencodeToolName    = "tool.name"
	keyOpencodeCallID      = "tool.call_id"
	keyOpencodeInterrupted = "status.interrupted"
)

// Name implements [Dialect].
func (Opencode) Name() string { return "opencode" }

func (Opencode) claims() claims { return claims{scopes: scopesOf(scopeOpencode)} }

// Recognise implements [Dialect].
func (Opencode) Recognise(s *AttributeScan) Head {
	switch s.name {
	case nameOpencodeLoop:
		return s.head(Run)
	case nameOpencodeTool:
		return s.head(Tool)
	}
	return Head{}
}

// Read implements [Dialect].
func (Opencode) Read(span ptrace.Span, into Facts) {
	v, ok := span.Attributes().Get(keyOpencodeInterrupted)
	interrupted := ok && boolean(v) && failed(span) != classify.Yes
	switch {
	case into.Tool != nil:
		readTool(span, into.Tool, keyOpencodeCallID, keyOpencodeToolName)
		if interrupted {
			into.Tool.Outcome, into.Tool.Abort.Source = semconv.ToolOutcomeInterrupted, semconv.AbortSourceUnknown
		}
	case into.Run != nil:
		readRunWithoutOK(span, into.Run)
		if interrupted {
			into.Run.Abort.Source = semconv.AbortSourceUnknown
		}
	}
}
