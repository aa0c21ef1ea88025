package wire

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/semconv"
)

var fixtures = flag.String("fixtures", "", "folder of recorded streams, one folder a protocol; by default that of OTELLLM_FIXTURES")

// fixturesDir returns the folder of recorded streams. Without one the test is skipped.
func fixturesDir(tb testing.TB) string {
	tb.Helper()
	// Read here and not at the start, so that the go command knows that the result
	// depends on it and does not use its cache.
	if dir := os.Getenv("OTELLLM_FIXTURES"); *fixtures == "" && dir != "" {
		return dir
	}
	if *fixtures == "" {
		tb.Skip("no recorded streams: name their folder with -fixtures or OTELLLM_FIXTURES")
	}
	return *fixtures
}

// recording is one recorded stream as it is transmitted.
type recording struct {
	protocol Protocol
	payloads []map[string]any // of each event; nil for [DONE]
	events   []string         // the bytes of each event
}

// recordingsOf frames the payloads of a file, one per line. A file may have the streams of
// several turns.
func recordingsOf(tb testing.TB, lines []byte) []recording {
	tb.Helper()
	var recs []recording
	var rec recording
	flush := func() {
		if rec.protocol == (openAIChat{}) {
			rec.payloads = append(rec.payloads, nil)
			rec.events = append(rec.events, "data: [DONE]\n\n")
		}
		if len(rec.events) > 0 {
			recs = append(recs, rec)
		}
		rec = recording{}
	}
	ended := false
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		var payload map[string]any
		require.NoError(tb, json.Unmarshal(line, &payload))
		typ, _ := payload["type"].(string)
		if ended {
			flush()
			ended = false
		}
		event := "event: " + typ + "\ndata: " + string(line) + "\n\n"
		switch {
		case strings.HasPrefix(typ, "response."), typ == "error" && rec.protocol == (openAIResponses{}):
			rec.protocol = openAIResponses{}
			ended = typ == "response.completed" || typ == "response.failed" || typ == "response.incomplete"
		case payload["candidates"] != nil || payload["promptFeedback"] != nil:
			rec.protocol = gemini{}
			event = "data: " + string(line) + "\r\n\r\n"
		case len(payload) == 1 && payload["error"] == nil && payload["candidates"] == nil && typ == "":
			rec.protocol = bedrockConverse{}
			for name, inner := range payload {
				object, err := json.Marshal(inner)
				require.NoError(tb, err)
				event = frame(name, string(object))
			}
		case payload["created_at"] != nil:
			rec.protocol = ollama{}
			event = string(line) + "\n"
			ended = payload["done"] == true
		case typ != "":
			rec.protocol = anthropicMessages{}
			ended = typ == "message_stop"
		default:
			rec.protocol = openAIChat{}
			event = "data: " + string(line) + "\n\n"
		}
		rec.payloads = append(rec.payloads, payload)
		rec.events = append(rec.events, event)
	}
	flush()
	return recs
}

// TestStreams cuts every stream after every event, and within the next, and compares the
// state with that of an oracle that uses encoding/json.
func TestStreams(t *testing.T) {
	assert.Equal(t, 8, testFolder(t, filepath.Join("testdata", "streams")))
}

func TestRecordedStreams(t *testing.T) {
	dir := fixturesDir(t)
	for folder, wanted := range map[string]int{"openai-chat": 11, "openai-responses": 28, "azure-openai": 8, "anthropic-messages": 31, "gemini": 9, "bedrock": 12} {
		n := testFolder(t, filepath.Join(dir, folder))
		assert.GreaterOrEqual(t, n, wanted, "recordings in %s", folder)
	}
}

// testFolder tests the streams in a folder and returns the number of files.
func testFolder(t *testing.T, folder string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	require.NoError(t, err)
	for n, file := range files {
		if n%sample.Every(4) != 0 {
			continue
		}
		lines, err := os.ReadFile(file)
		require.NoError(t, err)
		for i, rec := range recordingsOf(t, lines) {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl")+"/"+itoa(i), func(t *testing.T) {
				testRecording(t, rec)
			})
		}
	}
	return len(files)
}

