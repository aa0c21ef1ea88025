package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// item returns a response.output_item event.
func item(kind, index, item string) string {
	return `{"type":"response.output_item.` + kind + `","sequence_number":5,"output_index":` + index + `,"item":` + item + `}`
}

func TestResponses(t *testing.T) {
	resp := response("resp_1", "gpt-x")
	created := `{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","error":null,"incomplete_details":null,"model":"gpt-x","output":[],"usage":null}}`
	inProgress := strings.Replace(created, "created", "in_progress", 1)
	completed := `{"type":"response.completed","sequence_number":9,"response":{"id":"resp_1","status":"completed","error":null,"incomplete_details":null,"model":"gpt-x","output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":642,"input_tokens_details":{"cached_tokens":3},"output_tokens":67,"output_tokens_details":{"reasoning_tokens":7},"total_tokens":709}}}`
	used := func(s *State) { s.Usage = Usage{Input: 642, Output: 67, CacheRead: 3, CacheCreation: -1, Reasoning: 7} }
	bare := `{"type":"response.completed","response":{"id":"resp_1","model":"gpt-x","status":"completed"}}`

	text := func(s string) string {
		return `{"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"` + s + `","logprobs":[],"obfuscation":"x"}`
	}
	message := item("added", "0", `{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}`)
	messageDone := item("done", "0", `{"id":"msg_1","type":"message","status":"completed","content":[{"type":"output_text","text":"hi"}],"role":"assistant"}`)
	reasoning := item("added", "0", `{"id":"rs_1","type":"reasoning","summary":[]}`)
	reasoningDone := item("done", "0", `{"id":"rs_1","type":"reasoning","summary":[]}`)

	call := item("added", "1", `{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"call_a","name":"f"}`)
	args := `{"type":"response.function_call_arguments.delta","sequence_number":6,"item_id":"fc_1","output_index":1,"delta":"{\"a\"","obfuscation":"y"}`
	argsDone := `{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":1,"arguments":"{\"a\":1}"}`
	callDone := item("done", "1", `{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"a\":1}","call_id":"call_a","name":"f"}`)
	callCut := strings.Replace(callDone, "completed", "incomplete", 1)
	// client returns the events of a client-executed item of this type, added and done.
	client := func(typ, more string) (string, string) {
		it := `{"type":"` + typ + `","id":"i","call_id":"a"` + more + `}`
		return item("added", "0", it), item("done", "0", it)
	}
	both := func(added, done string) string { return named(added, done) }
	provider := func(typ, more string) string {
		return named(item("added", "0", `{"type":"`+typ+`","id":"i"`+more+`}`), item("done", "0", `{"type":"`+typ+`","id":"i"`+more+`}`))
	}

	runDecodeTests(t, openAIResponses{}, []decodeTest{
		{"begun", "", named(created, inProgress), all(resp, events(2))},
		{"message item", "", named(created, message), all(resp, events(2))},
		{"text", "", named(created, message, text("hi"), text(" there"), text("\\n")), all(resp, events(5), texts(3), phase(semconv.PhaseText))},
		{"empty text", "", named(text(""), text("a"), text("")), all(events(3), texts(1), phase(semconv.PhaseText))},
		{"refusal", "", named(`{"type":"response.refusal.delta","output_index":0,"delta":"no"}`), all(events(1), texts(1), phase(semconv.PhaseText))},
		{"a whole refusal", "", named(`{"type":"response.refusal.delta","output_index":0,"delta":"no"}`, bare), all(resp, events(2), texts(1), ended("refusal"))},
		{"a refusal that no delta brought", "", named(message, item("done", "0", `{"type":"message","id":"m","content":[{"type":"refusal","refusal":"no"}]}`), bare), all(resp, events(3), texts(1), ended("refusal"))},
		{"a whole answer", "", named(created, inProgress, message, text("hi"), messageDone, completed), all(resp, used, events(6), texts(1), ended("stop"))},
		{"without names", "", data(created, inProgress, message, text("hi"), messageDone, completed), all(resp, used, events(6), texts(1), ended("stop"))},
		{"without types", "", "event: response.output_text.delta\ndata: {\"output_index\":0,\"delta\":\"a\"}\n\nevent: response.completed\ndata: {\"response\":{}}\n\n", all(events(2), texts(1), ended("stop"))},
		{"[DONE] from a gateway", "", named(text("hi"), bare) + done, all(resp, events(3), texts(1), ended("stop"))},
		{"[DONE] proves nothing", "", named(created, text("hi")) + done, all(resp, events(3), texts(1), phase(semconv.PhaseText))},
		{"content after the end", "", named(bare, text("hi"), call, callDone), all(resp, events(4), texts(1), calls("call_a!"), unread, ended("stop"))},
		{"keepalive", "", named(`{"type":"keepalive","sequence_number":3}`, text("a"), `{"type":"ping"}`), all(events(1), keepalives(2), texts(1), phase(semconv.PhaseText))},
		{"text that no delta brought", "", named(message, messageDone), all(events(2), texts(1), phase(semconv.PhaseText))},
		{"progress of another kind", "", named(`{"type":"response.content_part.added","output_index":0,"part":{"type":"output_text","text":""}}`, `{"type":"response.output_text.annotation.added","annotation":{}}`), events(2)},
		{"a call that was not seen to begin", "", named(`{"type":"response.web_search_call.searching","output_index":0}`), all(events(1), unread)},

		{"deltas that are objects", "", named(`{"type":"response.output_text.delta","output_index":0,"delta":{"a":"b"}}`, `{"type":"response.output_text.delta","output_index":0,"delta":{"a":"b"}}`), all(events(2), texts(2), phase(semconv.PhaseText))},
		{"a text without deltas is no refusal", "", named(`{"type":"response.output_text.done","output_index":0,"text":"Hello"}`, bare), all(resp, events(2), texts(1), ended("stop"))},
		{"an item that begins with a refusal", "", named(item("added", "0", `{"type":"message","content":[{"type":"refusal","refusal":"no"}]}`), bare), all(resp, events(2), texts(1), ended("refusal"))},

		{"reasoning item", "", named(created, reasoning), all(resp, events(2), phase(semconv.PhaseReasoning))},
		{"reasoning", "", named(reasoning,
			`{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"delta":"hm","obfuscation":"x"}`,
			`{"type":"response.reasoning_text.delta","item_id":"rs_1","output_index":0,"delta":"hm"}`, reasoningDone), all(events(4), thoughts(2), phase(semconv.PhaseReasoning))},
		{"reasoning, then text", "", named(reasoning, reasoningDone, text("a")), all(events(3), texts(1), phase(semconv.PhaseText))},

		{"call begun", "", named(created, call), all(resp, events(2), calls("call_a+"), phase(semconv.PhaseToolCallReady))},
		{"call input under way", "", named(call, args, args), all(events(3), calls("call_a+"), phase(semconv.PhaseToolCallReady))},
		{"call input complete", "", named(call, args, argsDone), all(events(3), calls("call_a+"), phase(semconv.PhaseToolCallReady))},
		{"call handed over", "", named(call, args, argsDone, callDone), all(events(4), calls("call_a!"), phase(semconv.PhaseToolCallReady))},
		{"call and the end", "", named(created, call, args, argsDone, callDone, bare), all(resp, events(6), calls("call_a!"), ended("tool_calls"))},
		{"call without its done", "", named(call, args, bare), all(resp, events(3), calls("call_a!~"), ended("tool_calls"))},
		{"call cut by the limit", "", named(call, args, callCut, `{"type":"response.incomplete","response":{"id":"resp_1","model":"gpt-x","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`), all(resp, events(4), calls("call_a"), ended("max_output_tokens"))},
		{"text after a call", "", named(call, args, argsDone, callDone, text("a")), all(events(5), texts(1), calls("call_a!"), phase(semconv.PhaseText))},
		{"text between a call's input", "", named(call, text("a"), args), all(events(3), texts(1), calls("call_a+"), phase(semconv.PhaseText))},
		{"ids that change from event to event", "", named(call, strings.ReplaceAll(args, "fc_1", "other"), strings.ReplaceAll(argsDone, "fc_1", "another"), strings.ReplaceAll(callDone, "fc_1", "third")), all(events(4), calls("call_a!"), phase(semconv.PhaseToolCallReady))},
		{"a call id that changes", "", named(call, strings.ReplaceAll(callDone, "call_a", "call_z")), all(events(2), calls("call_z!"), phase(semconv.PhaseToolCallReady))},
		{"without output_index", "", strings.ReplaceAll(named(call, item("added", "2", `{"id":"fc_2","type":"function_call","call_id":"call_b","name":"f"}`), args, argsDone, callDone), `"output_index"`, `"x"`), all(events(5), calls("call_a!", "call_b+"), phase(semconv.PhaseToolCallReady))},
		{"a done item alone", "", named(callDone), all(events(1), calls("call_a!"), phase(semconv.PhaseToolCallReady))},
		{"only done items", "", named(created, callDone, bare), all(resp, events(3), calls("call_a!"), ended("tool_calls"))},
		{"only the final response", "", named(`{"type":"response.completed","response":{"id":"resp_1","model":"gpt-x","status":"completed","output":[{"type":"reasoning","summary":[{"text":"a"}]},{"type":"message","content":[{"type":"output_text","text":"hi"}]},{"type":"web_search_call"},{"type":"function_call","call_id":"call_a","name":"f"}]}}`), all(resp, events(1), thoughts(1), texts(1), providerTools(1, "web_search"), calls("call_a!"), ended("tool_calls"))},
		{"two calls at once", "", named(call, item("added", "2", `{"type":"function_call","call_id":"call_b","name":"g"}`), args, callDone), all(events(4), calls("call_a!", "call_b/g+"), phase(semconv.PhaseToolCallReady))},
		{"a call that a program made", "", named(item("added", "1", `{"type":"program","call_id":"p","code":""}`), item("added", "2", `{"type":"function_call","call_id":"call_a","caller":{"type":"program","caller_id":"p"},"name":"f"}`), item("done", "2", `{"type":"function_call","status":"in_progress","call_id":"call_a","name":"f"}`)), all(events(3), providerTools(1, "program"), calls("call_a!"), phase(semconv.PhaseToolCallReady))},

		{"custom tool", "", named(item("added", "0", `{"type":"custom_tool_call","id":"ct","call_id":"a","name":"f","input":""}`),
			`{"type":"response.custom_tool_call_input.delta","item_id":"ct","output_index":0,"delta":"SELECT"}`,
			`{"type":"response.custom_tool_call_input.done","item_id":"ct","output_index":0,"input":"SELECT"}`), all(events(3), calls("a+"), phase(semconv.PhaseToolCallReady))},
		{"computer", "", both(client("computer_call", "")), all(events(2), calls("a/computer!"), phase(semconv.PhaseToolCallReady))},
		{"local shell", "", both(client("local_shell_call", `,"action":{"type":"exec"}`)), all(events(2), calls("a/local_shell!"), phase(semconv.PhaseToolCallReady))},
		{"apply patch", "", named(item("added", "0", `{"type":"apply_patch_call","call_id":"a"}`), `{"type":"response.apply_patch_call_operation_diff.delta","item_id":"i","output_index":0,"delta":"+","obfuscation":"x"}`), all(events(2), calls("a/apply_patch+"), phase(semconv.PhaseToolCallReady))},
		{"apply patch complete", "", named(item("added", "0", `{"type":"apply_patch_call","call_id":"a"}`), `{"type":"response.apply_patch_call_operation_diff.done","output_index":0,"diff":"+"}`), all(events(2), calls("a/apply_patch+"), phase(semconv.PhaseToolCallReady))},
		{"the application's shell", "", named(item("added", "0", `{"type":"shell_call","call_id":"a","action":{"commands":[]}}`), `{"type":"response.shell_call_command.delta","output_index":0,"command_index":0,"delta":"ls"}`, `{"type":"response.shell_call_command.done","output_index":0,"command_index":0,"command":"ls"}`), all(events(3), calls("a/shell+"), phase(semconv.PhaseToolCallReady))},
		{"the application's shell, said so", "", both(client("shell_call", `,"environment":{"type":"local"}`)), all(events(2), calls("a/shell!"), phase(semconv.PhaseToolCallReady))},
		{"the provider's shell", "", both(client("shell_call", `,"environment":{"type":"container_reference","container_id":"c"}`)), all(events(2), providerTools(1, "shell"))},
		{"the application's tool search", "", both(client("tool_search_call", `,"execution":"client"`)), all(events(2), calls("a/tool_search!"), phase(semconv.PhaseToolCallReady))},
		{"the provider's tool search", "", provider("tool_search_call", `,"execution":"server","call_id":null`), all(events(2), providerTools(1, "tool_search"))},
		{"web search", "", provider("web_search_call", ""), all(events(2), providerTools(1, "web_search"))},
		{"file search", "", provider("file_search_call", ""), all(events(2), providerTools(1, "file_search"))},
		{"code interpreter", "", named(item("added", "0", `{"type":"code_interpreter_call"}`), `{"type":"response.code_interpreter_call_code.delta","output_index":0,"delta":"x"}`), all(events(2), providerTools(1, "code_interpreter"))},
		{"image generation", "", provider("image_generation_call", ""), all(events(2), providerTools(1, "image_generation"))},
		{"mcp", "", provider("mcp_list_tools", "") + provider("mcp_call", "") + provider("mcp_approval_request", ""), all(events(6), providerTools(2, "mcp_list_tools", "mcp"))},
		{"an unknown call", "", provider("teleport_call", ""), all(events(2), providerTools(1, "teleport"))},
		{"outputs of provider's tools", "", provider("shell_call_output", "") + provider("program_output", "") + provider("tool_search_output", ""), events(6)},

		{"incomplete", "", named(text("a"), `{"type":"response.incomplete","response":{"id":"resp_1","model":"gpt-x","status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`), all(resp, events(2), texts(1), ended("content_filter"))},
		{"done, and completed", "", named(created, message, text("a"), `{"type":"response.done","response":{"id":"resp_1","status":"completed","output":[]}}`), all(resp, events(4), texts(1), ended("stop"))},
		{"done, and incomplete", "", named(text("a"), `{"type":"response.done","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`), all(events(2), texts(1), ended("max_output_tokens"))},
		{"done, and failed", "", named(text("a"), `{"type":"response.done","response":{"status":"failed","error":{"code":"server_error"}}}`), all(events(2), texts(1), phase(semconv.PhaseText), failed(Error{Code: "server_error"}))},
		{"done, and nothing known", "", named(text("a"), `{"type":"response.done","response":{"status":"paused"}}`), all(events(2), texts(1), phase(semconv.PhaseText), unread, terminal)},
		{"incomplete without a reason", "", named(`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":null}}`), all(events(1), ended("incomplete"))},
		{"failed", "", named(created, text("a"), `{"type":"response.failed","response":{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"secret"}}}`), all(resp, events(3), texts(1), phase(semconv.PhaseText), failed(Error{Code: "server_error"}))},
		{"failed, with the error beside the response", "", named(created, `{"type":"response.failed","error":{"type":"invalid_request_error","code":"server_is_overloaded","message":"x"}}`), all(resp, events(2), failed(Error{Type: "invalid_request_error", Code: "server_is_overloaded"}))},
		{"failed, with the error beside a response without one", "", named(`{"type":"response.failed","response":{"status":"failed","error":null},"error":{"code":"server_error"}}`), all(events(1), failed(Error{Code: "server_error"}))},
		{"failed, with the error's members in the event", "", named(`{"type":"response.failed","code":"server_error","message":"x"}`), all(events(1), failed(Error{Code: "server_error"}))},
		{"completed, but cut by a limit", "", named(created, text("a"), `{"type":"response.completed","response":{"id":"resp_1","output":[],"stop_reason":"length"}}`), all(resp, events(3), texts(1), ended("length"))},
		{"completed, but its status is incomplete", "", named(created, text("a"), `{"type":"response.completed","response":{"id":"resp_1","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`), all(resp, events(3), texts(1), ended("max_output_tokens"))},
		{"completed, and a good stop_reason", "", named(created, text("a"), `{"type":"response.completed","response":{"id":"resp_1","status":"completed","stop_reason":"stop","incomplete_details":null}}`), all(resp, events(3), texts(1), ended("stop"))},
		{"incomplete, with two reasons", "", named(created, text("a"), `{"type":"response.incomplete","response":{"id":"resp_1","status":"incomplete","stop_reason":"length","incomplete_details":{"reason":"content_filter"}}}`), all(resp, events(3), texts(1), ended("content_filter"))},
		{"failed, with two errors", "", named(`{"type":"response.failed","response":{"status":"failed","error":{"code":"first"}},"error":{"code":"second"}}`), all(events(1), failed(Error{Code: "first"}))},
		{"failed without an error", "", named(`{"type":"response.failed","response":{"status":"failed","error":null}}`), all(events(1), failed(Error{}))},
		{"an error without a type", "", named(created, `{"code":"server_error","message":"x"}`), all(resp, events(2), failed(Error{Code: "server_error"}))},
		{"an error of a gateway", "", named(`{"type":"response.error","response":{"status":"failed"},"error":{"code":"server_error","message":"x"}}`), all(events(1), failed(Error{Code: "server_error"}))},
		{"cancelled", "", named(`{"type":"response.cancelled","response":{"status":"cancelled","error":null}}`), all(events(1), failed(Error{Code: "cancelled"}))},
		{"error", "", named(text("a"), `{"type":"error","sequence_number":2,"code":"rate_limit_exceeded","message":"Please try again in 250ms.","param":null}`), all(events(2), texts(1), phase(semconv.PhaseText), failed(Error{Code: "rate_limit_exceeded", RetryAfter: 250 * time.Millisecond}))},
		{"nested error", "", named(`{"type":"error","error":{"type":"insufficient_quota","code":"insufficient_quota","message":"secret","param":null}}`), all(events(1), failed(Error{Type: "insufficient_quota", Code: "insufficient_quota"}))},
		{"error without a type", "", "event: error\ndata: {\"code\":\"a\"}\n\n", all(events(1), failed(Error{Code: "a"}))},
		{"error and response.failed", "", named(created, `{"type":"error","code":null,"message":"x"}`, `{"type":"response.failed","response":{"id":"resp_1","status":"failed","error":{"code":"server_error"},"usage":null}}`), all(resp, events(3), failed(Error{Code: "server_error"}))},
		{"response.failed and error", "", named(`{"type":"response.failed","response":{"status":"failed","error":{"code":"first"}}}`, `{"type":"error","code":"second"}`), all(events(2), failed(Error{Code: "first"}))},
		{"error after the end", "", named(bare, `{"type":"error","code":"late"}`), all(resp, events(2), ended("stop"))},
		{"error after a call", "", named(call, args, argsDone, callDone, `{"type":"error","code":"a"}`), all(events(5), calls("call_a!"), phase(semconv.PhaseToolCallReady), failed(Error{Code: "a"}))},

		{"a whole response", jsonType, `{"id":"resp_1","object":"response","status":"completed","error":null,"incomplete_details":null,"model":"gpt-x","output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":1,"output_tokens":2}}`, all(resp, events(1), texts(1), ended("stop"), func(s *State) { s.Usage.Input, s.Usage.Output = 1, 2 })},
		{"a whole response with calls", jsonType, `{"id":"resp_1","status":"completed","model":"gpt-x","output":[{"type":"function_call","id":"x","call_id":"call_a","name":"f"},{"type":"function_call","id":"x","call_id":"call_b","name":"f"},{"type":"mcp_call","id":"y"}]}`, all(resp, events(1), calls("call_a!", "call_b!"), providerTools(1, "mcp"), ended("tool_calls"))},
		{"a whole response, incomplete", jsonType, `{"id":"resp_1","model":"gpt-x","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"function_call","call_id":"call_a","name":"f","status":"incomplete"}]}`, all(resp, events(1), calls("call_a"), ended("max_output_tokens"))},
		{"a whole response, failed", jsonType, `{"id":"resp_1","model":"gpt-x","status":"failed","error":{"code":"server_error","message":"x"},"output":[]}`, all(resp, events(1), failed(Error{Code: "server_error"}))},
		{"a whole response, cancelled", jsonType, `{"id":"resp_1","model":"gpt-x","status":"cancelled","output":[]}`, all(resp, events(1), failed(Error{Code: "cancelled"}))},
		{"a background response", jsonType, `{"id":"resp_1","model":"gpt-x","status":"queued","output":[]}`, all(resp, events(1), ended("queued"))},
		{"a whole response, cut", jsonType, `{"id":"resp_1","status":"completed","output":[]`, nil},
		{"a whole error", jsonType, `{"error":{"type":"t","code":"c"}}`, all(events(1), failed(Error{Type: "t", Code: "c"}))},
		{"no response", jsonType, `{"hello":1}`, all(events(1), terminal, unread, func(s *State) { s.GaveUp = true })},
	})
}

