package faultyllm

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// vertexRenderer writes the same as geminiRenderer, except that function calls come in
// pieces, as Vertex AI streams them to a request with streamFunctionCallArguments: the
// name, then argument by argument, then an empty piece. They have no ids.
// https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling
type vertexRenderer struct {
	geminiRenderer
	open bool // a call is open
}

func (r *vertexRenderer) step(b *builder, s Step) {
	switch s.kind {
	case stepToolInput:
		r.end(b)
		r.open = true
		arguments := strings.Join(s.chunks, "")
		r.said.calls = append(r.said.calls, call{arguments: arguments})
		r.piece(b, `"name":`+q(s.name)+`,"willContinue":true`, Sent{ToolInputsStarted: 1})
		for _, a := range partialArguments(arguments) {
			r.piece(b, `"partialArgs":[`+a+`],"willContinue":true`, Sent{})
		}
	case stepToolInputDone:
		r.end(b)
	case stepFinishReason:
		r.end(b)
		r.geminiRenderer.step(b, s)
	default:
		r.geminiRenderer.step(b, s)
	}
}

// end writes the end of the open call.
func (r *vertexRenderer) end(b *builder) {
	if r.open {
		r.piece(b, "", Sent{ToolInputsCompleted: 1})
	}
	r.open = false
}

func (r *vertexRenderer) piece(b *builder, members string, sent Sent) {
	r.chunk(b, `{"functionCall":{`+members+`}}`, "", sent)
}

// partialArguments returns the arguments as Vertex AI streams them, each value with its
// path. For text that breaks off it returns the arguments before the break.
func partialArguments(text string) []string {
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	var all []string
	for d.More() {
		key, err := d.Token()
		if err != nil {
			break
		}
		var value any
		if d.Decode(&value) != nil {
			break
		}
		all = appendArgument(all, fmt.Sprint("$.", key), value)
	}
	return all
}

func appendArgument(to []string, path string, value any) []string {
	at := `{"jsonPath":` + q(path)
	switch v := value.(type) {
	case string: // text may continue, until it is empty
		return append(to, at+`,"stringValue":`+q(v)+`,"willContinue":true}`, at+`,"stringValue":""}`)
	case float64:
		return append(to, fmt.Sprintf(`%s,"numberValue":%v}`, at, v))
	case bool:
		return append(to, fmt.Sprintf(`%s,"boolValue":%t}`, at, v))
	case []any:
		for i, element := range v {
			to = appendArgument(to, fmt.Sprintf("%s[%d]", path, i), element)
		}
		return to
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			to = appendArgument(to, path+"."+key, v[key])
		}
		return to
	default:
		return append(to, at+`,"nullValue":"NULL_VALUE"}`)
	}
}
