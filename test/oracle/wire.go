package main

import "encoding/json"

// wire is a wire protocol.
type wire int

const (
	chatWire wire = iota
	responsesWire
	anthropicWire
	geminiWire
	ollamaWire
	bedrockWire
	wires
)

func (w wire) String() string {
	return [...]string{"openai_chat", "openai_responses", "anthropic_messages", "gemini", "ollama", "bedrock_converse"}[w]
}

func (w wire) contentType() string {
	switch w {
	case ollamaWire:
		return "application/x-ndjson"
	case bedrockWire:
		return "application/vnd.amazon.eventstream"
	default:
		return "text/event-stream"
	}
}

// event is one event of a stream before framing.
type event struct {
	name string // used by Responses, Anthropic and Bedrock
	data string
	// exception: in Bedrock's framing this is an exception, not an event.
	exception bool
}

// meaning reports whether an event is, or may be, the end of the protocol, and whether
// it reports an error.
func (w wire) meaning(e event) (final, failed bool) {
	if w == bedrockWire { // the framing names the events
		return e.name == "messageStop", e.exception
	}
	var said struct {
		Type    string
		Error   json.RawMessage
		Done    bool
		Choices []struct {
			FinishReason *string `json:"finish_reason"`
		}
		Candidates []struct {
			FinishReason string
		}
		PromptFeedback struct{ BlockReason string }
		Delta, Message json.RawMessage // of Anthropic's events objects
	}
	if json.Unmarshal([]byte(e.data), &said) != nil {
		return false, false // [DONE], and events that are invalid JSON on purpose
	}
	failed = said.Type == "error" || said.Type == "response.failed" || len(said.Error) > 0 && string(said.Error) != "null"
	switch w {
	case chatWire:
		for _, choice := range said.Choices {
			final = final || choice.FinishReason != nil && *choice.FinishReason != ""
			failed = failed || choice.FinishReason != nil && *choice.FinishReason == "error"
		}
	case responsesWire:
		final = said.Type == "response.completed" || said.Type == "response.incomplete"
	case anthropicWire:
		var delta, message struct {
			StopReason string `json:"stop_reason"`
		}
		_ = json.Unmarshal(said.Delta, &delta)
		_ = json.Unmarshal(said.Message, &message)
		// Some servers send no message_stop. Where a program that the provider executes calls
		// the application's tools, message_start has all of the answer.
		final = said.Type == "message_stop" || delta.StopReason != "" || message.StopReason != ""
	case geminiWire:
		final = said.PromptFeedback.BlockReason != ""
		for _, candidate := range said.Candidates {
			final = final || candidate.FinishReason != ""
		}
	case ollamaWire:
		final = said.Done
	}
	return final, failed
}