// The events of a call beyond the bound of the list do not change a listed call.
func TestResponsesManyCalls(t *testing.T) {
	call := func(kind string, n int) string {
		return item(kind, itoa(n), `{"type":"function_call","call_id":"call_`+itoa(n)+`","name":"f"}`)
	}
	var events []string
	for n := range MaxIDs + 1 {
		events = append(events, call("added", n))
	}
	s := decode(openAIResponses{}, sseType, named(append(events, call("done", MaxIDs))...))
	assert.Equal(t, MaxIDs+1, s.ToolInputsStarted)
	assert.Equal(t, 1, s.ToolCalls)
	assert.Len(t, s.Calls, MaxIDs)
	for n, c := range s.Calls {
		// All were followed by another one, and a client may have executed them by then.
		assert.Equal(t, Call{ID: "call_" + itoa(n), Name: "f", Completed: true}, c)
	}
}

// The input of a call belongs to the item of its index, whatever its id.
func TestResponsesInputByIndex(t *testing.T) {
	stream := named(item("added", "0", `{"type":"function_call","id":"fc_1","call_id":"a","name":"f"}`), `{"type":"response.output_text.delta","output_index":1,"delta":"a"}`)
	assert.Equal(t, semconv.PhaseText, decode(openAIResponses{}, sseType, stream).Phase)
	stream = named(item("added", "0", `{"type":"function_call","id":"fc_1","call_id":"a","name":"f"}`), `{"type":"response.function_call_arguments.delta","item_id":"fc_2","output_index":0,"delta":"{}"}`)
	assert.Equal(t, 1, decodeCut(openAIResponses{}, sseType, stream).ToolInputsCompleted)
}

