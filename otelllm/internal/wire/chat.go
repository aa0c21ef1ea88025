package wire

import (
	"cmp"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// openAIChat is OpenAI Chat Completions and compatible APIs: Azure OpenAI, OpenRouter,
// vLLM, DeepSeek, Groq, Mistral, xAI.
type openAIChat struct {
	model string // the model in the path: an Azure deployment, Mistral on Vertex AI
	host  string // the gen_ai.provider.name that the path shows
}

func (openAIChat) Name() string                    { return "openai_chat" }
func (openAIChat) Operation() string               { return "chat" }
func (openAIChat) ReadError(_ int, b []byte) Error { return readError(b) }

var chatDecoders = decoders[chatReader, *chatReader]{envelope: chatEnvelope}

func (openAIChat) NewDecoder(ct string) Decoder { return chatDecoders.get(ct, 0) }

func (p openAIChat) Provider() string { return cmp.Or(p.host, "openai") }

func (p openAIChat) ReadRequest(b []byte) (Request, error) {
	req, messages, err := readChatRequest(b, chatMembers)
	req.fillModel(p.model)
	req.IsCall = messages && (req.Model != "" || p.host == providerMistral)
	return req, err
}

// chatAt matches …/chat/completions, which is Azure's if it names a deployment, Mistral's
// models on Vertex AI, and its …/v1/agents/completions, where an agent_id takes the place of
// the model (https://docs.mistral.ai/api/endpoint/agents, November 2026); and
// …/serving-endpoints/{name}/invocations of Databricks
// (https://docs.databricks.com/aws/en/machine-learning/foundation-model-apis/api-reference).
func chatAt(path string) (p Protocol, sure bool) {
	if strings.HasSuffix(path, "/chat/completions") {
		if deployment := azureDeployment(path); deployment != "" {
			return openAIChat{model: deployment, host: providerAzure}, true
		}
		return openAIChat{}, true
	}
	if strings.HasSuffix(path, "/v1/agents/completions") {
		return openAIChat{host: providerMistral}, true
	}
	if rest, ok := strings.CutSuffix(path, "/invocations"); ok {
		if _, name, ok := strings.Cut(rest, "/serving-endpoints/"); ok && name != "" {
			return openAIChat{model: name}, false // Databricks: the model may be of another kind
		}
	}
	if model, _, ok := publishedModel(path, "mistralai"); ok {
		return openAIChat{model: model, host: providerVertex}, true
	}
	return nil, false
}

// chatReader reads one Chat Completions response.
type chatReader struct {
	t          tally
	choices    openSet[int, chatChoice]
	unfinished int               // number of choices that have not finished
	strange    bool              // an object came that is no chunk, and not known
	open       callSet[chatCall] // calls whose choice has not finished
	executed   int               // number of provider-executed tools that the answer lists
}

type chatChoice struct {
	refused  bool // its text is a refusal
	finished bool
}

// chatCall identifies a call by choice and index: only the first fragment has an id.
type chatCall struct{ choice, index int }

func (r *chatReader) tally() *tally { return &r.t }

func (r *chatReader) reset() {
	*r = chatReader{choices: r.choices.cleared(), open: r.open.cleared()}
}

func (r *chatReader) read(data []byte, ch *chatChunk) payloadKind {
	c := r.t.cursor(data)
	isError, aside := ch.read(&c)
	ch.fault.addSiblings(data)
	v := r.t.payloadKind(&c)
	if v != progress {
		return v
	}
	if (isError || aside) && !ch.fault.seen {
		// vLLM's flat form, or an object that is no chunk and says that it is an error.
		if f, _ := faultOf(data); isError || f.seen || f.known() {
			f.seen = f.seen || aside
			ch.fault = f
		}
	}
	// A chunk without choices either is not part of the answer, or has the answer in an
	// unknown place.
	ch.unread = aside && hasTextBeside(data, chatHeading)
	return v
}

func (r *chatReader) event(name, data []byte) payloadKind {
	ch := chatChunk{usage: unknownUsage}
	if v := r.read(data, &ch); v != progress {
		return v
	}
	if string(name) == "error" && !ch.fault.seen {
		// The event is an error by its name; the object is flat.
		ch.fault, _ = faultOf(data)
		ch.fault.seen = true
	}
	return r.apply(&ch)
}

func (r *chatReader) add(d *contentDelta) {
	r.addContent(d)
	if d.input {
		r.fragment(d.index, &chatFragment{index: d.call, input: d.part})
	}
	r.updateComplete()
}

func (r *chatReader) document(data []byte) payloadKind {
	ch := chatChunk{usage: unknownUsage}
	if v := r.read(data, &ch); v != progress {
		return v
	}
	v := r.apply(&ch)
	if v == content {
		r.add(&r.t.delta) // the end of the document follows it
		v = progress
	}
	if ch.deferred && ch.choices.n == 0 && !ch.fault.seen {
		// xAI: the answer will be available later, under this id.
		r.t.finishAs(finishDeferred)
		r.t.end()
	}
	if ch.choices.n > 0 && !ch.fault.seen && !r.t.Terminal {
		r.unstated()
	}
	return v
}

// done handles [DONE]. It only proves that the server meant to end the stream here.
func (r *chatReader) done() {
	if r.t.Terminal {
		return
	}
	r.unstated()
	r.open.fill(&r.t)
	r.t.Terminal = true
	if r.t.Complete {
		r.t.Phase = semconv.PhaseStreamEnd
	}
}

// unstated completes an answer that its server has ended, and that has content but not one
// finish reason: some servers send none in any answer. It does not complete one that ended
// within the input of a call. An object that is not known may have been the end, and not a
// good one: servers have forms of their own for an error.
func (r *chatReader) unstated() {
	r.open.swallow(&r.t)
	answered := r.t.TextChunks > 0 || r.t.ToolInputsStarted > 0 || r.strange && len(r.choices.list) > 0
	if r.t.Complete || len(r.t.FinishReasons) > 0 || !answered || r.t.ToolInputsCompleted < r.t.ToolInputsStarted {
		return
	}
	for i := range r.open.list {
		r.t.handOver(&r.open.list[i].value)
	}
	r.open.clear()
	if r.strange {
		r.t.finishAs(finishUnrecognized)
	} else {
		r.t.finishAs(finishUnstated)
	}
	r.t.Complete = true
}

// closed handles the end of the body. A client that gets no error may take an input of a call
// that is no JSON for whole. That includes one that passes on an error event and then finishes
// what is open, as the AI SDK's openai-compatible provider does.
func (r *chatReader) closed(cut bool) {
	if !cut {
		r.open.cleanEnd(&r.t)
	}
}

// apply changes the state by the chunk.
func (r *chatReader) apply(ch *chatChunk) payloadKind {
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
		r.t.Unread, r.strange = r.t.Unread || ch.unread, r.strange || ch.unread
	}
	return progress
}

