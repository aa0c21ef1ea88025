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
	t        tally
	open     []openItem // items that have been added and are not done
	anyItems bool       // some item event came
	refused  bool       // the text is a refusal

	tools repeated // of the response: most of it, in every event that brings it

	shapes shapes[responsesDelta]
}

// responsesDelta is a piece of an item.
type responsesDelta struct {
	kind  deltaKind
	index int // output_index
}

type deltaKind uint8

const (
	deltaInput     deltaKind = iota // of a call: each sort of call has a name of its own for it
	deltaText                       // visible output
	deltaRefusal                    // the same, but a refusal
	deltaReasoning                  //
)

func deltaKindOf(typ []byte) deltaKind {
	switch string(typ) {
	case "response.refusal.delta":
		return deltaRefusal
	case "response.output_text.delta", "response.audio.delta", "response.audio.transcript.delta",
		// Of the Realtime API, before and since it became generally available.
		"response.text.delta", "response.audio_transcript.delta",
		"response.output_audio.delta", "response.output_audio_transcript.delta":
		return deltaText
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta",
		"response.reasoning.delta", "response.reasoning_summary.delta":
		return deltaReasoning
	default:
		return deltaInput
	}
}

// openItem is an output item under way. Its index names it: gateways change ids
// from event to event.
type openItem struct {
	index int    // output_index; -1 when the events have none
	id    string // only then: as SafeID leaves it
	kind  itemKind
	call  call
}

func (r *responsesReader) tally() *tally { return &r.t }

func (r *responsesReader) reset() {
	r.shapes.reset()
	*r = responsesReader{open: emptied(r.open), shapes: r.shapes}
}

// done takes a [DONE], which this protocol does not have: it changes nothing.
func (r *responsesReader) done() {}

func (r *responsesReader) event(name, data []byte) verdict {
	if d, f := r.shapes.match(data); d != nil {
		r.known(d, f)
		return progress
	}
	var ev responsesEvent
	if !r.read(data, &ev) {
		return malformed
	}
	if len(ev.typ) == 0 {
		ev.typ = name
	} else if ev.outputIndex >= 0 && !ev.unshaped && bytes.HasSuffix(ev.typ, deltaSuffix) {
		r.shapes.learn(name, data, responsesDelta{deltaKindOf(ev.typ), ev.outputIndex})
	}
	return r.apply(&ev)
}

var deltaSuffix = []byte(".delta")

func (r *responsesReader) take(p []byte) int {
	d, f, n := r.shapes.take(p)
	if d != nil {
		r.known(d, f)
	}
	return n
}

