package dialect

import (
	"encoding/json"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// maxEmpty bounds the JSON of an answer that may be empty, in bytes.
const maxEmpty = 4 << 10

// messagesContent reports whether the messages of an answer have any content, by
// gen_ai.output.messages: a list of messages with parts, structured or as JSON. What is
// long or of an unknown form counts as content; what cannot be read is not observed.
func messagesContent(v pcommon.Value) classify.Fact {
	var messages []struct {
		Parts *[]struct {
			Type    string  `json:"type"`
			Content *string `json:"content"`
		} `json:"parts"`
	}
	text := v.Str()
	if v.Type() == pcommon.ValueTypeSlice {
		if v.Slice().Len() > classify.MaxIDs {
			return classify.Yes
		}
		text = v.AsString()
	}
	switch {
	case text == "":
		return classify.NotObserved
	case len(text) > maxEmpty:
		return classify.Yes
	case json.Unmarshal([]byte(text), &messages) != nil || len(messages) == 0:
		return classify.NotObserved
	}
	for _, m := range messages {
		if m.Parts == nil {
			return classify.NotObserved
		}
		for _, p := range *m.Parts {
			if p.Type != "text" && p.Type != "reasoning" || p.Content == nil || *p.Content != "" {
				return classify.Yes
			}
		}
	}
	return classify.No
}
