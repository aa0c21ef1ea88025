package wire

import (
	"bytes"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// openAIResponses is OpenAI Responses, also as Azure and gateways serve it.
type openAIResponses struct{}

func (openAIResponses) Name() string                          { return "openai_responses" }
func (openAIResponses) Provider() string                      { return "openai" }
func (openAIResponses) Operation() string                     { return "chat" }
func (openAIResponses) ReadError(_ int, b []byte) Error       { return readError(b) }
func (openAIResponses) ReadRequest(b []byte) (Request, error) { return readResponsesRequest(b) }

var responsesDecoders decoders[responsesReader, *responsesReader]

func (openAIResponses) NewDecoder(ct string) Decoder { return responsesDecoders.get(ct, 0) }

// responsesAt reads …/responses. Under /openai/ (Azure) the path is proof; elsewhere it
// may be a survey's.
func responsesAt(path string) (p Protocol, sure bool) {
	before, ok := strings.CutSuffix(path, "/responses")
	if !ok {
		return nil, false
	}
	return openAIResponses{}, strings.HasSuffix(strings.TrimSuffix(before, "/v1"), "/openai")
}

// responsesReader follows one response of the Responses API.
type responsesReader struct {
	t             tally
	open          openSet[itemKey, openItem] // items that have been added and are not done
	anyItems      bool                       // some item event came
	refused       bool                       // the text is a refusal
	needsApproval bool                       // an item asks for a person's approval
	lastID        string                     // that was looked for: see key
}

var deltaSuffix = []byte(".delta")

// ofCall reports whether an event is about a call, which counts by its item, or about
// what the provider's tool does.
func isCallEvent(typ []byte) bool {
	return bytes.Contains(typ, []byte("_call")) || bytes.HasPrefix(typ, []byte("response.mcp_list_tools."))
}

// itemKey names an output item. Its index does: gateways change ids from event to event.
type itemKey struct {
	index int    // output_index; -1 when the events have none
	id    string // only then: as SafeID leaves it
}

// openItem is an output item under way.
type openItem struct {
	kind itemKind
	call call
}

func (r *responsesReader) tally() *tally { return &r.t }

func (r *responsesReader) reset() {
	*r = responsesReader{open: r.open.cleared()}
}

// done takes a [DONE], which this protocol does not have: it changes nothing.
func (r *responsesReader) done() {}

func (r *responsesReader) event(name, data []byte) verdict {
	var ev responsesEvent
	if v := r.read(data, &ev); v != progress {
		return v
	}
	if len(ev.typ) == 0 {
		ev.typ = name
	}
	return r.apply(&ev)
}

func (r *responsesReader) add(d *contentDelta) {
	r.t.add(d)
	if r.refused = r.refused || d.refusal; d.input {
		r.input(r.find(d.index, nil))
	}
}

// input records a part of the input of a call.
func (r *responsesReader) input(it *openItem) {
	if it != nil && it.kind == itemClient {
		r.t.enter(semconv.PhaseToolInput)
	}
}

// apply makes the event part of the state.
func (r *responsesReader) apply(ev *responsesEvent) verdict {
	switch string(ev.typ) {
	case "keepalive", "ping":
		return keepalive
	case "error", "response.failed", "response.cancelled":
		r.failed(ev)
		return progress
	}
	unread := ev.unread && !isCallEvent(ev.typ) // a member that is not known says something
	switch string(ev.typ) {
	case "response.function_call_arguments.done", "response.custom_tool_call_input.done",
		"response.apply_patch_call_operation_diff.done":
		switch it := r.find(ev.outputIndex, ev.itemID); {
		case it == nil:
			unread = true // whose input is complete is not known
		case it.kind == itemClient:
			r.t.complete(&it.call)
		}
	case "response.output_text.done", "response.refusal.done", "response.content_part.added", "response.content_part.done",
		// Of the Realtime API.
		"response.text.done", "response.audio_transcript.done", "response.output_audio_transcript.done":
		r.wholeContent(ev.text || ev.part.text, ev.part)
	case "response.reasoning_text.done", "response.reasoning_summary_text.done",
		"response.reasoning_summary_part.added", "response.reasoning_summary_part.done":
		ev.part.reasoning = true
		r.wholeContent(ev.text || ev.part.text, ev.part)
	case "response.output_item.added":
		r.added(ev.outputIndex, &ev.item)
	case "response.output_item.done":
		r.itemDone(ev.outputIndex, &ev.item)
	case "response.created", "response.queued", "response.in_progress":
		r.t.identify(ev.response.id, ev.response.model)
		unread = false
	case "response.output_text.annotation.added", "response.audio.done", "response.audio.transcript.done", "response.output_audio.done":
		unread = false
	case "response.completed":
		r.completed(&ev.response)
		unread = (unread || ev.response.unread) && r.unclearEnd(&ev.response)
	case "response.incomplete":
		r.incomplete(&ev.response)
		unread = (unread || ev.response.unread) && r.unclearEnd(&ev.response)
	default:
		if bytes.HasSuffix(ev.typ, deltaSuffix) {
			r.t.Unread = r.t.Unread || unread
			return r.delta(ev)
		}
		if isCallEvent(ev.typ) {
			unread = r.mayCompleteCall(ev)
		} else { // an event that is not known
			unread = unread || ev.text || ev.delta || ev.part.text || len(ev.item.typ) > 0 || ev.response.nonEmpty
		}
	}
	r.t.Unread = r.t.Unread || unread
	return progress
}

// unsaid reports whether what ended the response does not say how, or has no place of
// its own for what was answered and no items have come.
func (r *responsesReader) unclearEnd(resp *responsesObject) bool {
	return len(resp.status) == 0 || !resp.hasOutput && !r.anyItems
}

// ofOpenCall reports whether an event that is not known is about a call of the
// application's, or about one that is not known: the input may be complete with it. What
// the provider's tools do counts from their beginning on.
func (r *responsesReader) mayCompleteCall(ev *responsesEvent) bool {
	switch string(ev.typ) {
	case "response.shell_call_command.added", "response.shell_call_command.done", "response.shell_call_output_content.done":
		return false
	}
	it := r.find(ev.outputIndex, ev.itemID)
	return it == nil || it.kind == itemClient
}

// said takes the whole of what deltas should have brought before, if there is something
// in it and none came.
func (r *responsesReader) wholeContent(filled bool, p responsesPart) {
	switch {
	case p.reasoning:
		if filled && r.t.ReasoningChunks == 0 {
			r.t.reasoning()
		}
	case p.refused || filled:
		r.refused = r.refused || p.refused
		if r.t.TextChunks == 0 {
			r.t.text()
		}
	}
}

// delta reads a part of an item.
func (r *responsesReader) delta(ev *responsesEvent) verdict {
	d := contentDelta{index: ev.outputIndex}
	switch string(ev.typ) {
	case "response.refusal.delta":
		d.text, d.refusal = ev.delta, ev.delta
	case "response.output_text.delta", "response.audio.delta", "response.audio.transcript.delta",
		// Of the Realtime API, before and since it became generally available.
		"response.text.delta", "response.audio_transcript.delta",
		"response.output_audio.delta", "response.output_audio_transcript.delta":
		d.text = ev.delta
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta",
		"response.reasoning.delta", "response.reasoning_summary.delta":
		d.reasoning = ev.delta
	default:
		switch {
		case !isCallEvent(ev.typ): // each kind of call has its own event for its input
			r.t.Unread = r.t.Unread || ev.delta
		case ev.outputIndex < 0:
			r.input(r.find(-1, ev.itemID)) // a contentDelta has no id
			return progress
		default:
			d.input = true
		}
	}
	return r.t.content(d)
}

// failed takes an error event or the response.failed that may follow it.
func (r *responsesReader) failed(ev *responsesEvent) {
	f := ev.failure()
	if string(ev.typ) != "error" {
		r.outcome(&ev.response)
		f = &ev.response.fault
		if string(ev.typ) == "response.cancelled" && len(f.code) == 0 {
			f.code = []byte("cancelled")
		}
	}
	r.t.fail(f)
}

// find is the open item that an event is about, or nil.
func (r *responsesReader) find(index int, id []byte) *openItem {
	return r.open.find(r.key(index, id))
}

// key names the item that an event is about.
func (r *responsesReader) key(index int, id []byte) itemKey {
	if index >= 0 {
		return itemKey{index: index}
	}
	if string(id) != r.lastID { // most events are about the item that the last one was about
		r.lastID = safeID(id)
	}
	return itemKey{-1, r.lastID}
}

func (r *responsesReader) added(index int, item *responsesItem) {
	r.anyItems = true
	it := openItem{kind: item.kind()}
	switch it.kind {
	case itemClient:
		it.call = r.t.start(item.callID, item.toolName())
	case itemProvider:
		r.t.providerTools(1)
	case itemReasoning, itemCompaction:
		r.t.enter(semconv.PhaseReasoning)
	case itemApproval:
		r.needsApproval = true
	case itemMessage:
		if r.refused = r.refused || item.refused; item.text {
			r.t.text()
		}
		r.t.Unread = r.t.Unread || item.unread
	case itemUnknown:
		r.t.Unread = true
	}
	r.open.add(r.key(index, item.id), it)
}

func (r *responsesReader) itemDone(index int, item *responsesItem) {
	it := r.find(index, item.id)
	if it == nil {
		// A gateway that sends whole items only.
		r.added(index, item)
		if it = r.find(index, item.id); it == nil {
			return // beyond the bound of what is remembered
		}
	}
	switch it.kind {
	case itemClient:
		if it.call.at >= 0 {
			// The id that is handed over counts, should it have changed on the way.
			if id := safeID(item.callID); id != "" {
				r.t.Calls[it.call.at].ID = id
			}
			r.t.fillIn(it.call, nil, item.toolName())
		}
		if string(item.status) == "incomplete" {
			return // stays open
		}
		r.t.handOver(&it.call)
	case itemMessage:
		r.refused = r.refused || item.refused
		if item.text && r.t.TextChunks == 0 {
			r.t.text() // no deltas came
		}
		r.t.Unread = r.t.Unread || item.unread
	case itemCompaction:
		// The history in short, by the model and for the model: what it thinks, not what
		// it answers.
		r.t.reasoning()
	}
	r.open.remove(r.key(index, item.id))
}

func (r *responsesReader) completed(resp *responsesObject) {
	r.outcome(resp)
	for i := range r.open.list {
		if it := &r.open.list[i].value; it.kind == itemClient {
			r.t.handOver(&it.call) // its own end was lost; the whole is complete
		}
	}
	r.open.clear()
	if r.t.Terminal {
		return
	}
	switch {
	case r.t.ToolCalls > 0:
		r.t.finishAs("tool_calls")
	case r.refused:
		r.t.finishAs(finishRefusal)
	case !r.needsApproval:
		r.t.finishAs("stop")
	}
	if r.needsApproval {
		r.t.finishAs(finishApproval)
	}
	r.t.end()
}

func (r *responsesReader) incomplete(resp *responsesObject) {
	r.outcome(resp)
	switch {
	case r.t.Terminal:
		return
	case len(resp.reason) == 0:
		r.t.finishAs("incomplete")
	default:
		r.t.finish(resp.reason)
	}
	r.t.end()
}

// outcome takes what every end of a response carries.
func (r *responsesReader) outcome(resp *responsesObject) {
	r.t.identify(resp.id, resp.model)
	r.t.use(resp.usage)
	if r.anyItems {
		return
	}
	// The items come in the final response only.
	for i := range resp.output {
		item := &resp.output[i]
		if item.kind() == itemReasoning && item.reasoning {
			r.t.reasoning()
		}
		r.added(i, item)
		r.itemDone(i, item)
	}
}

func (r *responsesReader) document(data []byte) verdict {
	var ev responsesEvent
	resp := &ev.response
	c := r.t.cursor(data)
	ev.readResponse(&c)
	if v := c.verdict(); v != progress {
		return v
	}
	r.t.Unread = r.t.Unread || c.unread
	switch string(resp.status) {
	case "incomplete":
		r.incomplete(resp)
	case "failed", "cancelled":
		ev.typ = append([]byte("response."), resp.status...)
		r.failed(&ev)
	case "queued", "in_progress":
		// A background response: the exchange is complete, the answer is asked for later.
		r.outcome(resp)
		r.t.finishAs(string(resp.status))
		r.t.end()
	default:
		known := len(resp.status) == 0 || string(resp.status) == "completed"
		switch {
		case resp.fault.seen:
			r.t.fail(&resp.fault)
		case resp.hasOutput:
			r.completed(resp)
		}
		// What another status says about the answer is not known, nor what an answer is
		// that has no output.
		r.t.Unread = r.t.Unread || !known || resp.unread && !resp.hasOutput && !resp.fault.seen
	}
	return progress
}
