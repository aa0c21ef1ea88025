package wire

import "github.com/otelllm/otelllm-go/semconv"

func (o *oracle) ollama(ev map[string]any) {
	o.named("", text(ev, "model"))
	if text(ev, "thinking")+text(ev, "message", "thinking") != "" {
		o.state.ReasoningChunks++
		o.state.Phase = semconv.PhaseReasoning
	}
	if text(ev, "response")+text(ev, "message", "content") != "" {
		o.state.TextChunks++
		o.state.Phase = semconv.PhaseText
	}
	for _, made := range list(ev, "message", "tool_calls") {
		o.begin("last", text(made, "id"), text(made, "function", "name"))
		o.complete("last")
		o.hand("last")
	}
	if ev["done"] == true {
		o.state.Complete, o.state.Terminal = true, true
		o.state.Phase = semconv.PhaseStreamEnd
		o.state.FinishReasons = []string{text(ev, "done_reason")}
		u := &o.state.Usage
		counted(ev, map[*int][]string{&u.Input: {"prompt_eval_count"}, &u.Output: {"eval_count"}})
	}
}
