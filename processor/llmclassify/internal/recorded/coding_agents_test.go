package recorded

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/semconv"
)

// agentPart is a span of a coding agent's own.
func agentPart(library string, id, parent byte, name string, from, to float64, attrs ...attribute.KeyValue) harness.Span {
	return harness.Span{Library: library, ID: id, Parent: parent, Name: name, Kind: ptrace.SpanKindInternal, From: from, To: to, Attrs: attrs}
}

// TestCodingAgents judges turns of coding agents. Those of Claude Code are made from its
// documentation, the others are reduced from recordings.
func TestCodingAgents(t *testing.T) {
	str, list, yes := attribute.String, attribute.StringSlice, attribute.Bool

	const claude = "com.anthropic.claude_code.tracing"
	prompt := agentPart(claude, 1, 0, "claude_code.interaction", 0, 9, str("session.id", "s"))
	asks := agentPart(claude, 2, 1, "claude_code.llm_request", 0.1, 1, yes("success", true), str("stop_reason", "tool_use"))
	around := agentPart(claude, 3, 1, "claude_code.tool", 1, 3, str("tool_name", "Bash"), str("tool_use_id", "toolu_1"))
	ran := agentPart(claude, 4, 3, "claude_code.tool.execution", 2, 3, str("tool_use_id", "toolu_1"), yes("success", true))
	threw := agentPart(claude, 4, 3, "claude_code.tool.execution", 2, 3, str("tool_use_id", "toolu_1"), yes("success", false), str("error", "ShellError")).Failed("")
	denied := agentPart(claude, 4, 3, "claude_code.tool.blocked_on_user", 1, 3, str("decision", "reject"), str("source", "user_reject"))
	answers := agentPart(claude, 5, 1, "claude_code.llm_request", 3.1, 4, yes("success", true), str("stop_reason", "end_turn"))
	overloaded := agentPart(claude, 5, 1, "claude_code.llm_request", 3.1, 8, yes("success", false), attribute.Int("status_code", 529), attribute.Int("attempt", 11)).Failed("")

	const qwen = "qwen-code"
	turn := agentPart(qwen, 1, 0, "qwen-code.interaction", 0, 9, str("gen_ai.operation.name", "invoke_agent"), str("qwen-code.turn_status", "error")).Failed("unexpected_exit")
	calls := agentPart(qwen, 2, 1, "qwen-code.llm_request", 0.1, 1, str("gen_ai.operation.name", "chat"), yes("gen_ai.request.stream", true), yes("success", true), list("gen_ai.response.finish_reasons", []string{"tool_calls"}))
	shell := agentPart(qwen, 3, 1, "qwen-code.tool", 1, 2, str("gen_ai.operation.name", "execute_tool"), str("gen_ai.tool.name", "run_shell_command"), str("gen_ai.tool.call.id", "call_1"), yes("success", true))
	reset := agentPart(qwen, 4, 1, "qwen-code.llm_request", 2.1, 3, str("gen_ai.operation.name", "chat"), yes("gen_ai.request.stream", true), yes("success", false), list("gen_ai.response.finish_reasons", []string{"error"})).Failed("TypeError:ECONNRESET")

	const opencode = "opencode"
	loop := agentPart(opencode, 1, 0, "SessionPrompt.loop", 0, 9)
	loop.Status = ptrace.StatusCodeOk
	step := agentPart(opencode, 2, 1, "ai.streamText", 0.1, 3, str("ai.operationId", "ai.streamText"))
	stream := agentPart(opencode, 3, 2, "ai.streamText.doStream", 0.1, 3, str("ai.operationId", "ai.streamText.doStream"), str("ai.response.finishReason", "tool-calls"))
	call := agentPart(opencode, 4, 2, "ai.toolCall", 1, 2, str("ai.operationId", "ai.toolCall"), str("ai.toolCall.name", "bash"), str("ai.toolCall.id", "call_1"))
	execution := agentPart(opencode, 5, 1, "Tool.execute", 1, 2, str("tool.name", "bash"), str("tool.call_id", "call_1"))
	execution.Status = ptrace.StatusCodeOk
	last := agentPart(opencode, 7, 6, "ai.streamText.doStream", 3.1, 4, str("ai.operationId", "ai.streamText.doStream"), str("ai.response.finishReason", "stop"))
	second := agentPart(opencode, 6, 1, "ai.streamText", 3.1, 4, str("ai.operationId", "ai.streamText"))

	for _, c := range []struct {
		name    string
		spans   []harness.Span
		outcome semconv.RunOutcome
		class   semconv.Class
	}{
		{"claude_code", []harness.Span{asks, ran, around, answers, prompt}, semconv.RunOutcomeSucceeded, semconv.ClassUnset},
		{"claude_code, a tool failed and was answered", []harness.Span{asks, threw, around, answers, prompt}, semconv.RunOutcomeRecovered, semconv.ClassUnset},
		{"claude_code, a tool was rejected", []harness.Span{asks, denied, around, prompt}, semconv.RunOutcomeFailed, semconv.ClassToolFailed},
		{"claude_code, overloaded", []harness.Span{asks, ran, around, overloaded, prompt}, semconv.RunOutcomeFailed, semconv.ClassProviderError},
		{"qwen_code, reset after a tool", []harness.Span{calls, shell, reset, turn}, semconv.RunOutcomeFailed, semconv.ClassStreamInterrupted},
		{"opencode, one tool in two spans", []harness.Span{execution, call, stream, step, last, second, loop}, semconv.RunOutcomeSucceeded, semconv.ClassUnset},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			for _, s := range c.spans {
				h.Consume(t, s)
			}
			h.Pass(t, harness.Settle)
			run := harness.SpansOf(h.Out())[harness.SpanID(1)]
			v := harness.VerdictOf(run)
			assert.Equal(t, c.outcome, v.Outcome)
			assert.Equal(t, c.class, v.Class)
			assert.NotEqual(t, semconv.RetrySafetySafeAutoRetry, v.Safety, "a tool may have run")
			lines, _ := run.Attributes().Get(string(semconv.RunTimelineKey))
			tools := 0
			for _, line := range lines.Slice().All() {
				if strings.Contains(line.Str(), " tool") && strings.HasSuffix(line.Str(), ": started") {
					tools++
				}
			}
			assert.Equal(t, 1, tools, lines.AsString())
		})
	}
}

// A request of Gemini CLI is alone in its trace, and OK does not say how it ended: nothing is
// written.
func TestGeminiCLIRequestWithoutVerdict(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	s := agentPart("gemini-cli", 1, 0, "llm_call", 0, 1, attribute.String("gen_ai.operation.name", "llm_call"), attribute.String("gen_ai.conversation.id", "c"))
	s.Status = ptrace.StatusCodeOk
	h.Consume(t, s, agentPart("gemini-cli", 2, 0, "tool_call", 2, 3, attribute.String("gen_ai.operation.name", "tool_call")).Of(2))
	h.Pass(t, 24*time.Hour)
	out := harness.SpansOf(h.Out())
	assert.Len(t, out, 2)
	for _, span := range out {
		v := harness.VerdictOf(span)
		assert.Empty(t, v.Outcome.String())
		assert.Equal(t, semconv.ClassUnset, v.Class)
	}
}