// contentTypeOf is the type under which a protocol streams.
func contentTypeOf(p Protocol) string {
	switch p {
	case ollama{}:
		return linesType
	case bedrockConverse{}:
		return awsType
	default:
		return sseType
	}
}

func testRecording(t *testing.T, rec recording) {
	t.Helper()
	o := newOracle(rec.protocol)
	ct := contentTypeOf(rec.protocol)
	assert.Equal(t, o.state, *decode(rec.protocol, ct, ""), "before the first event")
	stream := ""
	for k, event := range rec.events {
		stream += event
		o.see(rec.payloads[k])
		got := decodeCut(rec.protocol, ct, stream)
		if !assert.Equal(t, o.state, *got, "cut after event %d: %.300s", k, event) {
			return
		}
		if k+1 < len(rec.events) {
			next := rec.events[k+1]
			got = decodeCut(rec.protocol, ct, stream+next[:len(next)/2])
			require.Equal(t, o.state, *got, "cut within event %d", k+1)
		}
	}
	got := decode(rec.protocol, ct, stream)
	assert.Equal(t, rec.protocol != (gemini{}), got.Terminal, "terminal")
	assert.Equal(t, got.Err == nil, got.Complete, "complete unless the provider failed")
	assert.Equal(t, ct == sseType, got.ResponseID != "", "the response's id")
	assert.Equal(t, ct != awsType, got.Model != "", "the model")
	assert.Equal(t, got, decode(rec.protocol, ct, stream, everyByte(stream)...), "byte by byte")
	assert.Equal(t, got, parsed(rec.protocol, ct, stream), "with every payload parsed")
	if rec.protocol == (gemini{}) {
		assert.Equal(t, got, decode(rec.protocol, ct, strings.ReplaceAll(stream, "\r\n", "\n")), "with LF")
		testArray(t, rec)
		return
	}
	if ct != awsType {
		assert.Equal(t, got, decode(rec.protocol, ct, strings.ReplaceAll(stream, "\n", "\r\n")), "with CRLF")
	}
}

// TestBrokenObjects breaks every event of every stream, in the ways in which servers do. Unless
// the answer was complete before, it is not whole, whatever comes after the event. The last event
// of a Responses stream has all of it once more.
func TestBrokenObjects(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "streams", "*.jsonl"))
	require.NoError(t, err)
	broken := 0
	for _, file := range files {
		lines, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, rec := range recordingsOf(t, lines) {
			ct := contentTypeOf(rec.protocol)
			if ct == awsType {
				continue // a checksum covers each message
			}
			for k, event := range rec.events[:len(rec.events)-1] {
				object := strings.IndexByte(event, '{')
				for _, cut := range []int{object + 1, (object + len(event)) / 2, strings.LastIndexByte(event, '}')} {
					rest := strings.Join(rec.events[k+1:], "")
					for _, hurt := range []string{
						event[:cut] + event[len(strings.TrimRight(event, "\r\n")):] + rest, // its end is missing
						event[:cut] + rest, // and so is the line's
					} {
						before := strings.Join(rec.events[:k], "")
						wasComplete := decodeCut(rec.protocol, ct, before).Complete
						st := decode(rec.protocol, ct, before+hurt)
						whole := rec.protocol == (openAIResponses{}) && st.Complete
						assert.True(t, st.Broken || wasComplete || whole || !st.Complete, "%s: event %d cut to %d: %s", file, k, cut, event)
						if st.Broken && st.Complete {
							broken++
						}
					}
				}
			}
		}
	}
	assert.Greater(t, broken, 100)
}

// Without the fast path every stream gives the same state. The streams are made of the
// events of recorded ones, in any order and number, some with a byte that is another.
func TestFastPath(t *testing.T) {
	folders := []string{filepath.Join("testdata", "streams")}
	if dir := os.Getenv("OTELLLM_FIXTURES"); dir != "" {
		folders = append(folders, filepath.Join(dir, "*"))
	}
	r := rand.New(rand.NewPCG(1, 2))
	learned := map[string]int{} // by protocol
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
		require.NoError(t, err)
		for _, file := range files {
			lines, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, rec := range recordingsOf(t, lines) {
				learned[rec.protocol.Name()] += checkFastPath(t, r, rec)
			}
		}
	}
	for _, rec := range documented(t) {
		learned[rec.protocol.Name()] += checkFastPath(t, r, rec)
	}
	for _, p := range protocols {
		if p.Protocol != (openAICompletions{}) { // the decoder is that of Chat Completions
			assert.Positive(t, learned[p.Name()], p.Name())
		}
	}
}