// A client that the provider asks to run commands, to act on a computer or to change a file gets
// all of that at once: what has a command is complete, and what will have one is not.
func TestResponsesActions(t *testing.T) {
	for _, tt := range []struct {
		item string
		done int
	}{
		{`"type":"local_shell_call","action":{"type":"exec","command":[],"env":{}}`, 0},
		{`"type":"local_shell_call","action":{"type":"exec","command":["ls"],"env":{}}`, 1},
		{`"type":"local_shell_call","action":[{"type":"exec","command":["ls"]}]`, 1},
		{`"type":"local_shell_call","action":"ls"`, 1},
		{`"type":"local_shell_call","plan":{"command":["ls"]}`, 1},
		{`"type":"local_shell_call"`, 0},
		{`"type":"shell_call","action":{"commands":[],"timeout_ms":null}`, 0},
		{`"type":"shell_call","action":{"commands":["ls"],"timeout_ms":null}`, 1},
		{`"type":"computer_call","action":{"type":"screenshot"}`, 1},
		{`"type":"computer_call","action":{"type":"move","x":1,"y":2}`, 1},
		{`"type":"computer_call","actions":[{"type":"screenshot"}]`, 1},
		{`"type":"apply_patch_call","operation":{"type":"delete_file","path":"a"}`, 1},
		{`"type":"function_call","name":"f","namespace":"n","arguments":""`, 0},
	} {
		body := named(`{"type":"response.output_item.added","output_index":0,"item":{"id":"i","call_id":"a",` + tt.item + `}}`)
		assert.Equal(t, tt.done, decodeCut(openAIResponses{}, sseType, body).ToolInputsCompleted, tt.item)
		assert.Equal(t, 1, decode(openAIResponses{}, sseType, body).ToolInputsCompleted, tt.item)
	}
	shell := []string{
		item("added", "0", `{"type":"shell_call","call_id":"a","action":{"commands":[]}}`),
		`{"type":"response.shell_call_command.added","output_index":0,"command_index":0,"command":""}`,
		`{"type":"response.shell_call_command.delta","output_index":0,"command_index":0,"delta":"ls"}`,
		`{"type":"response.shell_call_command.done","output_index":0,"command_index":0,"command":"ls"}`,
	}
	assert.Zero(t, decodeCut(openAIResponses{}, sseType, named(shell[:3]...)).ToolInputsCompleted)
	assert.Equal(t, 1, decodeCut(openAIResponses{}, sseType, named(shell...)).ToolInputsCompleted, "a client may run each command as it comes")
}

