package dialect

import (
	"encoding/json"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// OpenInference reads the spans of Arize's instrumentations: their kind is in
// openinference.span.kind. A CHAIN only groups spans and is not a run.
//
// A failure is ERROR with an exception event; on Responses with the same empty message
// for an end of the stream, an abort and a timeout. A stream that ends without a finish
// reason has none, and neither has one that was aborted, which OpenAI's client ends
// without an error and whose status may be OK: it is attributed to neither. Some set OK before
// they read a stream, and an error of it is then recorded beside OK. That a request streamed
// is not always recorded, and LangChain's parameters are those of the model, not of the call. So
// OK is success only beside tokens of the answer, which come with the end of a response from
// most providers, not from Anthropic's, and not where a stream is known: some servers
// count in each event. The OK of an AGENT is no success by itself: it goes on with what a
// broken stream brought, or ended when its reader did. For Go the body of an
// HTTP error is its status text, a stream has the attributes of its request only, and a
// truncated one may not be exported at all. Messages of the history are recorded in part
// by some and dropped by attribute limits, so that they prove nothing about what is
// missing.
type OpenInference struct{}

var _ scoped = OpenInference{}

// Keys of OpenInference.
const (
	keyOIFinish         = "llm.finish_reason"
	keyOIParameters     = "llm.invocation_parameters"
	keyOIProvider       = "llm.provider"
	keyOISystem         = "llm.system"
	keyOIToolID         = "tool.id"
	keyOIToolName       = "tool.name"
	keyOIToolCallID     = "tool_call.id"
	oiOutputMessages    = "llm.output_messages."
	oiOutputCallID      = ".tool_call.id"
	oiMessageRole       = ".message.role"
	oiMessageContent    = ".message.content"
	eventOIFirstToken   = "First Token Stream Event"
	oiLLM               = "LLM"
	oiTool              = "TOOL"
	oiAgent             = "AGENT"
	keyOITokens         = "llm.token_count.total"
	keyOITokensOfAnswer = "llm.token_count.completion"
	keyOITokensOfPrompt = "llm.token_count.prompt"
	keyOutputValue      = "output.value"
)

// Name implements [Dialect].
func (OpenInference) Name() string { return "openinference" }

// in returns the dialect of a producer whose spans a processor of OpenInference has
// completed.
func (d OpenInference) in(s scope) Dialect {
	switch s {
	case scopePydanticAI, scopeStrands, scopeAgentFramework:
		return GenAI{}.in(s)
	default:
		return openInference
	}
}

// As an interface, which costs an allocation each time.
var openInference Dialect = OpenInference{}

func (OpenInference) claims() claims { return claims{marks: markOpenInference} }

// Recognise implements [Dialect].
func (OpenInference) Recognise(s *AttributeScan) Head { return s.head(openInferenceKind(s)) }

func openInferenceKind(s *AttributeScan) Kind {
	switch kind := s.openInference; {
	case kind == "":
		return Other
	case strings.EqualFold(kind, oiLLM):
		return Request
	case strings.EqualFold(kind, oiTool):
		return Tool
	case strings.EqualFold(kind, oiAgent):
		if s.scope == scopeOpenAIAgents && !s.marks.has(markGraphNode) {
			return Other // the root of the trace, see [OpenAIAgents]
		}
		return Run
	default:
		return Other
	}
}

// Read implements [Dialect].
func (OpenInference) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		openInferenceRequest(span, into.Request)
	case into.Tool != nil:
		openInferenceTool(span, into.Tool)
	case into.Run != nil:
		openInferenceRun(span, into.Run)
	}
}

func openInferenceRun(span ptrace.Span, run *classify.Run) {
	readRunWithoutOK(span, run)
	run.OKUnproven = failed(span) == classify.No
}

func openInferenceRequest(span ptrace.Span, r *classify.Request) {
	var e ending
	e.begin(span, r)
	early := false // the provider reports tokens at the beginning of a response
	for key, v := range span.Attributes().All() {
		switch key {
		case keyOIFinish:
			e.finish(v)
		case keyOIParameters:
			readOpenInferenceParameters(v, &e, r)
		case keyOIProvider, keyOISystem:
			early = early || countsEarly(v)
		case keyOITokensOfPrompt:
			e.input = count(v)
		case keyOITokensOfAnswer:
			e.output = count(v)
		default:
			if openInferenceCall(key) {
				addID(&r.CallIDs, v)
				continue
			}
			e.content = max(e.content, openInferenceContent(key, v))
			e.read(key, v, r)
		}
	}
	e.streamed = e.streamed || openInferenceStreamed(span)
	e.end(span, r)
	if r.Failed == classify.No && (e.streamed || early || e.recorded || e.output.N() == 0) {
		r.Failed = classify.NotObserved
	}
	e.conclude(r)
}

// openInferenceCall reports whether a key is that of the id of a call of the response.
func openInferenceCall(key string) bool {
	return strings.HasPrefix(key, oiOutputMessages) && strings.HasSuffix(key, oiOutputCallID)
}

// openInferenceContent reports whether an attribute is content of the answer, No for a text
// that is empty, not observed for others.
func openInferenceContent(key string, v pcommon.Value) classify.Fact {
	key, ok := strings.CutPrefix(key, oiOutputMessages)
	switch {
	case !ok || strings.HasSuffix(key, oiMessageRole):
		return classify.NotObserved
	case strings.HasSuffix(key, oiMessageContent):
		return classify.FactOf(v.Str() != "")
	default:
		return classify.Yes
	}
}

// openInferenceStreamed reports whether a first token is recorded. Its time does not
// show a phase: the token may be of reasoning, text or a call.
func openInferenceStreamed(span ptrace.Span) bool {
	for i := range min(span.Events().Len(), maxExceptions) {
		if span.Events().At(i).Name() == eventOIFirstToken {
			return true
		}
	}
	return false
}

// readOpenInferenceParameters reads from the parameters of the call whether it requested a
// stream, and the bound on the tokens of its answer.
func readOpenInferenceParameters(v pcommon.Value, e *ending, r *classify.Request) {
	if v.Type() != pcommon.ValueTypeStr || len(v.Str()) > maxJSON {
		return
	}
	parameters := struct {
		Stream              bool `json:"stream"`
		Streaming           bool `json:"streaming"` // LangChain
		MaxTokens           int  `json:"max_tokens"`
		MaxCompletionTokens int  `json:"max_completion_tokens"`
		MaxOutputTokens     int  `json:"max_output_tokens"`
	}{MaxTokens: -1, MaxCompletionTokens: -1, MaxOutputTokens: -1}
	if json.Unmarshal([]byte(v.Str()), &parameters) != nil {
		return
	}
	e.streamed = e.streamed || parameters.Stream || parameters.Streaming
	r.MaxTokens = classify.Counted(max(parameters.MaxTokens, parameters.MaxCompletionTokens, parameters.MaxOutputTokens))
}

func openInferenceTool(span ptrace.Span, t *classify.Tool) {
	readTool(span, t, keyOIToolID, keyOIToolName)
	if raised(span) {
		withoutOK(t)
	}
	if t.CallID == "" {
		if v, ok := span.Attributes().Get(keyOIToolCallID); ok {
			t.CallID = id(v)
		}
	}
}
