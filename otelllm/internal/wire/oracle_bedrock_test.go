package wire

import "github.com/otelllm/otelllm-go/semconv"

func (o *oracle) converse(ev map[string]any) {
	for name, payload := range ev { // one
		index := itoa(int(number(payload, "contentBlockIndex")))
		switch name {
		case "contentBlockStart":
			if id := text(payload, "start", "toolUse", "toolUseId"); id != "" {
				o.begin(index, id, text(payload, "start", "toolUse", "name"))
			}
		case "contentBlockDelta":
			if text(payload, "delta", "text") != "" {
				o.state.TextChunks++
				o.said(semconv.PhaseText)
			}
			if path(payload, "delta", "reasoningContent") != nil {
				o.said(semconv.PhaseReasoning)
				if text(payload, "delta", "reasoningContent", "text") != "" {
					o.state.ReasoningChunks++
				}
			}
			if path(payload, "delta", "toolUse") != nil {
				o.input(index, text(payload, "delta", "toolUse", "input"))
			}
		case "contentBlockStop":
			o.complete(index)
		case "messageStop":
			o.state.Complete, o.state.Terminal = true, true
			o.state.Phase = semconv.PhaseStreamEnd
			o.state.FinishReasons = []string{text(payload, "stopReason")}
			for key := range o.keys {
				o.hand(key)
			}
		case "metadata":
			u := &o.state.Usage
			usage := path(payload, "usage")
			counted(map[string]any{
				"in": number(usage, "inputTokens") + number(usage, "cacheReadInputTokens") + number(usage, "cacheWriteInputTokens"),
			}, map[*int][]string{&u.Input: {"in"}})
			counted(usage, map[*int][]string{&u.Output: {"outputTokens"}, &u.CacheRead: {"cacheReadInputTokens"}, &u.CacheCreation: {"cacheWriteInputTokens"}})
		}
	}
}
