package recorded

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/verdictattr"
)

// secret stands where frameworks record content: prompts, results, messages of errors.
const secret = "CANARY a secret that must not be copied"

// framed is a span of an agent framework.
type framed struct {
	harness.Span
	values  map[string]any
	raised  string // exception.type
	words   string // exception.message
	choice  string // finish_reason of the event gen_ai.choice
	service string
}

// framework makes the spans of one producer: its scope, and what all of its spans have.
type framework struct {
	scope  string
	common map[string]any
}

func (f framework) span(id, parent byte, name string, from, to float64, values map[string]any) framed {
	all := maps.Clone(f.common)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, values)
	return framed{Span: harness.Span{ID: id, Parent: parent, Name: name, Kind: ptrace.SpanKindInternal, From: from, To: to, Library: f.scope}, values: all}
}

func (s framed) kindOf(kind ptrace.SpanKind) framed { s.Kind = kind; return s }

func (s framed) ok() framed { s.Status = ptrace.StatusCodeOk; return s }

// raising is a span of which the exception was recorded.
func (s framed) raising(class, words string) framed {
	s.Status, s.raised, s.words = ptrace.StatusCodeError, class, words
	return s
}

func (s framed) chose(reason string) framed { s.choice = reason; return s }

func (s framed) served(by string) framed { s.service = by; return s }

func framedTraces(t *testing.T, spans []framed) ptrace.Traces {
	t.Helper()
	td := ptrace.NewTraces()
	for _, s := range spans {
		rs := td.ResourceSpans().AppendEmpty()
		service := s.service
		if service == "" {
			service = harness.AgentService
		}
		rs.Resource().Attributes().PutStr(string(otelsemconv.ServiceNameKey), service)
		ss := rs.ScopeSpans().AppendEmpty()
		name, version, _ := strings.Cut(s.Library, "@0.11") // of AG2
		if version != "" {
			ss.Scope().SetVersion("0.11" + version)
		}
		ss.Scope().SetName(name)
		span := ss.Spans().AppendEmpty()
		s.Write(t, span)
		for key, v := range s.values {
			require.NoError(t, span.Attributes().PutEmpty(key).FromRaw(v))
		}
		event := func(name string, values map[string]any) {
			e := span.Events().AppendEmpty()
			e.SetName(name)
			e.SetTimestamp(harness.At(s.To))
			require.NoError(t, e.Attributes().FromRaw(values))
		}
		if s.raised != "" {
			event(otelsemconv.ExceptionEventName, map[string]any{"exception.type": s.raised, "exception.message": s.words})
			span.Status().SetMessage(s.words)
		}
		if s.choice != "" {
			event("gen_ai.choice", map[string]any{"finish_reason": s.choice, "message": secret})
		}
	}
	return td
}

type values = map[string]any

// The producers.
var (
	pydantic = framework{"pydantic-ai", values{
		"gen_ai.agent.name": "agent", "gen_ai.conversation.id": "conv-1", "logfire.msg": secret, "pydantic_ai.all_messages": secret,
		"tool_arguments": secret, "tool_response": secret, "gen_ai.tool.call.result": secret, "gen_ai.input.messages": secret, "events": secret,
	}}
	strands = framework{"strands.telemetry.tracer", values{"gen_ai.system": "strands-agents", "system_prompt": secret, "gen_ai.input.messages": secret}}
	spring  = framework{"org.springframework.boot", values{
		"gen_ai.system": "openai", "gen_ai.prompt": secret, "gen_ai.completion": secret, "spring.ai.tool.call.arguments": secret, "spring.ai.tool.call.result": secret,
	}}
	msAgents = framework{"agent_framework", values{
		"gen_ai.provider.name": "openai", "gen_ai.input.messages": secret, "gen_ai.system_instructions": secret, "gen_ai.tool.call.result": secret,
	}}
	adk = framework{"gcp.vertex.agent", values{
		"gcp.vertex.agent.llm_response": secret, "gcp.vertex.agent.tool_call_args": secret, "gcp.vertex.agent.tool_response": secret, "gcp.vertex.agent.data": secret,
	}}
	ag2 = framework{"opentelemetry.instrumentation.ag2@0.11.0", values{
		"ag2.span.type": "agent", "gen_ai.input.messages": secret, "gen_ai.output.messages": secret, "gen_ai.tool.call.result": secret, "ag2.chats.summaries": secret,
	}}
	ag2Turn  = framework{"opentelemetry.instrumentation.ag2", values{"ag2.span.type": "agent", "gen_ai.input.messages": secret, "ag2.human_input.response": secret}}
	claudePy = framework{"com.anthropic.sdk.python", values{"gen_ai.provider.name": "anthropic"}}
	claudeAt = framework{"com.anthropic.claude-platform", values{"gen_ai.provider.name": "anthropic"}}
	vllm     = framework{"vllm.tracing.otel", values{"gen_ai.request.id": "cmpl-1", "gen_ai.usage.completion_tokens": 6}}
)

