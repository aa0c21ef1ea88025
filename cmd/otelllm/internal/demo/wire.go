package demo

import (
	"encoding/json"
	"fmt"
)

// The events of an answer of OpenAI's Chat Completions, without their framing.

// done ends every answer that is complete.
const done = "[DONE]"

// overloaded is the error event of a provider that can no longer answer.
const overloaded = `{"error":{"message":"The server is overloaded.","type":"service_unavailable_error","param":null,"code":"server_is_overloaded"}}`

func begins() string { return chunk(`{"role":"assistant"}`, "") }

func ends(reason string) string { return chunk(`{}`, reason) }

func callBegins(id, tool string) string {
	return chunk(fmt.Sprintf(`{"tool_calls":[{"index":0,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`, id, tool), "")
}

func callGoesOn(arguments string) string {
	return chunk(fmt.Sprintf(`{"tool_calls":[{"index":0,"function":{"arguments":%q}}]}`, arguments), "")
}

func chunk(delta, reason string) string {
	finish := "null"
	if reason != "" {
		finish = fmt.Sprintf("%q", reason)
	}
	return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000000,"model":%q,"choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`,
		model, delta, finish)
}

// message is one entry of a conversation.
type message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// request is what the agent asks.
func request(messages []message) ([]byte, error) {
	return json.Marshal(map[string]any{"model": model, "stream": true, "messages": messages})
}

// add adds the delta of an event.
func (m *message) add(data []byte) error {
	var event struct {
		Choices []struct{ Delta message }
	}
	if err := json.Unmarshal(data, &event); err != nil {
		return fmt.Errorf("read an event: %w", err)
	}
	for _, c := range event.Choices {
		m.Content += c.Delta.Content
		for _, part := range c.Delta.ToolCalls {
			if part.ID != "" {
				m.ToolCalls = append(m.ToolCalls, part)
			} else if n := len(m.ToolCalls); n > 0 {
				m.ToolCalls[n-1].Function.Arguments += part.Function.Arguments
			}
		}
	}
	return nil
}