// known takes a delta of a known shape.
func (r *responsesReader) known(d *responsesDelta, f filled) {
	if !r.t.Terminal {
		r.delta(*d, nil, f.has(whatText))
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
	if r.t.Terminal {
		return progress
	}
	switch string(ev.typ) {
	case "response.function_call_arguments.done", "response.custom_tool_call_input.done",
		"response.apply_patch_call_operation_diff.done":
		if it := r.find(ev.outputIndex, ev.itemID); it != nil && it.kind == itemClient {
			r.t.complete(&it.call)
		}
	case "response.output_item.added":
		r.added(ev.outputIndex, &ev.item)
	case "response.output_item.done":
		r.itemDone(ev.outputIndex, &ev.item)
	case "response.created", "response.queued", "response.in_progress":
		r.t.identify(ev.response.id, ev.response.model)
	case "response.completed":
		r.completed(&ev.response)
	case "response.incomplete":
		r.incomplete(&ev.response)
	default:
		if bytes.HasSuffix(ev.typ, deltaSuffix) {
			r.delta(responsesDelta{deltaKindOf(ev.typ), ev.outputIndex}, ev.itemID, ev.delta)
		}
	}
	return progress
}

// delta takes a piece of an item. filled: there is something in it.
func (r *responsesReader) delta(d responsesDelta, id []byte, filled bool) {
	switch d.kind {
	case deltaText, deltaRefusal:
		if filled {
			r.t.text()
			r.refused = r.refused || d.kind == deltaRefusal
		}
	case deltaReasoning:
		if filled {
			r.t.thought()
		}
	case deltaInput:
		if it := r.find(d.index, id); it != nil && it.kind == itemClient {
			r.t.Phase = semconv.PhaseToolInput
		}
	}
}

// failed takes an error event or the response.failed that may follow it.
func (r *responsesReader) failed(ev *responsesEvent) {
	f := ev.failure()
	if string(ev.typ) != "error" {
		r.t.identify(ev.response.id, ev.response.model)
		r.t.use(ev.response.usage)
		f = &ev.response.fault
		if string(ev.typ) == "response.cancelled" && len(f.code) == 0 {
			f.code = []byte("cancelled")
		}
	}
	r.t.fail(f)
}

// find is the open item that an event is about; nil if there is none.
func (r *responsesReader) find(index int, id []byte) *openItem {
	for i := len(r.open) - 1; i >= 0; i-- {
		it := &r.open[i]
		if it.index != index {
			continue
		}
		if index >= 0 || string(id) == it.id || safeID(id) == it.id {
			return it
		}
	}
	return nil
}

func (r *responsesReader) added(index int, item *responsesItem) {
	r.anyItems = true
	it := openItem{index: index, kind: item.kind()}
	if index < 0 {
		it.id = safeID(item.id)
	}
	switch it.kind {
	case itemClient:
		it.call = r.t.start(item.callID, item.toolName())
	case itemProvider:
		r.t.ProviderToolsStarted++
	case itemReasoning:
		r.t.Phase = semconv.PhaseReasoning
	}
	if len(r.open) < maxOpen {
		r.open = append(r.open, it)
	}
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
	}
	r.close(it)
}

// close forgets an open item.
func (r *responsesReader) close(it *openItem) {
	*it = r.open[len(r.open)-1]
	r.open = r.open[:len(r.open)-1]
}

func (r *responsesReader) completed(resp *responsesObject) {
	r.outcome(resp)
	for i := range r.open {
		if it := &r.open[i]; it.kind == itemClient {
			r.t.handOver(&it.call) // its own end was lost; the whole is complete
		}
	}
	r.open = r.open[:0]
	switch {
	case r.t.ToolCalls > 0:
		r.t.finish([]byte("tool_calls"))
	case r.refused:
		r.t.finish([]byte(finishRefusal))
	default:
		r.t.finish([]byte("stop"))
	}
	r.t.end()
}

func (r *responsesReader) incomplete(resp *responsesObject) {
	r.outcome(resp)
	if len(resp.reason) == 0 {
		resp.reason = []byte("incomplete")
	}
	r.t.finish(resp.reason)
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
		switch kind := item.kind(); {
		case kind == itemReasoning && item.reasoning:
			r.t.thought()
		case kind == itemMessage && item.text:
			r.t.text()
			item.text = false
		}
		r.added(i, item)
		r.itemDone(i, item)
	}
}

func (r *responsesReader) document(data []byte) verdict {
	var ev responsesEvent
	resp := &ev.response
	c := cursor{b: data}
	r.readResponse(&c, &ev)
	if !c.end() {
		return malformed
	}
	switch string(resp.status) {
	case "incomplete":
		r.incomplete(resp)
	case "failed", "cancelled":
		ev.typ = append([]byte("response."), resp.status...)
		r.failed(&ev)
	case "queued", "in_progress":
		// A background response: the exchange is complete, the answer is asked for later.
		r.t.identify(resp.id, resp.model)
		r.t.finish(resp.status)
		r.t.end()
	default:
		switch {
		case resp.fault.seen:
			r.t.fail(&resp.fault)
		case resp.hasOutput:
			r.completed(resp)
		}
	}
	return progress
}
