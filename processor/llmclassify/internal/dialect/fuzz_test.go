package dialect

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// fuzzKeys and fuzzWords are every key and word that a dialect looks for, so that a fuzzer meets
// them all.
var fuzzKeys = []string{
	string(otelsemconv.GenAIOperationNameKey), string(otelsemconv.McpMethodNameKey), string(otelsemconv.GenAIRequestStreamKey),
	string(otelsemconv.GenAIResponseFinishReasonsKey), string(otelsemconv.HTTPResponseStatusCodeKey), string(otelsemconv.ErrorTypeKey),
	string(otelsemconv.HTTPRequestResendCountKey), string(otelsemconv.OpenAIAPITypeKey), string(otelsemconv.GenAIToolCallIDKey),
	string(otelsemconv.GenAIToolNameKey), string(otelsemconv.HTTPRequestMethodKey), string(otelsemconv.URLFullKey),
	string(semconv.StreamEndKey), string(semconv.StreamPhaseKey), string(semconv.StreamTextChunksKey), string(semconv.ToolOutcomeKey),
	string(semconv.RunRequestsKey), string(semconv.RunIDKey), string(semconv.HistoryToolCallsKey), string(semconv.TransportCauseKey),
	keyOpenInferenceKind, keyOIFinish, keyOIParameters, keyOIToolID, keyOITokens, oiOutputMessages + "0.message.tool_calls.0" + oiOutputCallID,
	keyVercelOperation, keyVercelFinish, keyVercelToolCalls, keyVercelToolID, keyVercelToolName,
	keyTraceloopKind, keyLLMRequestType, keyLLMStreaming, keyGenAIStreaming, keyLLMFinish, keyCompletionFinish, completionCalls + "0.id",
	keyGenAIIsStream, keyTimeToFirstToken, keyTimeToFirstChunk, keyAnthropicStop, keyGenAISystem, keyOldHTTPStatus, keyOldHTTPMethod,
	string(otelsemconv.GenAIUsageInputTokensKey), string(otelsemconv.GenAIUsageOutputTokensKey), string(otelsemconv.GenAIOutputMessagesKey),
	string(otelsemconv.GenAIResponseIDKey), keyVercelText, keyVercelObject, keyOutputValue, keyOITokensOfPrompt, keyOITokensOfAnswer,
	oiOutputMessages + "0" + oiMessageContent, oiOutputMessages + "0" + oiMessageRole,
	keyCallID, keyToolName, keyAborted, keyTurnID, keyGeminiToolID, keyQwenSuccess, keyQwenStatus, keyQwenAttempt, keyQwenTurn, keyQwenFailure,
	string(otelsemconv.GenAIResponseTimeToFirstChunkKey), keyClaudeStatus, keyClaudeStop, keyClaudeHasTool, keyClaudeRequestID, keyClaudeClass,
	keyClaudeError, keyClaudeToolID, keyClaudeDecision, keyOpencodeToolName, keyOpencodeCallID, keyOpencodeInterrupted,
	keyPydanticStage, keyPydanticDeferral, keyPydanticResult, keySpringToolID, keySpringToolName,
	keyToolOutcome, keyToolError, keyTaskStatus, keyResponseStatus, keyCodexReasoning,
}

// fuzzNames are the names of spans that a dialect looks for, and fuzzLogged the events of
// Codex.
var fuzzNames = []string{
	"", nameOpencodeLoop, nameOpencodeTool, nameCodexTurn, nameCodexAttempt, nameCodexResponse, nameCodexHTTP, nameCodexDispatch,
	nameClaudeRun, nameClaudeRequest, nameClaudeTool, nameClaudeBlocked, nameADKRequest, nameADKRun + "a]", nameADKMerged, nameVLLMRequest,
}

var fuzzLogged = []string{eventCodexHTTP, eventCodexTool, eventCodexProfile, "codex.retry"}

var fuzzWords = []string{
	"chat", "execute_tool", "invoke_agent", "tools/call", "LLM", "TOOL", "AGENT", "ai.streamText.doStream", "ai.toolCall", "ai.generateText",
	"workflow", "tool", "stop", "error", "interrupted", "other", "length", "tool_calls", "None", "AbortError", "ECONNRESET", "api_error",
	"connection_error", "client_error", "client_timeout_error", "RateLimitError", "APIConnectionError", "429", "429 Too Many Requests", "23",
	"TypeError", "AI_APICallError", "httpx.ConnectError", "completion", "eof", "terminal_event", "POST", "responses",
	`{"stream":true}`, `[{"toolCallId":"call_1"}]`, `[{"toolCallId":1}]`, "00f067aa0ba902b7", "", strings.Repeat("x", 300),
	`["stop"]`, `"stop"`, `[]`, "incomplete", "cancelled", `[{"parts":[]}]`, `{"incomplete_details":{"reason":"length"}}`, `[{"choices":[]}]`,
	`{"status":"completed","output":[]}`, vercelID + "1", "anthropic", undSocket,
	opLLMCall, opToolCall, classGeminiError, classOpenAIError, "TypeError:" + undSocket, "true", "false", qwenCancelled, qwenTimeout, "permission_denied",
	claudeReject, "end_turn", "tool_use", "2",
	"handle_conversation_turn", "true", "12", "0", "end_turn", "validation", "CallDeferred", adkUnspecified, "ModelHTTPError", "google.genai.errors.ServerError",
	"strands.types.exceptions.ModelThrottledException",
	opFetchResponse, "completed", "in_progress", "failed", "success", "denied", "skipped", "pending", "langgraph.errors.GraphInterrupt", "ApprovalRequired",
}

