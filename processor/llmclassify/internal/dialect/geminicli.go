package dialect

import (
	"encoding/json"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// GeminiCLI reads the spans of Gemini CLI (scope gemini-cli): llm_call is a request,
// tool_call a tool, both by gen_ai.operation.name. The other operations, agent_call,
// user_prompt and schedule_tool_calls, only group spans: each request is a trace of its own,
// so that no span is known to be above the requests of a turn.
//
// It sets OK unless an error was thrown, also for a stream that broke off or had an error in
// it, for an answer that is no longer read, and for a tool whose result is an error. So OK
// is not success. Finish reasons are not recorded. An error of the API is an ApiError whose
// message is the JSON of the error: alone if it was the response to the request, after the
// status if it was within a stream. Measured with Gemini CLI 0.61.0.
type GeminiCLI struct{}

var _ Dialect = GeminiCLI{}

// The operations of Gemini CLI that are read, and its key for the id of a call.
const (
	opLLMCall          = "llm_call"
	opToolCall         = "tool_call"
	keyGeminiToolID    = "gen_ai.tool.call_id"
	classGeminiError   = "ApiError"
	textGeminiInStream = "got status: "
)

// Name implements [Dialect].
func (GeminiCLI) Name() string { return "gemini_cli" }

func (GeminiCLI) claims() claims { return claims{scopes: scopesOf(scopeGeminiCLI)} }

// Recognise implements [Dialect].
func (GeminiCLI) Recognise(s *AttributeScan) Head {
	switch s.operation {
	case opLLMCall:
		return s.head(Request)
	case opToolCall:
		return s.head(Tool)
	}
	return Head{}
}

// Read implements [Dialect].
func (GeminiCLI) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		geminiRequest(span, into.Request)
	case into.Tool != nil:
		readTool(span, into.Tool, keyGeminiToolID, string(otelsemconv.GenAIToolNameKey))
		if into.Tool.Outcome == semconv.ToolOutcomeSucceeded {
			into.Tool.Outcome = semconv.ToolOutcomeUnset
		}
	}
}

func geminiRequest(span ptrace.Span, r *classify.Request) {
	var e ending
	e.begin(span, r)
	for key, v := range span.Attributes().All() {
		e.read(key, v, r)
	}
	e.end(span, r)
	if r.Failed != classify.Yes {
		r.Failed = classify.NotObserved
		return
	}
	switch refused := geminiErrorOf(span); {
	case refused.status == 0:
		e.conclude(r)
	case refused.inStream:
		r.Basis, r.Provider.InBand = classify.Corroborated, true
		r.Provider.Kind, r.Provider.Code = classify.ProviderErrorKind(refused.status, refused.code), codeOf(refused.code)
	default:
		r.Status, e.name, e.agrees = refused.status, refused.code, true
		e.refused(r)
	}
}

// geminiError is an error of Google's API, as the SDK writes it into an ApiError.
type geminiError struct {
	status   int
	code     string
	inStream bool
}

// geminiErrorOf reads the error of the API from the last exception of a span that has one:
// its status and its code, and nothing of its message. The status is 0 if there is no such
// error.
func geminiErrorOf(span ptrace.Span) (e geminiError) {
	for event := range lastEvents(span) {
		if event.Name() != otelsemconv.ExceptionEventName {
			continue
		}
		class, _ := event.Attributes().Get(string(otelsemconv.ExceptionTypeKey))
		message, ok := event.Attributes().Get(string(otelsemconv.ExceptionMessageKey))
		if ok && class.Type() == pcommon.ValueTypeStr && class.Str() == classGeminiError {
			return geminiErrorIn(message.Str())
		}
	}
	return e
}

func geminiErrorIn(message string) (e geminiError) {
	if len(message) > maxEmpty {
		return e
	}
	if rest, ok := strings.CutPrefix(message, textGeminiInStream); ok {
		_, rest, _ = strings.Cut(rest, "{")
		e.inStream, message = true, "{"+rest
	}
	var data struct {
		Error struct {
			Code    int             `json:"code"`
			Status  string          `json:"status"`
			Details json.RawMessage `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(message), &data) != nil || data.Error.Code < 400 || data.Error.Code > 599 {
		return geminiError{}
	}
	e.status = data.Error.Code
	if len(data.Error.Status) <= maxWord {
		e.code = data.Error.Status
	}
	var details []struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(data.Error.Details, &details) // what can be read of them
	for _, detail := range details {
		// A reason is more precise than the status, if its meaning is known: API_KEY_INVALID
		// is an INVALID_ARGUMENT.
		if len(detail.Reason) <= maxWord && classify.ProviderErrorKind(0, detail.Reason) != semconv.ProviderErrorKindUnknown {
			e.code = detail.Reason
			break
		}
	}
	return e
}
