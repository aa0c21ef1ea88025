package dialect

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// GenAI reads spans of OpenTelemetry's GenAI conventions, from any producer, and
// MCP's tool calls.
//
// These record how a request ended only as a finish reason, a status and the name of an
// error. Its progress, what was streamed, the tools offered and the history are never
// recorded: they stay not observed, which costs confidence and never safety. UNSET is not
// success, and neither is OK of a stream without a finish reason or tokens: some set it
// when a stream is no longer read. The name of an error that may be of any stage (APIConnectionError) means that a
// stream was interrupted only if something of a response is recorded, too.
//
// Two instrumentations of OpenAI's agents SDK for Python have the scope
// opentelemetry.instrumentation.openai_agents: OpenLLMetry's (0.62.1), whose agents and
// tools are also told by their traceloop.span.kind, and OpenTelemetry's own. Both set OK
// unless the SDK recorded an error: it is success only beside a finish reason or tokens,
// which come with the end of a response, and never of an agent.
//
// Producers that need a rule of their own have it in a file of their own: pydantic-ai in
// pydanticai.go, Strands Agents in strands.go, Spring AI in springai.go, Microsoft's Agent
// Framework in agentframework.go, Semantic Kernel in semantickernel.go, AG2 in ag2.go.
type GenAI struct {
	scope scope // which producer; unknown if the scope is not known
}

var _ scoped = GenAI{}

// As interfaces, which cost an allocation each time.
var (
	genAI               Dialect = GenAI{}
	genAIPythonAgents   Dialect = GenAI{scopePythonAgents}
	genAIPydanticAI     Dialect = GenAI{scopePydanticAI}
	genAIStrands        Dialect = GenAI{scopeStrands}
	genAIAgentFramework Dialect = GenAI{scopeAgentFramework}
	genAISemanticKernel Dialect = GenAI{scopeSemanticKernel}
	genAIGoogle         Dialect = GenAI{scopeGoogleGenAI}
	genAIAG2            Dialect = GenAI{scopeAG2}
)

// Name implements [Dialect].
func (GenAI) Name() string { return "gen_ai" }

func (GenAI) in(s scope) Dialect {
	switch s {
	case scopePythonAgents:
		return genAIPythonAgents
	case scopePydanticAI:
		return genAIPydanticAI
	case scopeStrands:
		return genAIStrands
	case scopeAgentFramework:
		return genAIAgentFramework
	case scopeSemanticKernel:
		return genAISemanticKernel
	case scopeGoogleGenAI:
		return genAIGoogle
	case scopeAG2:
		return genAIAG2
	default:
		return genAI
	}
}

func (GenAI) claims() claims { return claims{} }

// Recognise implements [Dialect].
func (GenAI) Recognise(s *AttributeScan) Head { return s.head(s.standard()) }

// Read implements [Dialect].
func (d GenAI) Read(span ptrace.Span, into Facts) {
	switch d.scope {
	case scopePydanticAI:
		readPydantic(span, into)
	case scopeStrands:
		readStrands(span, into)
	case scopeAgentFramework:
		d.readAgentFramework(span, into)
	case scopeAG2:
		d.readAG2(span, into)
	default:
		d.read(span, into)
	}
}

func (d GenAI) read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		d.request(span, into.Request)
	case into.Tool != nil:
		genAITool(span, into.Tool)
		springTool(span, into.Tool)
	case into.Run != nil && (d.scope == scopePythonAgents || d.scope == scopeAgentFramework):
		readRunWithoutOK(span, into.Run)
	case into.Run != nil:
		readRun(span, into.Run)
	}
}

func (d GenAI) request(span ptrace.Span, r *classify.Request) {
	var e ending
	if d.scope == scopeAgentFramework {
		e.beginWithoutOK(span, r)
	} else {
		e.begin(span, r)
	}
	e.returned = d.scope == scopeGoogleGenAI // unless it is a stream
	early := false                           // the provider reports tokens at the beginning of a response, most do at its end
	var spring springEnding
	for key, v := range span.Attributes().All() {
		switch {
		case isProvider(key):
			early = early || countsEarly(v)
		case spring.read(key, v, &e):
		default:
			d.readReturn(key, v, &e)
			e.read(key, v, r)
		}
	}
	e.end(span, r)
	counted := e.output.N() > 0
	if e.partless && e.output.N() > e.reasoning.N() { // the content is not recorded
		e.content = classify.NotObserved
	}
	if r.Failed == classify.No && (e.streamed || e.chunked || d.scope == scopePythonAgents) && e.reasons == nil && !counted {
		r.Failed = classify.NotObserved // so does a span that ends when its stream is no longer read
	}
	switch {
	case e.conclude(r), r.Failed == classify.Yes:
	case d.endsWithoutReason(&e):
		e.unstated(r)
	case e.unset && spring.cancelled(&e):
		r.Ended, r.Abort.Source = semconv.StreamEndCancelled, semconv.AbortSourceUnknown
	case e.unset && e.streamed && !early && e.empty(r) && e.output.Observed():
		nothingIn(r, classify.Inferred) // it counts the tokens, and there was none
	case e.unset && e.has(finishInterrupted):
		r.Ended, r.Basis = semconv.StreamEndEOF, classify.Corroborated
	case e.unset && e.streamed && (e.reasons != nil || !counted):
		// A finish reason was due, and neither it nor an error is recorded. A producer that
		// counts tokens and records no finish reason may be one that never does.
		r.Ended = semconv.StreamEndEOF
	}
}

// isProvider reports whether a key is that of the provider's name.
func isProvider(key string) bool {
	return key == keyGenAISystem || key == string(otelsemconv.GenAIProviderNameKey)
}

// countsEarly reports whether the provider of this name reports tokens at the beginning of a
// response.
func countsEarly(name pcommon.Value) bool {
	return strings.Contains(strings.ToLower(shortString(name)), "anthropic")
}

func genAITool(span ptrace.Span, t *classify.Tool) {
	readTool(span, t, string(otelsemconv.GenAIToolCallIDKey), string(otelsemconv.GenAIToolNameKey))
}