func (r *chatReader) applyChoices(ch *chatChunk) {
	for _, e := range ch.executed {
		r.t.providerTools(e.place-1-r.executed, nil) // those before it were not listed
		r.t.providerTools(min(e.place-r.executed, 1), e.typ)
		r.executed = max(e.place, r.executed)
	}
	fragment := 0
	var failed []byte
	for i := range ch.choices.n {
		d := ch.choices.at(i)
		choice := r.addContent(&contentDelta{index: d.index, text: d.text, refusal: d.refused, reasoning: d.reasoning})
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
			// OpenAI ends a refusal like an answer. Anthropic's finish reason distinguishes it.
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
		// Mostly an error object comes with such a reason. Without one, the reason is the error.
		ch.fault = fault{seen: true, typ: failed}
	}
	if !ch.fault.seen {
		r.updateComplete()
	}
}

// addContent adds the text and the reasoning of a choice. It returns nil beyond the bound
// of choices that are remembered.
func (r *chatReader) addContent(d *contentDelta) *chatChoice {
	choice := r.choice(d.index)
	if d.text || d.reasoning {
		r.open.leave(&r.t)
	}
	r.t.add(d)
	if choice != nil && d.refusal {
		choice.refused = true
	}
	return choice
}

// updateComplete sets whether the response is complete: every choice that was received has
// finished.
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

// choice returns the choice of this index; nil beyond the bound of choices that are
// remembered.
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

// fragment reads a part of a call's input. A new id under a known index is a new call if
// it has a name: some servers give every call the index 0. An id alone is not a new call:
// other servers invent a new one for every fragment.
func (r *chatReader) fragment(choice int, f *chatFragment) {
	key := chatCall{choice, f.index}
	if known := r.open.find(key); known != nil && !r.another(known, f) {
		r.t.fillIn(*known, f.id, f.name)
		r.open.part(&r.t, key, known, f.input)
		return
	}
	started := r.t.start(f.id, f.name)
	started.free = f.custom
	r.open.begin(&r.t, key, started, f.input)
}

// another reports whether a fragment is part of another call than known.
func (r *chatReader) another(known *call, f *chatFragment) bool {
	if len(f.id) == 0 || len(f.name) == 0 || known.at < 0 {
		return false
	}
	id := r.t.Calls[known.at].ID
	return id != "" && string(f.id) != id && safeID(f.id) != id
}

// finishCalls ends the calls of a choice. The finish reason completes their input and
// hands them over, unless it means that the answer was cut.
func (r *chatReader) finishCalls(choice int, reason []byte) {
	r.open.removeAll(func(key chatCall, known *call) bool {
		if key.choice != choice {
			return false
		}
		switch {
		case !cutsInput(reason):
			r.t.handOver(known)
		case r.t.fills:
			r.t.complete(known)
		}
		return true
	})
}
