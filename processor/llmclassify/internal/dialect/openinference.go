package dialect

import (
	"encoding/json"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// OpenInference reads the spans of Arize's instrumentations: openinference.span.kind
// says what they are. A CHAIN is glue, no run.
//
// A failure is ERROR with an exception event; on Responses with no message for an end
// of the stream, an abort and a timeout alike. A stream that just ends has no finish
// reason, and neither has one that was aborted, which OpenAI's client ends without an
// error and which may read OK: it is put down to neither, and OK is success only for
// a request that is known not to have streamed. For Go the body of an HTTP
// error is its status text, a stream has its request's attributes only, and a cut one
// may not be exported at all. Messages of the history are recorded in part by some and
// dropped by attribute limits, so that they prove nothing about what is not there.
type OpenInference struct{}

var _ Dialect = OpenInference{}

// Keys of OpenInference.
const (
	keyOIFinish         = "llm.finish_reason"
	keyOIParameters     = "llm.invocation_parameters"
	keyOIToolID         = "tool.id"
	keyOIToolName       = "tool.name"
	keyOIToolCallID     = "tool_call.id"
	oiOutputMessages    = "llm.output_messages."
	oiOutputCallID      = ".tool_call.id"
	eventOIFirstToken   = "First Token Stream Event"
	oiLLM               = "LLM"
	oiTool              = "TOOL"
	oiAgent             = "AGENT"
	keyOITokens         = "llm.token_count.total"
	keyOITokensOfAnswer = "llm.token_count.completion"
)

// Name implements [Dialect].
func (OpenInference) Name() string { return "openinference" }

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
		readRun(span, into.Run)
	}
}

func openInferenceRequest(span ptrace.Span, r *classify.Request) {
	var e ending
	e.begin(span, r)
	whole := false // known not to have streamed
	for key, v := range span.Attributes().All() {
		switch key {
		case keyOIFinish:
			e.finish(v)
		case keyOIParameters:
			streams := openInferenceStreams(v)
			e.streamed = e.streamed || streams == classify.Yes
			whole = streams == classify.No
		default:
			if openInferenceCall(key) {
				addID(&r.CallIDs, v)
				continue
			}
			e.read(key, v, r)
		}
	}
	e.streamed = e.streamed || openInferenceStreamed(span)
	e.end(span, r)
	if r.Failed == classify.No && (!whole || e.streamed) {
		r.Failed = classify.NotObserved
	}
	e.conclude(r)
}

// openInferenceCall: the key is that of the id of a call of the answer.
func openInferenceCall(key string) bool {
	return strings.HasPrefix(key, oiOutputMessages) && strings.HasSuffix(key, oiOutputCallID)
}

// openInferenceStreamed reports whether a first token was noted. Its time is not
// taken for a phase: the token may be of reasoning, text or a call.
func openInferenceStreamed(span ptrace.Span) bool {
	for i := range min(span.Events().Len(), maxExceptions) {
		if span.Events().At(i).Name() == eventOIFirstToken {
			return true
		}
	}
	return false
}

// openInferenceStreams reads out of the parameters of the call whether it asked for
// a stream.
func openInferenceStreams(v pcommon.Value) classify.Fact {
	if v.Type() != pcommon.ValueTypeStr || len(v.Str()) > maxJSON {
		return classify.NotObserved
	}
	var parameters struct {
		Stream    bool `json:"stream"`
		Streaming bool `json:"streaming"` // LangChain
	}
	if json.Unmarshal([]byte(v.Str()), &parameters) != nil {
		return classify.NotObserved
	}
	return classify.FactOf(parameters.Stream || parameters.Streaming)
}

func openInferenceTool(span ptrace.Span, t *classify.Tool) {
	readTool(span, t, keyOIToolID, keyOIToolName)
	if t.CallID == "" {
		if v, ok := span.Attributes().Get(keyOIToolCallID); ok {
			t.CallID = id(v)
		}
	}
}
