package dialect

import (
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/verdictattr"
	"github.com/otelllm/otelllm-go/semconv"
)

// AttributeScan is the result of one pass over a span's attributes: everything by
// which any dialect recognises its spans. Its strings are the span's own.
type AttributeScan struct {
	scope scope
	name  string // of the span, in scopes whose dialect recognises it by that
	kind  Kind   // of the span, in scopes whose dialect recognises it by more than its attributes
	part  bool   // with kind: it is a part of the request above it
	marks marks

	operation     string // gen_ai.operation.name
	openInference string // openinference.span.kind
	vercel        string // ai.operationId
	traceloop     string // traceloop.span.kind
	requestType   string // llm.request.type

	run             pcommon.SpanID // llm.run.id
	inferred        bool           // llm.run.inferred
	session         string         // gen_ai.conversation.id or session.id
	response        string         // gen_ai.response.id
	url             string         // url.full, or http.url
	requests, tools classify.Count // llm.run.requests, llm.run.tools
	judged          bool           // it has a verdict, or a part of one
}

// marks is a set of what a span has.
type marks uint16

const (
	markOwnRequest    marks = 1 << iota // a fact of the vocabulary about a request
	markOwnTool                         // about a tool
	markOwnRun                          // about a run
	markMCPCall                         // an MCP call of a tool
	markAnthropic                       // an attribute that only Anthropic's SDKs write
	markOpenLLMetry                     // one that only OpenLLMetry writes
	markGoCompile                       // one that only the compile-time tool for Go writes
	markOpenInference                   // OpenInference's kind of a span
	markVercel                          // the AI SDK's operation
	markGraphNode                       // a node of OpenInference's graph of agents, or a span that failed
	markHTTPMethod                      // an HTTP method
	markHTTPTarget                      // the target of an HTTP request
	markHTTPExchange  = markHTTPMethod | markHTTPTarget
)

func (m marks) has(all marks) bool { return m&all == all }

// claims are what the spans of a dialect have: any of the marks, or any of the scopes. A
// dialect without either is tried for every span.
type claims struct {
	marks  marks
	scopes scopeSet
}

func (c claims) fit(s *AttributeScan) bool {
	return s.marks&c.marks != 0 || c.scopes&(1<<s.scope) != 0 || c == claims{}
}

// Keys of other producers that OpenTelemetry's conventions do not have.
const (
	keySessionID         = "session.id"
	keyOpenInferenceKind = "openinference.span.kind"
	keyGraphNode         = "graph.node.id"
	keyVercelOperation   = "ai.operationId"
	keyTraceloopKind     = "traceloop.span.kind"
	keyLLMRequestType    = "llm.request.type"
	keyLLMStreaming      = "llm.is_streaming"
	keyGenAIStreaming    = "gen_ai.is_streaming"
	keyGenAIIsStream     = "gen_ai.request.is_stream"
	keyTimeToFirstToken  = "gen_ai.response.time_to_first_token"
	keyAnthropicStop     = "anthropic.message.stop_reason"
	keyAnthropicRequest  = "anthropic.request.id"
	keyOldHTTPMethod     = "http.method"
	keyOldHTTPURL        = "http.url"
	keyOldHTTPHost       = "net.peer.name"
	keyOldHTTPStatus     = "http.status_code"
)

// scannedKeys are the keys that read looks for.
var scannedKeys = [...]string{
	string(otelsemconv.GenAIOperationNameKey), string(otelsemconv.McpMethodNameKey),
	string(semconv.StreamEndKey), string(semconv.StreamPhaseKey), string(semconv.ToolEffectKey), string(semconv.ToolOutcomeKey),
	string(semconv.RunRequestsKey), string(semconv.RunToolsKey), string(semconv.RunIDKey), string(semconv.RunInferredKey),
	string(otelsemconv.GenAIConversationIDKey), string(otelsemconv.GenAIResponseIDKey), keySessionID,
	keyOpenInferenceKind, keyGraphNode, keyVercelOperation, keyTraceloopKind, keyLLMRequestType, keyLLMStreaming, keyGenAIStreaming,
	keyGenAIIsStream, keyTimeToFirstToken, keyAnthropicStop, keyAnthropicRequest,
	string(otelsemconv.HTTPRequestMethodKey), keyOldHTTPMethod,
	string(otelsemconv.URLFullKey), string(otelsemconv.ServerAddressKey), keyOldHTTPURL, keyOldHTTPHost,
}

// firsts has, by the length of a key, the set of first letters of the keys of that length
// in scannedKeys and of a verdict. Most other keys are skipped by it without a comparison.
var firsts = func() (table [64]uint32) {
	for _, key := range slices.Concat(scannedKeys[:], verdictattr.Keys()) {
		table[len(key)] |= 1 << (key[0] - 'a')
	}
	return table
}()