func (f framework) run(to float64) framed {
	return f.span(1, 0, "invoke_agent agent", 0, to, values{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "agent"})
}

func (f framework) chat(id byte, from, to float64, more values) framed {
	all := values{"gen_ai.operation.name": "chat", "gen_ai.request.model": "model-test"}
	maps.Copy(all, more)
	return f.span(id, 1, "chat model-test", from, to, all).kindOf(ptrace.SpanKindClient)
}

// tool is span 3, after the first call.
func (f framework) tool(parent byte, to float64, call string) framed {
	return f.span(3, parent, "execute_tool write", 1.1, to, values{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "write", "gen_ai.tool.call.id": call, "gen_ai.tool.call.arguments": secret,
	})
}

// conversation is a run of AG2, and reply one of an agent in it.
func (f framework) conversation(to float64) framed {
	return f.span(1, 0, "conversation user", 0, to, values{"gen_ai.operation.name": "conversation", "gen_ai.agent.name": "user", "gen_ai.conversation.max_turns": 4})
}

func (f framework) reply(id byte, agent string, from, to float64) framed {
	return f.span(id, 1, "invoke_agent "+agent, from, to, values{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent})
}

// adkCall is a call_llm, which has no operation name; its tools are beneath it.
func adkCall(id byte, from, to float64, more values) framed {
	all := values{"gen_ai.system": "gcp.vertex.agent", "gcp.vertex.agent.llm_request": secret}
	maps.Copy(all, more)
	return adk.span(id, 1, "call_llm", from, to, all)
}

func finished(reason string) values {
	return values{"gen_ai.response.finish_reasons": []any{reason}, "gen_ai.usage.output_tokens": 6}
}

func finishedJSON(reason string) values {
	return values{"gen_ai.response.finish_reasons": `["` + reason + `"]`, "gen_ai.response.id": "resp_1"}
}

func claudeDone(reason string) values {
	return values{"gen_ai.request.stream": true, "http.response.status_code": 200, "anthropic.request.id": "req_1", "anthropic.message.stop_reason": reason}
}

// says are the verdicts that are expected, by the id of their span.
type says map[byte]said

// frameworkCase is a trace of one producer.
type frameworkCase struct {
	name  string
	want  says
	spans []framed
}

// TestFrameworks judges whole traces in the forms of agent frameworks and providers: an
// agent that is well has succeeded or nothing is said of it, the others are right or
// unclassified, and no retry is called safe.
func TestFrameworks(t *testing.T) {
	for _, tt := range frameworkCases() {
		t.Run(tt.name, func(t *testing.T) {
			h := harness.New(t, harness.DefaultConfig(), nil)
			require.NoError(t, h.ConsumeTraces(t.Context(), framedTraces(t, tt.spans)))
			h.Pass(t, harness.MaxHold)
			out := h.Out()
			require.Equal(t, len(tt.spans), out.SpanCount())
			got := says{}
			for id, span := range harness.SpansOf(out) {
				if v := saidOf(span); v != (said{}) {
					got[id[7]] = v
				}
				assertNoSecret(t, span)
			}
			assert.Equal(t, tt.want, got)

			apart := harness.New(t, harness.DefaultConfig(), nil)
			for i := range tt.spans {
				require.NoError(t, apart.ConsumeTraces(t.Context(), framedTraces(t, tt.spans[len(tt.spans)-1-i:len(tt.spans)-i])))
			}
			apart.Pass(t, harness.MaxHold)
			later := says{}
			for id, span := range harness.SpansOf(apart.Out()) {
				if v := saidOf(span); v != (said{}) {
					later[id[7]] = v
				}
			}
			assert.Equal(t, tt.want, later, "one by one, the last one first")
		})
	}
}

// assertNoSecret: of what is added to a span, nothing has recorded content.
func assertNoSecret(t *testing.T, span ptrace.Span) {
	t.Helper()
	for key, v := range span.Attributes().All() {
		if verdictattr.Is(key) {
			assert.NotContains(t, v.AsString(), "CANARY", key)
		}
	}
}

// deferred is a tool of pydantic-ai that waits for an approval.
func deferred(s framed) framed {
	s.values["pydantic_ai.tool.deferral.name"] = "ApprovalRequired"
	return s
}

func under(s framed, parent byte) framed { s.Parent = parent; return s }

func claudeAPI(id, parent byte, from, to float64, more values) framed {
	return under(claudeAt.chat(id, from, to, more), parent).kindOf(ptrace.SpanKindServer).served("claude-platform")
}

// failing is a span that failed as Anthropic's record it.
func failing(s framed, errorType string, status int) framed {
	s.Status = ptrace.StatusCodeError
	s.values["error.type"] = errorType
	if status > 0 {
		s.values["http.response.status_code"] = status
	}
	return s
}
