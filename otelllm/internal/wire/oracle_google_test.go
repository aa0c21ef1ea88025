package wire

import "github.com/otelllm/otelllm-go/semconv"

func (o *oracle) gemini(ev map[string]any) {
	o.named(text(ev, "responseId"), text(ev, "modelVersion"))
	o.geminiUsage(path(ev, "usageMetadata"))
	for _, candidate := range list(ev, "candidates") {
		o.geminiCandidate(candidate)
	}
	complete := len(o.choices) > 0
	for _, finished := range o.choices {
		complete = complete && finished
	}
	if reason := text(ev, "promptFeedback", "blockReason"); reason != "" {
		o.state.FinishReasons = append(o.state.FinishReasons, reason)
		complete = true
	}
	if o.state.Complete = complete; complete {
		o.state.Phase = semconv.PhaseStreamEnd
		if o.state.ToolCalls > 0 {
			o.state.Phase = semconv.PhaseToolCallReady
		}
	}
}

func (o *oracle) geminiUsage(usage any) {
	u := &o.state.Usage
	if n, ok := path(usage, "promptTokenCount").(float64); ok {
		u.Input = int(n + number(usage, "toolUsePromptTokenCount"))
	}
	_, said := path(usage, "candidatesTokenCount").(float64)
	if _, thought := path(usage, "thoughtsTokenCount").(float64); said || thought {
		u.Output = int(number(usage, "candidatesTokenCount") + number(usage, "thoughtsTokenCount"))
	}
	counted(usage, map[*int][]string{&u.Reasoning: {"thoughtsTokenCount"}, &u.CacheRead: {"cachedContentTokenCount"}})
}

func (o *oracle) geminiCandidate(candidate any) {
	index := number(candidate, "index")
	open := "open" + itoa(int(index))
	if !o.choices[index] {
		o.choices[index] = false // it was received
	}
	for _, part := range list(candidate, "content", "parts") {
		if path(part, "executableCode") != nil {
			o.providerTool("code_execution")
		}
		if text(part, "text") != "" {
			if path(part, "thought") == true {
				o.state.ReasoningChunks++
				o.state.Phase = semconv.PhaseReasoning
			} else {
				o.state.TextChunks++
				o.state.Phase = semconv.PhaseText
			}
		}
		made, ok := path(part, "functionCall").(map[string]any)
		if !ok {
			continue
		}
		if name := text(made, "name"); name != "" {
			o.begin(open, text(made, "id"), name)
		}
		o.state.Phase = semconv.PhaseToolInput
		if made["willContinue"] != true {
			o.complete(open)
			o.hand(open)
			delete(o.keys, open)
		}
	}
	if reason := text(candidate, "finishReason"); reason != "" {
		o.choices[index] = true
		o.state.FinishReasons = append(o.state.FinishReasons, reason)
		o.complete(open)
		o.hand(open)
	}
}
