package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// transcriptFacts is what a transcript has to contain, computed from the decoded body in
// a straightforward way: texts instead of hashes, and one function for each protocol.
type transcriptFacts struct {
	total, answered TranscriptCount
	calls           []factCall
	outputs         []factOutput
	points          []factPoint
	opening         []string
	tools           []string
	client          []string
	previous        string
	forced          bool

	answering bool
}

type factCall struct{ id, input string }

type factOutput struct {
	id     string
	result TranscriptResult
}

type factPoint struct {
	history string
	before  TranscriptCount
}

// canonical JSON has the members of each object in order, and no cache_control.
func canonicalJSON(v any) string {
	var strip func(v any) any
	strip = func(v any) any {
		switch v := v.(type) {
		case object:
			out := object{}
			for k, e := range v {
				if k != "cache_control" {
					out[k] = strip(e)
				}
			}
			return out
		case []any:
			out := make([]any, len(v))
			for i, e := range v {
				out[i] = strip(e)
			}
			return out
		default:
			return v
		}
	}
	b, err := json.Marshal(strip(v))
	if err != nil {
		panic(err)
	}
	return string(b)
}

// partKey is the meaning of a part; "" if it is nothing but a mark.
func partKey(v any) string {
	o, ok := v.(object)
	if !ok {
		return canonicalJSON(v)
	}
	o = maps.Clone(o)
	delete(o, "cache_control")
	if _, mark := o["cachePoint"]; mark {
		delete(o, "cachePoint")
		if len(o) == 0 {
			return ""
		}
	}
	text, isText := o["text"].(string)
	typ, _ := o["type"].(string)
	if isText && (len(o) == 1 || len(o) == 2 && slices.Contains([]string{"text", "input_text", "output_text"}, typ)) {
		return canonicalJSON(text)
	}
	for _, nested := range []string{"content", "output"} {
		if r, ok := o[nested]; ok {
			o[nested] = resultKey(r)
		}
	}
	for _, nested := range []string{"toolResult", "functionResponse"} {
		if r, ok := o[nested].(object); ok {
			r = maps.Clone(r)
			if c, ok := r["content"]; ok {
				r["content"] = resultKey(c)
			}
			o[nested] = r
		}
	}
	return "part " + canonicalJSON(o)
}

// resultKey is the meaning of what a tool returned.
func resultKey(v any) []string {
	keys := []string{}
	for _, p := range listOf(v) {
		keys = append(keys, partKey(p))
	}
	return keys
}

// listOf returns a list, or a list of the one value.
func listOf(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	default:
		return []any{v}
	}
}

// firstText returns the first text of what a tool returned.
func firstText(v any) string {
	for _, p := range listOf(v) {
		switch p := p.(type) {
		case string:
			return p
		case object:
			for _, name := range []string{"text", "output"} {
				if s, ok := p[name].(string); ok {
					return s
				}
			}
		}
	}
	return ""
}

// filled reports whether a part is more than an empty text or a mark.
func filled(parts []any) bool {
	return slices.ContainsFunc(parts, func(p any) bool { k := partKey(p); return k != "" && k != `""` })
}

func resultOf(failed bool, text string) TranscriptResult {
	switch {
	case text == "aborted", strings.HasPrefix(text, "aborted by user"), strings.HasPrefix(text, "[Request interrupted by user"),
		strings.HasPrefix(text, "Tool execution aborted"), strings.HasPrefix(text, "[Tool execution was interrupted"):
		return ResultInterrupted
	case failed:
		return ResultFailed
	default:
		return ResultUnknown
	}
}

func str(v any) string { s, _ := v.(string); return s }

func (f *transcriptFacts) call(id, name, input any) {
	f.calls = append(f.calls, factCall{str(id), canonicalJSON([]any{name, input})})
	f.total.Calls++
}

func (f *transcriptFacts) output(id any, result TranscriptResult) {
	f.outputs = append(f.outputs, factOutput{str(id), result})
	f.total.Outputs++
}

// turn counts a message after its calls and outputs.
func (f *transcriptFacts) turn(answer, user bool) {
	if answer && !f.answering {
		f.total.Answers++
	}
	if user {
		f.total.Users++
	}
	if f.answering = answer; answer {
		f.answered = f.total
	}
}

func (f *transcriptFacts) chat(m object) {
	calls, _ := m["tool_calls"].([]any)
	for _, c := range calls {
		c := c.(object)
		fn, _ := c["function"].(object)
		if fn == nil {
			fn, _ = c["custom"].(object)
		}
		input := fn["arguments"]
		if input == nil {
			input = fn["input"]
		}
		f.call(c["id"], fn["name"], input)
	}
	if fn, ok := m["function_call"].(object); ok {
		f.call(nil, fn["name"], fn["arguments"])
	}
	role := str(m["role"])
	if role == "tool" || role == "function" {
		f.output(m["tool_call_id"], resultOf(m["status"] == "error", firstText(m["content"])))
	}
	f.turn(role == "assistant", role == "user" && filled(listOf(m["content"])))
}