// checkFastPath returns how many shapes were learned.
func checkFastPath(t *testing.T, r *rand.Rand, rec recording) (learned int) {
	t.Helper()
	ct := contentTypeOf(rec.protocol)
	for range 20 / sample.Every(5) {
		fast, slow := rec.protocol.NewDecoder(ct), newParser(rec.protocol, ct)
		few := 1 + r.IntN(len(rec.events)) // the fewer kinds, the more often each is repeated
		for range 100 {
			event := []byte(rec.events[r.IntN(few)])
			if r.IntN(4) == 0 && ct != awsType { // AWS messages have checksums
				const others = "a0\"\\{}\n"
				event[r.IntN(len(event))] = others[r.IntN(len(others))]
			}
			fast.Write(event)
			slow.Write(event)
			if !assert.Equal(t, slow.State(), fast.State(), "after %s", event) {
				return learned
			}
		}
		learned += int(bodyOf(fast).fast.kept)
		require.Zero(t, bodyOf(slow).fast.kept, "learned by a decoder that has to parse")
	}
	return learned
}

// testArray tests the same stream as one JSON array, indented as Google does it.
func testArray(t *testing.T, rec recording) {
	t.Helper()
	o := newOracle(rec.protocol)
	stream, next := "", "["
	for k, payload := range rec.payloads {
		object, err := json.MarshalIndent(payload, "", "  ")
		require.NoError(t, err)
		stream += next + string(object)
		o.see(payload)
		require.Equal(t, o.state, *decodeCut(rec.protocol, jsonType, stream), "cut after object %d", k)
		require.Equal(t, o.state, *decodeCut(rec.protocol, jsonType, stream+",\r\n{\"candidates\":[{"), "cut within object %d", k+1)
		next = "\n,\r\n"
	}
	stream += "\n]\n"
	o.state.Terminal = true
	if o.state.Complete {
		o.state.Phase = semconv.PhaseStreamEnd
	}
	assert.Equal(t, o.state, *decode(rec.protocol, jsonType, stream))
	assert.Equal(t, o.state, *decode(rec.protocol, sseType, stream, everyByte(stream)...), "byte by byte")
}

// oracle reads the payloads with encoding/json and applies the rules in the simplest way.
type oracle struct {
	state State
	seen  func(map[string]any)

	choices  map[float64]bool   // finished or not
	owner    map[string]float64 // choice of a call
	keys     map[string]int     // calls by choice and index, output index or block index
	provider map[string]bool
	usage    map[string]float64
	inputs   map[string]string // of the calls, so far
	last     string            // the call that the last part of the answer was of
	message  string            // the id of the message
	blocks   map[string]bool   // those that have begun
}

func newOracle(p Protocol) *oracle {
	o := &oracle{
		state: *started(), choices: map[float64]bool{}, owner: map[string]float64{},
		keys: map[string]int{}, provider: map[string]bool{}, usage: map[string]float64{}, inputs: map[string]string{}, blocks: map[string]bool{},
	}
	o.seen = map[Protocol]func(map[string]any){
		openAIChat{}: o.chat, openAIResponses{}: o.responses, anthropicMessages{}: o.messages, gemini{}: o.gemini, ollama{}: o.ollama, bedrockConverse{}: o.converse,
	}[p]
	return o
}

func (o *oracle) see(payload map[string]any) {
	if payload["type"] == "ping" {
		o.state.Keepalives++
		return
	}
	o.state.Events++
	o.seen(payload)
}

