package wire

import (
	"cmp"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// openAIChat is OpenAI Chat Completions and what speaks like it: Azure OpenAI,
// OpenRouter, vLLM, DeepSeek, Groq, Mistral, xAI.
type openAIChat struct {
	model string // the model in the path: a deployment of Azure's, Mistral on Vertex AI
	host  string // the gen_ai.provider.name that the path tells
}

func (openAIChat) Name() string                    { return "openai_chat" }
func (openAIChat) Operation() string               { return "chat" }
func (openAIChat) ReadError(_ int, b []byte) Error { return readError(b) }

var chatDecoders decoders[chatReader, *chatReader]

func (openAIChat) NewDecoder(ct string) Decoder { return chatDecoders.get(ct, 0) }

func (p openAIChat) Provider() string { return cmp.Or(p.host, "openai") }

func (p openAIChat) ReadRequest(b []byte) (Request, error) {
	req, messages, err := readChatRequest(b)
	req.fillModel(p.model)
	req.IsCall = messages && req.Model != ""
	return req, err
}

// chatAt reads …/chat/completions, which is Azure's where it names a deployment, and
// Mistral's models on Vertex AI.
func chatAt(path string) (p Protocol, sure bool) {
	if strings.HasSuffix(path, "/chat/completions") {
		if deployment := azureDeployment(path); deployment != "" {
			return openAIChat{model: deployment, host: providerAzure}, true
		}
		return openAIChat{}, true
	}
	if model, _, ok := publishedModel(path, "mistralai"); ok {
		return openAIChat{model: model, host: providerVertex}, true
	}
	return nil, false
}

// chatReader follows one Chat Completions response.
type chatReader struct {
	t          tally
	choices    openSet[int, chatChoice]
	unfinished int                     // choices
	open       openSet[chatCall, call] // calls whose choice has not finished
	executed   int                     // tools of the provider's that its answer lists
}

type chatChoice struct {
	refused  bool // its text is a refusal
	finished bool
}

// chatCall names a call by choice and index: only the first fragment has an id.
type chatCall struct{ choice, index int }

// legacyIndex is the index of the one call that function_call can make.
const legacyIndex = -1

func (r *chatReader) tally() *tally { return &r.t }

func (r *chatReader) reset() {
	*r = chatReader{choices: r.choices.cleared(), open: r.open.cleared()}
}

func (r *chatReader) event(name, data []byte) verdict {
	ch := chatChunk{usage: unknownUsage}
	if v := r.read(data, &ch); v != progress {
		return v
	}
	if string(name) == "error" && !ch.fault.seen {
		// The event's name says it; the object is flat.
		ch.fault, _ = faultOf(data)
		ch.fault.seen = true
	}
	return r.apply(&ch)
}

func (r *chatReader) add(d *contentDelta) {
	r.addContent(d)
	if d.input {
		r.fragment(d.index, &chatFragment{index: d.call})
	}
	r.updateComplete()
}

func (r *chatReader) document(data []byte) verdict {
	ch := chatChunk{usage: unknownUsage}
	if v := r.read(data, &ch); v != progress {
		return v
	}
	v := r.apply(&ch)
	if ch.deferred && ch.choices.n == 0 && !ch.fault.seen {
		// xAI's word that the answer will be had later, under this id.
		r.t.finishAs(finishDeferred)
		r.t.end()
	}
	return v
}

// done takes [DONE]. It proves nothing but that the server meant to stop here.
func (r *chatReader) done() {
	if r.t.Terminal {
		return
	}
	r.t.Terminal = true
	if r.t.Complete {
		r.t.Phase = semconv.PhaseStreamEnd
	}
}

// apply makes the chunk part of the state.
func (r *chatReader) apply(ch *chatChunk) verdict {
	if !r.t.Terminal {
		r.t.identify(ch.id, ch.model)
		r.t.use(ch.usage)
	}
	if d, ok := ch.content(); ok {
		return r.t.content(d)
	}
	if ch.choices.n > 0 {
		r.applyChoices(ch)
	}
	if ch.fault.seen {
		r.t.fail(&ch.fault)
	} else {
		r.t.Unread = r.t.Unread || ch.unread
	}
	return progress
}

func (r *chatReader) applyChoices(ch *chatChunk) {
	fragment := 0
	var failed []byte
	for i := range ch.choices.n {
		d := ch.choices.at(i)
		choice := r.addContent(&contentDelta{index: d.index, text: d.text, refusal: d.refused, reasoning: d.reasoning})
		r.t.providerTools(max(d.executed-r.executed, 0))
		r.executed = max(d.executed, r.executed)
		for range d.fragments {
			r.fragment(d.index, ch.fragments.at(fragment))
			fragment++
		}
		if len(d.finish) == 0 || choice == nil || choice.finished {
			continue
		}
		choice.finished = true
		r.unfinished--
		if r.t.Terminal {
			r.finishCalls(d.index, d.finish)
			continue
		}
		if choice.refused && string(d.finish) == "stop" {
			// OpenAI ends a refusal as it ends an answer. Anthropic's word for it says which it is.
			r.t.finishAs(finishRefusal)
		} else {
			r.t.finish(d.finish)
		}
		r.finishCalls(d.index, d.finish)
		if isFailure(d.finish) {
			failed = d.finish
		}
	}
	if len(failed) > 0 && !ch.fault.seen {
		// The reason stands for the error object that mostly comes with it.
		ch.fault = fault{seen: true, typ: failed}
	}
	if !ch.fault.seen {
		r.updateComplete()
	}
}

// addContent adds the text and the reasoning of a choice. The choice is nil beyond the
// bound of what is remembered.
func (r *chatReader) addContent(d *contentDelta) *chatChoice {
	choice := r.choice(d.index)
	r.t.add(d)
	if choice != nil && d.refusal {
		choice.refused = true
	}
	return choice
}

// judge looks whether the response is complete: every choice that was seen has finished.
func (r *chatReader) updateComplete() {
	if r.t.Terminal {
		return
	}
	r.t.Complete = r.unfinished == 0
	if r.t.Complete && r.t.ToolCalls == 0 {
		r.t.Phase = semconv.PhaseStreamEnd
	} else if r.t.Complete {
		r.t.Phase = semconv.PhaseToolCallReady
	}
}

// choice is the choice of this index; nil beyond the bound of what is remembered.
func (r *chatReader) choice(index int) *chatChoice {
	if known := r.choices.find(index); known != nil {
		return known
	}
	added := r.choices.add(index, chatChoice{})
	if added != nil {
		r.unfinished++
	}
	return added
}

// fragment takes a piece of a call's input. A new id under an old index is a new
// call when a name comes with it: some servers give every call the index 0. An id
// alone is not: others make up a new one for every fragment.
func (r *chatReader) fragment(choice int, f *chatFragment) {
	key := chatCall{choice, f.index}
	if known := r.open.find(key); known != nil && !r.another(known, f) {
		r.t.fillIn(*known, f.id, f.name)
		r.t.enter(semconv.PhaseToolInput)
		return
	}
	r.open.add(key, r.t.start(f.id, f.name))
}

// another reports whether a fragment is of another call than the known one.
func (r *chatReader) another(known *call, f *chatFragment) bool {
	if len(f.id) == 0 || len(f.name) == 0 || known.at < 0 {
		return false
	}
	id := r.t.Calls[known.at].ID
	return id != "" && string(f.id) != id && safeID(f.id) != id
}

// finishCalls ends the calls of a choice. Its finish reason completes their input
// and hands them over, unless it says that the answer was cut.
func (r *chatReader) finishCalls(choice int, reason []byte) {
	r.open.removeAll(func(key chatCall, known *call) bool {
		if key.choice != choice {
			return false
		}
		if !cutsInput(reason) {
			r.t.handOver(known)
		}
		return true
	})
}

// saysFailed reports whether a finish reason is an error: OpenRouter's, Mistral's and
// vLLM's word for one, DeepSeek's for a model that ran out of what it runs on, and
// Gemini's and Bedrock's for an output of the model that they could not read. Such an
// answer is not whole, whatever came before it.
func isFailure(reason []byte) bool {
	switch string(reason) {
	case "error", "insufficient_system_resource":
		return true
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE",
		"MISSING_THOUGHT_SIGNATURE": // Gemini
		return true
	case "malformed_model_output", "malformed_tool_use": // Bedrock
		return true
	default:
		return false
	}
}

// cutsInput reports whether an answer that finishes so may end within the input of
// a call.
func cutsInput[T string | []byte](reason T) bool {
	switch string(reason) {
	case "length", "content_filter", "error": // OpenAI, OpenRouter
		return true
	case "model_length", "abort", "insufficient_system_resource": // Mistral, vLLM, DeepSeek
		return true
	case "max_tokens", "refusal", "model_context_window_exceeded": // Anthropic
		return true
	case "max_output_tokens": // OpenAI Responses
		return true
	case "content_filtered", "guardrail_intervened", "malformed_model_output", "malformed_tool_use": // Bedrock
		return true
	case "MISSING_THOUGHT_SIGNATURE", "MAX_TOKENS", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "OTHER", "SAFETY",
		"RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII": // Gemini
		return true
	default:
		return false
	}
}