// read passes once over the attributes of a span.
func (s *AttributeScan) read(in scope, span ptrace.Span) {
	*s = AttributeScan{scope: in}
	switch {
	case namedSpans&(1<<in) != 0:
		s.name = span.Name()
	case in == scopeCodex:
		s.scanCodex(span)
	case in == scopeClaudeCode:
		s.scanClaude(span)
	case in == scopeOpenAIAgents && span.Status().Code() == ptrace.StatusCodeError:
		s.marks |= markGraphNode
	}
	for key, v := range span.Attributes().All() {
		if len(key) == 0 || len(key) >= len(firsts) || firsts[len(key)]&(1<<(key[0]-'a')) == 0 {
			continue
		}
		s.attribute(key, v)
	}
	if s.name == nameADKMerged || in == scopeClaudeCode {
		s.operation = "" // not one
	} else if in == scopeAG2 {
		s.operation = ag2Operation(span, s.operation)
	}
	if !s.run.IsEmpty() && runElsewhere(span, s.run) {
		s.run, s.inferred = pcommon.SpanID{}, false
	}
}

// attribute reads one of scannedKeys or of a verdict: first those of the conventions and of this project.
func (s *AttributeScan) attribute(key string, v pcommon.Value) {
	switch key {
	case string(otelsemconv.GenAIOperationNameKey):
		s.operation = shortString(v)
	case string(otelsemconv.McpMethodNameKey):
		if shortString(v) == mcpToolCall {
			s.marks |= markMCPCall
		}

	case string(semconv.StreamEndKey), string(semconv.StreamPhaseKey):
		s.marks |= markOwnRequest
	case string(semconv.ToolEffectKey), string(semconv.ToolOutcomeKey):
		s.marks |= markOwnTool
	case string(semconv.RunRequestsKey):
		s.requests = count(v)
		s.marks |= markOwnRun
	case string(semconv.RunToolsKey):
		s.tools = count(v)
		s.marks |= markOwnRun
	case string(semconv.RunIDKey):
		s.run = spanID(v)
	case string(semconv.RunInferredKey):
		s.inferred = boolean(v)

	case string(otelsemconv.GenAIConversationIDKey):
		s.session = v.Str()
	case keySessionID:
		if s.session == "" {
			s.session = v.Str()
		}
	case string(otelsemconv.GenAIResponseIDKey):
		s.response = v.Str()

	case string(otelsemconv.HTTPRequestMethodKey), keyOldHTTPMethod:
		s.marks |= markHTTPMethod
	case string(otelsemconv.URLFullKey), keyOldHTTPURL:
		s.url = v.Str()
		s.marks |= markHTTPTarget
	case string(otelsemconv.ServerAddressKey), keyOldHTTPHost:
		s.marks |= markHTTPTarget

	default:
		s.dialectAttribute(key, v)
	}
}

// dialectAttribute reads one of a single instrumentation, or of a verdict.
func (s *AttributeScan) dialectAttribute(key string, v pcommon.Value) {
	switch key {
	case keyOpenInferenceKind:
		s.openInference = shortString(v)
		s.marks |= markOpenInference
	case keyVercelOperation:
		s.vercel = shortString(v)
		s.marks |= markVercel
	case keyGraphNode:
		s.marks |= markGraphNode
	case keyTraceloopKind:
		s.traceloop = shortString(v)
		s.marks |= markOpenLLMetry
	case keyLLMRequestType:
		s.requestType = shortString(v)
		s.marks |= markOpenLLMetry
	case keyLLMStreaming, keyGenAIStreaming:
		s.marks |= markOpenLLMetry
	case keyGenAIIsStream, keyTimeToFirstToken:
		s.marks |= markGoCompile
	case keyAnthropicStop, keyAnthropicRequest:
		s.marks |= markAnthropic
	default:
		s.judged = s.judged || verdictattr.Is(key)
	}
}

// runElsewhere reports whether the run that a span names is in another trace, as one of its
// links says: nothing of that run is to be waited for in this one.
func runElsewhere(span ptrace.Span, run pcommon.SpanID) bool {
	for _, link := range span.Links().All() {
		if link.SpanID() == run && link.TraceID() != span.TraceID() {
			return true
		}
	}
	return false
}

// empty reports whether no dialect can recognise the span.
func (s *AttributeScan) empty() bool {
	return s.name == "" && s.kind == Other && s.operation == "" && s.openInference == "" && s.vercel == "" && s.traceloop == "" && s.requestType == "" && !s.marks.has(markMCPCall)
}

// shortString is a string value that is short enough to be an enum value, else empty.
func shortString(v pcommon.Value) string {
	if v.Type() != pcommon.ValueTypeStr || len(v.Str()) > maxWord {
		return ""
	}
	return v.Str()
}

// head is the head of a span of this kind, empty for Other.
func (s *AttributeScan) head(kind Kind) Head {
	if kind == Other {
		return Head{}
	}
	h := Head{Kind: kind, Run: s.run, Inferred: s.inferred, Session: keyOf(s.session)}
	if kind == Request && s.operation != opFetchResponse { // it has the response of an earlier request
		h.Response = keyOf(s.response)
	}
	return h
}

// Key stands for an id that a span carries, such as that of a conversation. Equal ids have
// equal keys, in every process. The zero value stands for no id.
type Key uint64