// An unknown form of an event that shows who executes a call, its progress or the end of
// an answer sets Unread.
func TestResponsesOfAnotherShape(t *testing.T) {
	call := `{"type":"response.output_item.added","output_index":0,"item":{"id":"fc","type":"function_call","call_id":"call_a","name":"f"}}`
	item := func(rest string) string {
		return `{"type":"response.output_item.added","output_index":0,"item":{"id":"i","call_id":"call_a",` + rest + `}}`
	}
	// A client that takes the end of the body for that of the answer may execute it.
	open := func(name string) func(*State) {
		return all(calls("call_a/"+name+"+"), phase(semconv.PhaseToolCallReady))
	}
	runDecodeTests(t, openAIResponses{}, []decodeTest{
		{"the end of the input of a call that is not named", "", named(call, `{"type":"response.function_call_arguments.done","item_id":"fc","arguments":"{}"}`), all(events(2), open("f"), unread)},
		{"the end of an input under another name", "", named(call, `{"type":"response.function_call_arguments.finished","output_index":0}`), all(events(2), open("f"), unread)},
		{"the end of the input of a call that is not named, beside one without an id", "", named(strings.Replace(strings.Replace(call, `"output_index":0`, `"output_index":1`, 1), `"id":"fc",`, "", 1), `{"type":"response.function_call_arguments.done","arguments":"{}"}`), all(events(2), open("f"), unread)},
		{"an event that is not known, with a member that is not", "", named(`{"type":"response.poem","verse":"Hello"}`), all(events(1), unread)},
		{"an event that is not known, with a text", "", named(`{"type":"response.poem","text":"Hello"}`), all(events(1), unread)},
		{"a message that does something", "", named(item(`"type":"message","action":{"do":"Hello"},"caller":null`)), all(events(1), unread)},
		{"an answer in another place", "", named(`{"type":"response.completed","response":{"status":"completed","answer":"Hello"}}`), all(events(1), unread, ended("stop"))},
		{"an answer beside the response", "", named(`{"type":"response.completed","answer":"Hello","response":{"status":"completed"}}`), all(events(1), unread, ended("stop"))},
		{"an answer in another place, of no items", "", named(`{"type":"response.completed","response":{"status":"completed","answer":"Hello","output":[]}}`), all(events(1), ended("stop"))},
		{"an answer in another place, after its items", "", named(call, `{"type":"response.completed","response":{"status":"completed","answer":"Hello"}}`), all(events(2), calls("call_a!"), ended("tool_calls"))},
		{"a cut answer in another place", "", named(`{"type":"response.incomplete","response":{"status":"incomplete","answer":"Hello"}}`), all(events(1), unread, ended("incomplete"))},
		{"an end that is said elsewhere", "", named(`{"type":"response.completed","response":{"state":"failed","output":[]}}`), all(events(1), unread, ended("stop"))},
		{"an answer of another type", jsonType, `{"status":"completed","output":{"a":"Hello"}}`, all(events(1), unread, terminal)},
		{"the end of an answer under another name", "", named(`{"type":"response.finished","response":{"status":"completed"}}`), all(events(1), unread)},
		{"a shell in a place that is not known", "", named(item(`"type":"shell_call","environment":{"type":"moon"}`)), all(events(1), open("shell"), unread)},
		{"a shell in a place without a type", "", named(item(`"type":"shell_call","environment":{"container_id":"c"}`)), all(events(1), open("shell"), unread)},
		{"a shell that may be somewhere else", "", named(item(`"type":"shell_call","place":{"type":"container_auto"}`)), all(events(1), open("shell"), unread)},
		{"a shell of the application's", "", named(item(`"type":"shell_call","action":{"commands":["ls"]},"environment":null`)), all(events(1), open("shell"))},
		{"a shell of the application's by name", "", named(item(`"type":"shell_call","environment":{"type":"local"}`)), all(events(1), open("shell"))},
		{"a shell in another case", "", named(item(`"type":"shell_call","Environment":{"Type":"container_auto"}`)), all(events(1), providerTools(1, "shell"))},
		{"a search for tools of which it is not known who does it", "", named(item(`"type":"tool_search_call"`)), all(events(1), providerTools(1, "tool_search"), unread)},
		{"a search for tools by the provider", "", named(item(`"type":"tool_search_call","execution":"server"`)), all(events(1), providerTools(1, "tool_search"))},
	})
}