// path returns a nested value; nil if it is absent.
func path(v any, keys ...string) any {
	for _, key := range keys {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

func text(v any, keys ...string) string {
	s, _ := path(v, keys...).(string)
	return s
}

func list(v any, keys ...string) []any {
	l, _ := path(v, keys...).([]any)
	return l
}

func number(v any, keys ...string) float64 {
	n, _ := path(v, keys...).(float64)
	return n
}

// input adds to the input of a call. A client may execute the call once that is JSON.
func (o *oracle) input(key, piece string) {
	i, ok := o.keys[key]
	if !ok {
		return
	}
	if o.last != key {
		o.complete(o.last)
	}
	o.last = key
	if !o.state.Calls[i].Completed {
		o.state.Phase = semconv.PhaseToolInput
	}
	if o.inputs[key] += piece; json.Valid([]byte(o.inputs[key])) {
		o.complete(key)
	}
}

// said records a part of the answer that is not of a call.
func (o *oracle) said(phase semconv.Phase) {
	o.complete(o.last)
	o.state.Phase = phase
}

func (o *oracle) begin(key, id, name string) {
	o.complete(o.last)
	o.last = key
	o.inputs[key] = ""
	o.keys[key] = len(o.state.Calls)
	o.state.Calls = append(o.state.Calls, Call{ID: id, Name: name})
	o.state.ToolInputsStarted++
	o.state.Phase = semconv.PhaseToolInput
}

func (o *oracle) complete(key string) {
	if i, ok := o.keys[key]; ok && !o.state.Calls[i].Completed {
		o.state.Calls[i].Completed = true
		o.state.ToolInputsCompleted++
		o.state.Phase = semconv.PhaseToolCallReady
	}
}

func (o *oracle) hand(key string) {
	if i, ok := o.keys[key]; ok && !o.state.Calls[i].Ready {
		o.state.Calls[i].Ready = true
		o.state.ToolCalls++
	}
}

func (o *oracle) named(id, model string) {
	if o.state.ResponseID == "" {
		o.state.ResponseID = id
	}
	if o.state.Model == "" {
		o.state.Model = model
	}
}

// counted reads the token counts that are present.
func counted(v any, to map[*int][]string) {
	for field, keys := range to {
		if n, ok := path(v, keys...).(float64); ok {
			*field = int(n)
		}
	}
}

func (o *oracle) chat(ev map[string]any) {
	if ev == nil {
		o.state.Terminal = true
		if o.state.Complete {
			o.state.Phase = semconv.PhaseStreamEnd
		}
		return
	}
	o.named(text(ev, "id"), text(ev, "model"))
	u := &o.state.Usage
	counted(ev["usage"], map[*int][]string{
		&u.Input: {"prompt_tokens"}, &u.Output: {"completion_tokens"},
		&u.CacheRead: {"prompt_tokens_details", "cached_tokens"}, &u.Reasoning: {"completion_tokens_details", "reasoning_tokens"},
	})
	for _, ch := range list(ev, "choices") {
		o.chatChoice(ch)
	}
	if len(list(ev, "choices")) == 0 {
		return
	}
	complete := true
	for _, finished := range o.choices {
		complete = complete && finished
	}
	if o.state.Complete = complete; complete {
		o.state.Phase = semconv.PhaseStreamEnd
		if o.state.ToolCalls > 0 {
			o.state.Phase = semconv.PhaseToolCallReady
		}
	}
}

func (o *oracle) chatChoice(ch any) {
	index := number(ch, "index")
	if _, ok := o.choices[index]; !ok {
		o.choices[index] = false
	}
	said := text(ch, "delta", "content") != ""
	thought := text(ch, "delta", "reasoning_content") != ""
	for _, part := range list(ch, "delta", "content") { // Mistral
		said = said || text(part, "text") != ""
		for _, thinking := range list(part, "thinking") {
			thought = thought || text(thinking, "text") != ""
		}
	}
	if thought {
		o.state.ReasoningChunks++
		o.said(semconv.PhaseReasoning)
	}
	if said {
		o.state.TextChunks++
		o.said(semconv.PhaseText)
	}
	for i, call := range list(ch, "delta", "tool_calls") {
		if n, ok := path(call, "index").(float64); ok {
			i = int(n)
		}
		key := itoa(int(index)) + "/" + itoa(i)
		if _, ok := o.keys[key]; !ok {
			o.begin(key, text(call, "id"), text(call, "function", "name"))
			o.owner[key] = index
		}
		o.input(key, text(call, "function", "arguments"))
	}
	if reason := text(ch, "finish_reason"); reason != "" {
		o.choices[index] = true
		o.state.FinishReasons = append(o.state.FinishReasons, reason)
		for key, choice := range o.owner {
			if choice == index {
				o.complete(key)
				o.hand(key)
			}
		}
	}
}

func (o *oracle) responses(ev map[string]any) {
	typ := text(ev, "type")
	index := itoa(int(number(ev, "output_index")))
	itemType := text(ev, "item", "type")
	switch {
	case typ == "response.output_text.delta":
		o.state.TextChunks++
		o.said(semconv.PhaseText)
	case strings.HasPrefix(typ, "response.reasoning") && strings.HasSuffix(typ, "_text.delta"):
		o.state.ReasoningChunks++
		o.said(semconv.PhaseReasoning)
	case typ == "response.output_item.added":
		o.complete(o.last)
		o.responsesItem(index, itemType, ev["item"])
	case typ == "response.output_item.done":
		o.complete(index)
		o.hand(index)
		if i, ok := o.keys[index]; ok {
			o.state.Calls[i].ID = text(ev, "item", "call_id")
		}
	case typ == "response.function_call_arguments.done", typ == "response.custom_tool_call_input.done",
		typ == "response.apply_patch_call_operation_diff.done", typ == "response.shell_call_command.done":
		o.complete(index)
	case strings.HasSuffix(typ, ".delta"):
		if strings.HasPrefix(typ, "response.function_call") {
			o.input(index, text(ev, "delta"))
		} else {
			o.input(index, "") // of any form
		}
	case typ == "error":
		o.state.Err = &Error{Type: text(ev, "error", "type"), Code: text(ev, "error", "code")}
		o.state.Terminal = true
	case typ == "response.created":
		o.named(text(ev, "response", "id"), text(ev, "response", "model"))
	case typ == "response.completed":
		o.state.Complete, o.state.Terminal = true, true
		o.state.Phase = semconv.PhaseStreamEnd
		o.state.FinishReasons = []string{"stop"}
		for _, item := range list(ev, "response", "output") {
			if text(item, "type") == "mcp_approval_request" {
				o.state.FinishReasons = []string{"approval_required"}
			}
		}
		if len(o.keys) > 0 {
			o.state.FinishReasons = []string{"tool_calls"}
		}
		u := &o.state.Usage
		counted(path(ev, "response", "usage"), map[*int][]string{
			&u.Input: {"input_tokens"}, &u.Output: {"output_tokens"},
			&u.CacheRead: {"input_tokens_details", "cached_tokens"}, &u.Reasoning: {"output_tokens_details", "reasoning_tokens"},
		})
	}
}

func (o *oracle) responsesItem(index, itemType string, item any) {
	client := map[string]string{
		"function_call": text(item, "name"), "custom_tool_call": text(item, "name"),
		"local_shell_call": "local_shell", "apply_patch_call": "apply_patch",
	}
	if text(item, "execution") == "client" {
		client["tool_search_call"] = "tool_search"
	}
	if !strings.Contains(text(item, "environment", "type"), "container") {
		client["shell_call"] = "shell"
	}
	name, isClient := client[itemType]
	switch {
	case itemType == "reasoning":
		o.state.Phase = semconv.PhaseReasoning
	case isClient:
		o.begin(index, text(item, "call_id"), name)
		if b, _ := json.Marshal([]any{path(item, "action"), path(item, "operation")}); !strings.Contains(string(b), `"command":[]`) && (strings.Contains(string(b), `:"`) || strings.Contains(string(b), `["`)) {
			o.complete(index)
		}
	case strings.HasSuffix(itemType, "_call"), itemType == "mcp_list_tools", itemType == "program":
		o.providerTool(strings.TrimSuffix(itemType, "_call"))
	}
}

func (o *oracle) messages(ev map[string]any) {
	index := itoa(int(number(ev, "index")))
	switch typ := text(ev, "type"); typ {
	case "message_start":
		if id := text(ev, "message", "id"); len(o.blocks) > 0 && id != o.message {
			o.another()
		}
		o.message = text(ev, "message", "id")
		o.named(text(ev, "message", "id"), text(ev, "message", "model"))
		o.messagesUsage(path(ev, "message", "usage"))
		if text(ev, "message", "stop_reason") == "" { // the output count is a placeholder
			delete(o.usage, "output_tokens")
			o.state.Usage.Output = -1
		}
		for i, block := range list(ev, "message", "content") {
			o.begin("start"+itoa(i), text(block, "id"), text(block, "name")) // the recordings have only tools here
			o.complete("start" + itoa(i))
		}
		o.messagesStop(text(ev, "message", "stop_reason"))
	case "content_block_start":
		o.blocks[index] = true
		o.messagesBlock(index, ev["content_block"])
	case "content_block_delta":
		switch text(ev, "delta", "type") {
		case "compaction_delta":
			o.state.ReasoningChunks++
			o.said(semconv.PhaseReasoning)
		case "text_delta":
			if text(ev, "delta", "text") != "" {
				o.state.TextChunks++
				o.said(semconv.PhaseText)
			}
		case "thinking_delta":
			o.state.Phase = semconv.PhaseReasoning
			if text(ev, "delta", "thinking") != "" {
				o.state.ReasoningChunks++
			}
		case "input_json_delta":
			o.input(index, text(ev, "delta", "partial_json"))
		}
	case "content_block_stop":
		o.complete(index)
	case "message_delta":
		o.messagesUsage(ev["usage"])
		o.messagesStop(text(ev, "delta", "stop_reason"))
	case "message_stop":
		o.state.Complete, o.state.Terminal = true, true
		o.state.Phase = semconv.PhaseStreamEnd
		for key := range o.keys {
			o.hand(key)
		}
	}
}

// another records that another message begins within one that has blocks.
func (o *oracle) another() {
	for index := range o.blocks {
		o.complete(index)
		if i, ok := o.keys[index]; ok {
			if input := o.inputs[index]; input != "" && !json.Valid([]byte(input)) {
				o.state.ToolInputsInvalid++
			}
			o.keys["before "+index] = i
			delete(o.keys, index)
		}
	}
	o.last = ""
	o.state.Broken, o.state.Spliced, o.state.Violation = true, true, semconv.TransportCauseMalformedEvent
}

func (o *oracle) messagesStop(reason string) {
	if reason != "" {
		o.state.FinishReasons = []string{reason}
	}
}

func (o *oracle) messagesBlock(index string, block any) {
	o.complete(o.last)
	delete(o.keys, index)
	switch typ := text(block, "type"); {
	case typ == "tool_use":
		o.begin(index, text(block, "id"), text(block, "name"))
		if input, _ := path(block, "input").(map[string]any); len(input) > 0 {
			o.complete(index)
		}
	case typ == "thinking", typ == "compaction":
		o.state.Phase = semconv.PhaseReasoning
	case typ == "mcp_tool_use":
		o.providerTool("mcp")
	case typ == "server_tool_use":
		name, _, _ := strings.Cut(text(block, "name"), "_tool_")
		o.providerTool(name)
	}
}

// providerTool counts a tool that the provider executes.
func (o *oracle) providerTool(typ string) {
	o.state.ProviderToolsStarted++
	if !slices.Contains(o.state.ProviderTools, typ) {
		o.state.ProviderTools = append(o.state.ProviderTools, typ)
	}
}

func (o *oracle) messagesUsage(usage any) {
	for _, key := range []string{"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"} {
		if n, ok := path(usage, key).(float64); ok {
			o.usage[key] = n
		}
	}
	u := &o.state.Usage
	counted(map[string]any{
		"in": o.usage["input_tokens"] + o.usage["cache_read_input_tokens"] + o.usage["cache_creation_input_tokens"],
	}, map[*int][]string{&u.Input: {"in"}})
	for field, key := range map[*int]string{&u.Output: "output_tokens", &u.CacheRead: "cache_read_input_tokens", &u.CacheCreation: "cache_creation_input_tokens"} {
		if n, ok := o.usage[key]; ok {
			*field = int(n)
		}
	}
}