var fuzzMessages = func() []string {
	messages := []string{
		"", canary, certificateText + "x", "Too Many Requests", "stream aborted", fetchFailed, `Error running tool: {"error":"AbortError: x"}`,
		"status_code: 429, model_name: m, body: " + canary, "503 UNAVAILABLE. " + canary,
		`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}`, textGeminiInStream + `X. {"error":{"code":503,"message":"` + canary + `"}}`,
	}
	for text := range texts {
		messages = append(messages, text)
	}
	return messages
}()

// dice makes choices out of fuzzed bytes.
type dice []byte

func (d *dice) roll(n int) int {
	if len(*d) == 0 || n == 0 {
		return 0
	}
	b := (*d)[0]
	*d = (*d)[1:]
	return int(b) % n
}

func (d *dice) value(v pcommon.Value) {
	switch d.roll(9) {
	case 0, 1, 2:
		v.SetStr(fuzzWords[d.roll(len(fuzzWords))])
	case 3:
		v.SetInt(int64(d.roll(256))*4 - 100)
	case 4:
		v.SetBool(d.roll(2) == 0)
	case 5:
		v.SetDouble(float64(d.roll(256)) / 3)
	case 6:
		for slice := v.SetEmptySlice(); d.roll(3) > 0 && slice.Len() < 100; {
			slice.AppendEmpty().SetStr(fuzzWords[d.roll(len(fuzzWords))])
		}
	case 7:
		v.SetEmptyMap().PutStr("toolCallId", "call_1")
	default:
		v.SetStr(string(*d)[:min(len(*d), 40)])
	}
}

func (d *dice) span() (scope string, span ptrace.Span) {
	span = ptrace.NewSpan()
	scope = scopes[d.roll(len(scopes))].name
	span.Status().SetCode(ptrace.StatusCode(d.roll(4)))
	span.Status().SetMessage(fuzzMessages[d.roll(len(fuzzMessages))])
	span.SetKind(ptrace.SpanKind(d.roll(6)))
	span.SetStartTimestamp(pcommon.Timestamp(d.roll(256)) * 1e9)
	span.SetEndTimestamp(pcommon.Timestamp(d.roll(256)) * 1e9)
	defer func() { span.SetName(fuzzNames[d.roll(len(fuzzNames))]) }() // last, so that what was found before stays as it was
	for n := d.roll(12); n > 0; n-- {
		d.value(span.Attributes().PutEmpty(fuzzKeys[d.roll(len(fuzzKeys))]))
	}
	for n := d.roll(4); n > 0; n-- {
		e := span.Events().AppendEmpty()
		e.SetName([]string{"exception", eventOIFirstToken, "", eventChoice}[d.roll(4)])
		e.Attributes().PutStr("exception.type", fuzzWords[d.roll(len(fuzzWords))])
		e.Attributes().PutStr("exception.message", fuzzMessages[d.roll(len(fuzzMessages))])
		e.Attributes().PutStr(keyChoiceFinish, fuzzWords[d.roll(len(fuzzWords))])
		if d.roll(2) == 0 {
			continue
		}
		e.Attributes().PutStr(keyEventName, fuzzLogged[d.roll(len(fuzzLogged))])
		for _, key := range [...]string{keyCallID, keyToolName, keyCodexSuccess, keyCodexError, keyCodexAttempt, keyCodexRequests, "http.response.status_code"} {
			if d.roll(2) == 0 {
				d.value(e.Attributes().PutEmpty(key))
			}
		}
	}
	return scope, span
}

