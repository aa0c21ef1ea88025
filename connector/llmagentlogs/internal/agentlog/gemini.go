package agentlog

import (
	"encoding/json"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Gemini CLI, as recorded from 0.61.0. The turn is prompt_id. The finish reasons of gemini_cli.api_response are "stop" for
// every chunk, whatever the provider sent: they say nothing. If an answer was not complete, gemini_cli.chat.content_retry
// follows. No record tells whether a response asks for a tool, and gemini_cli.tool_call is recorded when the tool has
// ended. Each call has a trace of its own.

func readGemini(name string, r *record) (conversation string, ok bool) {
	e := r.event
	e.Turn = r.id("prompt_id")
	switch strings.TrimPrefix(name, "gemini_cli.") {
	case "config":
		e.Kind = Session
		asks, known := r.boolean("interactive")
		e.Unattended = known && !asks || r.text("approval_mode") == "yolo"
	case "user_prompt":
		e.Kind = Prompt
	case "api_request":
		e.Kind = Began
		r.geminiRequest("model")
	case "api_response":
		r.took()
		e.Kind, e.Status = Done, r.status("status_code", "http.status_code")
		r.geminiRequest("model")
		r.tokens("input_token_count", "output_token_count")
	case "api_error":
		r.took()
		e.Kind, e.Status = Done, r.status("status_code", "http.status_code")
		r.geminiRequest("model_name")
		e.Failure = geminiFailure(e, r.text("error.type"), r.text("error.message"))
	case "network_retry_attempt":
		e.Kind = Detail
		e.Failure = transportCode(r.text("error_type"))
	case "chat.content_retry":
		e.Kind, e.Failure = Cut, cutAnswer(r.code("error_type"))
	case "chat.content_retry_failure":
		e.Kind, e.Failure = GaveUp, cutAnswer(r.code("final_error_type"))
	case "tool_call":
		r.took()
		e.Kind, e.ToolName = Tool, r.code("function_name")
		r.outcome("success", "error_type")
		switch {
		case e.Outcome != semconv.ToolOutcomeFailed:
		case r.text("decision") == "reject", e.ToolErrorType == "execution_denied":
			e.Outcome = semconv.ToolOutcomeRejected
		case e.ToolErrorType == "invalid_tool_params", e.ToolErrorType == "tool_not_registered":
			e.Outcome = semconv.ToolOutcomeInvalidInput
		}
	case "conversation_finished":
		e.Kind = Ended
	case "plan.approval_mode_duration":
		// The last record of a process. It is also recorded, with approval_mode_switch after it, when a person or a tool
		// changes the mode.
		if asks, known := r.boolean("interactive"); asks || !known {
			return "", false
		}
		e.Kind = Ended
	case "plan.approval_mode_switch":
		e.Kind = GoesOn
	default:
		return "", false
	}
	return r.id("session.id"), true
}

// geminiRequest reads the facts that are recorded with each request.
func (r *record) geminiRequest(model string) {
	e := r.event
	e.Model, e.Provider = r.code(model), "gcp.gen_ai"
	if role := r.text("role"); role != "" && role != "main" {
		e.Side = true
	}
}

// undiciPatience is how long undici waits for the next byte of a body, by default. It then reports "terminated", as for a
// connection that broke.
const undiciPatience = pcommon.Timestamp(300 * time.Second)

func geminiFailure(e *Event, errorType, message string) Failure {
	var f Failure
	switch {
	case e.Status >= 400:
		f = refusal(e.Status, "")
		f.Provider = classify.ProviderErrorKind(e.Status, geminiCodes(message)...)
	case errorType == "AbortError":
		return Failure{Failed: true, End: semconv.StreamEndCancelled, Abort: semconv.AbortSourceUnknown}
	case message == "terminated" && e.Time-e.Start >= undiciPatience:
		f = unknownFailure()
	default:
		f = brokenStream(message)
		f.Fetch = fetchFailed(message)
	}
	f.Type = classify.SanitizeErrorType(errorType)
	return f
}

// maxGeminiError bounds the JSON of an error of the API, in bytes.
const maxGeminiError = 4 << 10

// geminiCodes returns the codes of an error of the API, whose JSON is the message: the reasons of its details, then its
// status. A reason is more precise: API_KEY_INVALID is an INVALID_ARGUMENT. The codes are only for comparing with known
// ones.
func geminiCodes(message string) (codes []string) {
	if len(message) > maxGeminiError {
		return nil
	}
	var data struct {
		Error struct {
			Status  string          `json:"status"`
			Details json.RawMessage `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(message), &data) != nil {
		return nil
	}
	var details []struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(data.Error.Details, &details) // the readable ones
	for _, detail := range details {
		codes = append(codes, detail.Reason)
	}
	return append(codes, data.Error.Status)
}

// cutAnswer is an answer that Gemini CLI did not take. It reports NO_FINISH_REASON for a stream that ended without a finish
// reason and for a stream with an error in it alike.
func cutAnswer(code string) Failure {
	f := unknownFailure()
	f.Type = code
	return f
}