func keyOf(id string) Key {
	if id == "" {
		return 0
	}
	h := uint64(14695981039346656037) // FNV-1a, without the allocations of hash/fnv
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return Key(h)
}

// other is the head of a span that no dialect reads.
func (s *AttributeScan) other(span ptrace.Span) Head {
	exchange := s.marks.has(markHTTPExchange) && span.Kind() == ptrace.SpanKindClient && mayBeModelCall(s.url)
	return Head{Exchange: exchange, Judged: s.judged}
}

// standard is the kind of the span by the GenAI conventions.
func (s *AttributeScan) standard() Kind {
	kind := operation(s.operation)
	if kind == Other && s.marks.has(markMCPCall) {
		kind = Tool
	}
	return kind
}

// scope is the producer of a span, by its instrumentation scope.
type scope uint8

const (
	scopeUnknown scope = iota
	scopeAnthropicGo
	scopeAnthropicTS
	scopeVercel7
	scopeOpenInference
	scopeOpenAIAgents
	scopeOpenLLMetryJS
	scopeOpenLLMetryPython
	scopePythonAgents
	scopePython // any other one with the prefix of Python's instrumentations
	scopeOpenAIJS
	scopeGoCompile
	scopeOpencode
	scopeCodex
	scopeClaudeCode
	scopeGeminiCLI
	scopeQwenCode
	scopeAnthropicSDK // for a language other than Go and TypeScript
	scopeAnthropicAPI
	scopePydanticAI
	scopeStrands
	scopeADK
	scopeVLLM
	scopeAgentFramework
	scopeOBI
	scopeSemanticKernel
	scopeGoogleGenAI // OpenTelemetry's own for Python
	scopeAG2         // up to 0.x
)

// namedSpans are the scopes whose spans are recognised by their names.
var namedSpans = scopesOf(scopeOpencode, scopeADK, scopeVLLM)

// scopeSet is a set of scopes.
type scopeSet uint32

func scopesOf(scopes ...scope) (set scopeSet) {
	for _, s := range scopes {
		set |= 1 << s
	}
	return set
}

// scopes are the names of instrumentation scopes, or their prefixes; the first match is
// taken.
var scopes = [...]struct {
	name   string
	prefix bool
	scope  scope
}{
	{"com.anthropic.sdk.go", true, scopeAnthropicGo},
	{"com.anthropic.sdk.typescript", true, scopeAnthropicTS},
	{"com.anthropic.sdk.", true, scopeAnthropicSDK},
	{"com.anthropic.claude-platform", false, scopeAnthropicAPI},
	{"pydantic-ai", false, scopePydanticAI},
	{"strands.telemetry.tracer", false, scopeStrands},
	{"gcp.vertex.agent", false, scopeADK},
	{"vllm.", true, scopeVLLM},
	{"agent_framework", false, scopeAgentFramework},
	{"semantic_kernel.", true, scopeSemanticKernel},
	{"Microsoft.SemanticKernel", true, scopeSemanticKernel},
	{"go.opentelemetry.io/obi", true, scopeOBI},
	{"github.com/open-telemetry/opentelemetry-ebpf-instrumentation", true, scopeOBI},
	{"opentelemetry-ebpf-instrumentation", false, scopeOBI},
	{"github.com/grafana/beyla", true, scopeOBI},
	{"beyla", false, scopeOBI},
	{"gen_ai", false, scopeVercel7},
	{"@arizeai/openinference-instrumentation-openai-agents", false, scopeOpenAIAgents},
	{"openinference.instrumentation.openai_agents", false, scopeOpenAIAgents},
	{"@arizeai/openinference-", true, scopeOpenInference},
	{"openinference.instrumentation.", true, scopeOpenInference},
	{"github.com/Arize-ai/openinference/", true, scopeOpenInference},
	{"@traceloop/", true, scopeOpenLLMetryJS},
	{"opentelemetry.instrumentation.openai.v", true, scopeOpenLLMetryPython},
	{"traceloop.", true, scopeOpenLLMetryPython},
	{"opentelemetry.instrumentation.openai_agents", true, scopePythonAgents},
	{"opentelemetry.instrumentation.google_genai", false, scopeGoogleGenAI},
	{scopeNameAG2 + ag2Versioned, false, scopeAG2},
	{"opentelemetry.instrumentation.", true, scopePython},
	{"@opentelemetry/instrumentation-openai", false, scopeOpenAIJS},
	{"opencode", false, scopeOpencode},
	{"codex", true, scopeCodex},
	{"com.anthropic.claude_code", true, scopeClaudeCode},
	{"gemini-cli", false, scopeGeminiCLI},
	{"qwen-code", false, scopeQwenCode},
	{"go.opentelemetry.io/otelc/", true, scopeGoCompile},
	{"github.com/open-telemetry/opentelemetry-go-compile-instrumentation/", true, scopeGoCompile},
}

func scopeOf(name string) scope {
	for i := range scopes {
		if s := &scopes[i]; name == s.name || s.prefix && strings.HasPrefix(name, s.name) {
			return s.scope
		}
	}
	return scopeUnknown
}