func (f *transcriptFacts) responses(m object) {
	switch typ := str(m["type"]); typ {
	case "function_call":
		f.call(m["call_id"], m["name"], m["arguments"])
		f.turn(true, false)
	case "custom_tool_call":
		f.call(m["call_id"], m["name"], m["input"])
		f.turn(true, false)
	case "local_shell_call", "computer_call":
		f.call(m["call_id"], nil, m["action"])
		f.turn(true, false)
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output", "computer_call_output":
		id := m["call_id"]
		if id == nil {
			id = m["id"]
		}
		f.output(id, resultOf(false, firstText(m["output"])))
		f.turn(false, false)
	case "reasoning", "web_search_call":
		f.turn(true, false)
	default:
		f.turn(m["role"] == "assistant", m["role"] == "user" && filled(listOf(m["content"])))
	}
}

func (f *transcriptFacts) messages(m object) {
	parts := listOf(m["content"])
	outputs := 0
	for _, p := range parts {
		p, _ := p.(object)
		switch p["type"] {
		case "tool_use":
			f.call(p["id"], p["name"], p["input"])
		case "tool_result":
			f.output(p["tool_use_id"], resultOf(p["is_error"] == true, firstText(p["content"])))
			outputs++
		}
	}
	f.turn(m["role"] == "assistant", m["role"] == "user" && outputs == 0 && filled(parts))
}

func (f *transcriptFacts) gemini(m object) {
	parts := listOf(m["parts"])
	outputs := 0
	for _, p := range parts {
		p := p.(object)
		if c, ok := p["functionCall"].(object); ok {
			f.call(c["id"], c["name"], c["args"])
		}
		if r, ok := p["functionResponse"].(object); ok {
			response, _ := r["response"].(object)
			f.output(r["id"], resultOf(response["error"] != nil, firstText(response)))
			outputs++
		}
	}
	f.turn(m["role"] == "model", m["role"] != "model" && outputs == 0 && filled(parts))
}

func (f *transcriptFacts) bedrock(m object) {
	parts := listOf(m["content"])
	outputs := 0
	for _, p := range parts {
		p, _ := p.(object) // or a string, as nothing sends it
		if c, ok := p["toolUse"].(object); ok {
			f.call(c["toolUseId"], c["name"], c["input"])
		}
		if r, ok := p["toolResult"].(object); ok {
			f.output(r["toolUseId"], resultOf(r["status"] == "error", firstText(r["content"])))
			outputs++
		}
	}
	f.turn(m["role"] == "assistant", m["role"] == "user" && outputs == 0 && filled(parts))
}

// factsOf reads a body of a protocol.
func factsOf(tb testing.TB, protocol string, body []byte) *transcriptFacts {
	tb.Helper()
	var b object
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	require.NoError(tb, dec.Decode(&b))
	f := &transcriptFacts{}
	if inner, ok := b["request"].(object); ok {
		b = inner
		if s := str(b["session_id"]); s != "" {
			f.client = append(f.client, s)
		}
	}
	messages, content, count := "messages", "content", f.chat
	switch protocol {
	case "responses":
		messages, count = "input", f.responses
	case "messages":
		count = f.messages
	case "bedrock":
		count = f.bedrock
	case "gemini":
		messages, content, count = "contents", "parts", f.gemini
	}
	history := ""
	list := listOf(b[messages])
	leading := true
	for i, v := range list {
		m, ok := v.(object)
		if !ok {
			m = object{"role": "user", content: v} // a string
		}
		count(m)
		head := object{}
		for k, e := range m {
			switch {
			case !ok, k == content, k == "cache_control":
			case k == "output":
				head[k] = resultKey(e)
			default:
				head[k] = e
			}
		}
		history += "\n" + canonicalJSON(head)
		var keys []string
		for _, p := range listOf(m[content]) {
			if k := partKey(p); k != "" && !strings.HasPrefix(k, `"x-anthropic-billing-header`) {
				keys = append(keys, k)
			}
		}
		for n := max(1, len(keys)-7); i == len(list)-1 && n < len(keys); n++ {
			f.points = append(f.points, factPoint{history + strings.Join(keys[:n], ""), f.total})
		}
		history += strings.Join(keys, "")
		if leading = leading && (m["role"] == "system" || m["role"] == "developer"); leading {
			f.opening = append(f.opening, history)
		}
		f.points = append(f.points, factPoint{history, f.total})
	}
	f.readRest(b)
	if f.previous != "" && len(f.points) == 0 {
		f.points = []factPoint{{}}
	}
	opening := strings.Join(f.opening, "\n")
	for i := range f.points {
		f.points[i].history = opening + "\n\n" + f.points[i].history
	}
	return f
}