// FuzzDialects reads arbitrary spans with every dialect alone: no panic; no success
// out of UNSET without the producer's own word for it; nothing of a message; bounds
// kept; the same facts every time.
func FuzzDialects(f *testing.F) {
	for seed := range 64 {
		data := make([]byte, 200)
		for i := range data {
			data[i] = byte(seed*37 + i*i*11 + i*seed*7)
		}
		f.Add(data)
	}
	sets := make([]*Registry, len(all))
	for i, d := range all {
		sets[i], _ = NewSet(d.Name())
	}
	var lists Lists // used again and again, as a judge does
	f.Fuzz(func(t *testing.T, data []byte) {
		lists.Reset()
		roll := dice(data)
		scope, span := roll.span()
		_, child := roll.span()
		exchange := ReadExchange(child)
		for _, set := range append(sets, Default()) {
			head, d := set.In(scope).Recognise(span)
			if head.Kind == Other {
				require.Nil(t, d)
				continue
			}
			reading := Reading{Dialect: d}
			facts := reading.Facts(span, head.Kind)
			switch head.Kind {
			case Request:
				var again classify.Request
				(&Reading{Dialect: d}).Request(span, &again, &lists)
				assert.Equal(t, *facts.Request, again)
				checkFuzzed(t, d, span, facts.Request)
				Explain(&again, []Exchange{exchange})
				checkExplained(t, facts.Request, &again)
			case Tool:
				checkString(t, facts.Tool.CallID, facts.Tool.Name, facts.Tool.ErrorType)
				if span.Status().Code() == ptrace.StatusCodeUnset && !reportsTools(d, span) {
					assert.NotEqual(t, semconv.ToolOutcomeSucceeded, facts.Tool.Outcome)
				}
			case Run:
				checkString(t, facts.Run.ErrorType)
				if span.Status().Code() == ptrace.StatusCodeUnset && !reportsRuns(d, span) {
					assert.NotEqual(t, classify.No, facts.Run.Failed)
				}
			}
			assert.Positive(t, facts.Size())
		}
	})
}

// reportsTools reports whether a producer says in an attribute of its own that a tool
// succeeded.
func reportsTools(d Dialect, span ptrace.Span) bool {
	for _, key := range [...]string{keyToolOutcome, keyTaskStatus} {
		if _, ok := span.Attributes().Get(key); ok {
			return true
		}
	}
	switch d.(type) {
	case OTelLLM, Codex, QwenCode, ClaudeCode:
		return true
	default:
		return false
	}
}

// reportsRuns reports whether a producer may say in attributes of its own that a run did not
// fail: Vercel's SDK by the finish reason of an operation, see vercelRun.
func reportsRuns(d Dialect, span ptrace.Span) bool {
	var key string
	switch d {
	case OTelLLM{}:
		return true
	case genAIPydanticAI:
		key = keyPydanticResult
	case Vercel{}:
		key = keyVercelFinish
	case Vercel7{}:
		key = string(otelsemconv.GenAIResponseFinishReasonsKey)
	default:
		return false
	}
	_, ok := span.Attributes().Get(key)
	return ok
}

func checkFuzzed(t *testing.T, d Dialect, span ptrace.Span, r *classify.Request) {
	t.Helper()
	unset := span.Status().Code() == ptrace.StatusCodeUnset
	v := classify.Judge(&classify.Run{Ended: classify.Yes, Requests: []classify.Request{*r}})
	if unset && d != (OTelLLM{}) {
		assert.NotEqual(t, classify.No, r.Failed, "UNSET is no success")
		if v.Run.Outcome == semconv.RunOutcomeSucceeded {
			assert.Greater(t, r.Finish, classify.FinishMissing, "only a finish reason says that an UNSET request went well")
		}
	}
	if span.Status().Code() == ptrace.StatusCodeError {
		if d != (OBI{}) && !waits(span) {
			assert.Equal(t, classify.Yes, r.Failed)
		}
		assert.NotEqual(t, semconv.RunOutcomeSucceeded, v.Run.Outcome)
	}
	checkString(t, r.Transport.Code, r.Provider.Code, r.Abort.Reason)
	for _, list := range [][]string{r.CallIDs, r.OpenCallIDs, r.ProviderTools, r.HistoryCalls, r.HistoryOutputs} {
		assert.LessOrEqual(t, len(list), classify.MaxIDs)
		checkString(t, list...)
	}
	if d != (OTelLLM{}) {
		assert.NotEqual(t, classify.SafeAutoRetry, v.Requests[0].Retry.Safety, "what was streamed and carried is not known")
	}
}

// waits reports whether the error of a span only means that a tool beneath it waits.
func waits(span ptrace.Span) bool {
	errorType := ""
	if v, ok := span.Attributes().Get(string(otelsemconv.ErrorTypeKey)); ok {
		errorType = text(v)
	}
	return faultOf(span, errorType).pause
}

// checkExplained: an exchange makes nothing a success, and no retry safe.
func checkExplained(t *testing.T, before, after *classify.Request) {
	t.Helper()
	was := classify.Judge(&classify.Run{Ended: classify.Yes, Requests: []classify.Request{*before}})
	is := classify.Judge(&classify.Run{Ended: classify.Yes, Requests: []classify.Request{*after}})
	if was.Run.Outcome != semconv.RunOutcomeSucceeded {
		assert.NotEqual(t, semconv.RunOutcomeSucceeded, is.Run.Outcome)
	}
	if before.HistoryCalls == nil {
		assert.NotEqual(t, classify.SafeAutoRetry, is.Requests[0].Retry.Safety)
	}
	checkString(t, after.Transport.Code, after.Provider.Code)
}

func checkString(t *testing.T, strs ...string) {
	t.Helper()
	for _, s := range strs {
		assert.LessOrEqual(t, len(s), maxString)
		assert.NotContains(t, s, "CANARY")
		if len(s) > maxString/2 {
			assert.True(t, utf8.ValidString(s))
		}
	}
}