// readRest reads the members beside the messages.
func (f *transcriptFacts) readRest(b object) {
	for _, name := range []string{"system", "systemInstruction", "instructions"} {
		v := b[name]
		key := name
		if o, ok := v.(object); ok && o["parts"] != nil {
			o = maps.Clone(o)
			v = o["parts"]
			delete(o, "parts")
			key += canonicalJSON(o)
		}
		keys := []string{key}
		for _, p := range listOf(v) {
			if k := partKey(p); !strings.HasPrefix(k, `"x-anthropic-billing-header`) {
				keys = append(keys, k)
			}
		}
		if key != name || len(keys) > 1 {
			f.opening = append(f.opening, strings.Join(keys, ""))
		}
	}
	if f.previous = str(b["previous_response_id"]); f.previous != "" {
		f.opening = append(f.opening, "previous "+f.previous)
	}
	if v := b["cachedContent"]; v != nil {
		f.opening = append(f.opening, "cached "+str(v))
	}
	metadata, _ := b["metadata"].(object)
	conversation := str(b["conversation"])
	if o, ok := b["conversation"].(object); ok {
		conversation = str(o["id"])
	}
	for _, id := range []string{str(b["prompt_cache_key"]), str(metadata["user_id"]), conversation} {
		if id != "" {
			f.client = append(f.client, id)
		}
	}
	slices.Sort(f.client)
	config, _ := b["toolConfig"].(object)
	for _, tools := range []any{b["tools"], config["tools"]} {
		if len(listOf(tools)) > 0 {
			f.tools = append(f.tools, canonicalJSON(tools))
		}
	}
	choice, _ := b["tool_choice"].(object)
	f.forced = choice["name"] != nil || choice["function"] != nil || choice["custom"] != nil
	if c, ok := config["toolChoice"].(object); ok {
		f.forced = c["tool"] != nil
	}
	if c, ok := config["functionCallingConfig"].(object); ok {
		f.forced = len(listOf(c["allowedFunctionNames"])) > 0
	}
}

// hashed checks that equal texts have equal hashes and different texts different ones.
type hashed struct {
	hash map[string]uint64
	text map[string]string // by kind and hash
}

func newHashed() *hashed { return &hashed{map[string]uint64{}, map[string]string{}} }

func (h *hashed) check(tb testing.TB, kind, text string, hash uint64) {
	tb.Helper()
	text = kind + ": " + text
	back := fmt.Sprint(kind, hash)
	if was, ok := h.hash[text]; ok {
		require.Equal(tb, was, hash, "the same %s", text)
	}
	if was, ok := h.text[back]; ok {
		require.Equal(tb, was, text, "the same hash")
	}
	h.hash[text], h.text[back] = hash, text
}

// stemOf returns the hash of the stem of an id; 0 if it has none but itself.
func stemOf(id string) uint64 {
	if stem := idStem(SafeID(id)); stem != SafeID(id) {
		return TranscriptID(stem)
	}
	return 0
}

// checkTranscript compares a transcript with the facts.
func checkTranscript(tb testing.TB, h *hashed, protocol string, body []byte) *Transcript {
	tb.Helper()
	f := factsOf(tb, protocol, body)
	var tr Transcript
	require.Equal(tb, len(f.points) > 0, tr.Read(body) && tr.nPoints > 0, "%s", body)
	require.Equal(tb, f.total, tr.Total, "%s", body)
	require.Equal(tb, f.answered, tr.Answered, "%s", body)
	assert.Equal(tb, f.forced, tr.Forced, "%s", body)
	assert.Equal(tb, TranscriptID(SafeID(f.previous)), tr.Previous)
	for i, c := range f.calls {
		got, ok := tr.Call(i)
		if require.Equal(tb, i >= len(f.calls)-MaxIDs, ok); ok {
			require.Equal(tb, TranscriptID(SafeID(c.id)), got.ID, "%s", body)
			require.Equal(tb, stemOf(c.id), got.Stem, "%s", body)
			h.check(tb, "call", c.input, got.Input)
		}
	}
	for i, o := range f.outputs {
		got, ok := tr.Output(i)
		if require.Equal(tb, i >= len(f.outputs)-MaxIDs, ok); ok {
			require.Equal(tb, TranscriptOutput{ID: TranscriptID(SafeID(o.id)), Stem: stemOf(o.id), Result: o.result}, got, "output %d of %s", i, body)
		}
	}
	for n := range len(f.points) + 1 {
		got, ok := tr.Point(n)
		if require.Equal(tb, n < min(len(f.points), MaxIDs), ok, "point %d of %d: %s", n, len(f.points), body); ok {
			want := f.points[len(f.points)-1-n]
			require.Equal(tb, want.before, got.Before, "point %d of %s", n, body)
			h.check(tb, "history", protocol+want.history, got.History)
		}
	}
	opening := fmt.Sprintf("%s %q", protocol, f.opening)
	if f.opening == nil {
		opening = "" // the same for all
	}
	h.check(tb, "opening", opening, tr.Opening)
	h.check(tb, "tools", strings.Join(f.tools, ""), tr.Tools)
	h.check(tb, "client", strings.Join(f.client, " "), tr.Client)
	return &tr
}
