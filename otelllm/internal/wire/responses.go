package wire

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// openAIResponses is OpenAI Responses, also as served by Azure and gateways.
type openAIResponses struct {
	// resumed is the id in the path of a request that goes on with the stream of a response;
	// "": it is another request.
	resumed string
	// compacts: the request is for a summary of a history, not for an answer.
	compacts bool
}

func (openAIResponses) Name() string                    { return "openai_responses" }
func (openAIResponses) Provider() string                { return "openai" }
func (openAIResponses) Operation() string               { return "chat" }
func (openAIResponses) ReadError(_ int, b []byte) Error { return readError(b) }

var responsesDecoders = decoders[responsesReader, *responsesReader]{envelope: responsesEnvelope}

func (p openAIResponses) NewDecoder(ct string) Decoder {
	d := responsesDecoders.get(ct, 0)
	d.state.Resumed = p.resumed != ""
	return d
}

func (openAIResponses) ReadRequest(b []byte) (Request, error) { return readResponsesRequest(b) }

// responsesAt matches …/responses and …/responses/compact. Under /openai/ (Azure) the path
// is proof; elsewhere it may be that of a survey.
//
// The answer to a compaction is a whole document: the history in short, for the model.
// https://developers.openai.com/api/reference/resources/responses/methods/compact (November
// 2026)
func responsesAt(path string) (p Protocol, sure bool) {
	before, compacts := strings.CutSuffix(path, "/responses/compact")
	if !compacts {
		var ok bool
		if before, ok = strings.CutSuffix(path, "/responses"); !ok {
			return nil, false
		}
	}
	return openAIResponses{compacts: compacts}, strings.HasSuffix(strings.TrimSuffix(before, "/v1"), "/openai")
}

// MatchResume finds the protocol of a request for the rest of a response's stream, which
// this or another client had begun to read: GET …/responses/{id}?stream=true, mostly with
// starting_after, and Google's GET …/interactions/{id}?stream=true with last_event_id, as for
// a response in the background whose stream broke. Its events are those of the stream, after
// that one; what came before is not repeated.
// https://developers.openai.com/api/docs/guides/background
// https://ai.google.dev/gemini-api/docs/interactions/streaming (November 2026)
func MatchResume(method, path, rawQuery string) (Protocol, bool) {
	at := strings.LastIndexByte(path, '/')
	if method != http.MethodGet || rawQuery == "" || at < 0 || at == len(path)-1 {
		return nil, false
	}
	id, before := path[at+1:], path[:at]
	var p Protocol
	switch {
	case strings.HasSuffix(before, "/responses") && (strings.HasPrefix(id, "resp_") || strings.HasPrefix(id, "resp-")):
		p = openAIResponses{resumed: SafeID(id)}
	case strings.HasSuffix(before, "/interactions") && betaInteractions(before):
		p = geminiInteractions{resumed: SafeID(id)}
	default:
		return nil, false
	}
	query, err := url.ParseQuery(rawQuery)
	return p, err == nil && query.Get("stream") == "true"
}

// Resumed returns the id of the response that a request goes on with, by [MatchResume]; ""
// if p is the protocol of another request.
func Resumed(p Protocol) string {
	switch p := bare(p).(type) {
	case openAIResponses:
		return p.resumed
	case geminiInteractions:
		return p.resumed
	default:
		return ""
	}
}

// KeepsHistory reports whether requests of p may continue a response, or a conversation, whose
// history the provider keeps.
func KeepsHistory(p Protocol) bool {
	switch p := bare(p).(type) {
	case openAIResponses:
		return !p.compacts
	case geminiInteractions:
		return true
	default:
		return false
	}
}

// LinksRequests reports whether the requests of p contain which of them belong together. A summary
// of a history is not a step of the conversation, and Mistral's conversations have neither
// the history nor an id of the response before.
func LinksRequests(p Protocol) bool {
	switch p := bare(p).(type) {
	case openAIResponses:
		return !p.compacts
	case mistralConversations:
		return false
	default:
		return true
	}
}

// responsesReader reads one response of the Responses API.
type responsesReader struct {
	t             tally
	open          callSet[itemKey] // items that have been added and are not done
	anyItems      bool             // an event of an item was received
	refused       bool             // the text is a refusal
	needsApproval bool             // an item asks for the approval of a person
	lastID        string           // the last id that key returned
}

var deltaSuffix = []byte(".delta")

// isCallEvent reports whether an event is about a call, which counts by its item, or about
// the progress of a provider-executed tool.
func isCallEvent(typ []byte) bool {
	return bytes.Contains(typ, []byte("_call")) || bytes.HasPrefix(typ, []byte("response.mcp_list_tools."))
}

// itemKey identifies an output item by its index: gateways change ids from event to event.
type itemKey struct {
	index int    // output_index; -1 if the events have none
	id    string // only then: as SafeID returns it
}

func (r *responsesReader) tally() *tally { return &r.t }

func (r *responsesReader) reset() {
	*r = responsesReader{open: r.open.cleared()}
}

// done has no effect: this protocol has no [DONE].
func (r *responsesReader) done() {}

// closed handles the end of the body.
func (r *responsesReader) closed(cut bool) {
	if !cut && !r.t.over() {
		r.open.cleanEnd(&r.t)
	}
}

func (r *responsesReader) read(data []byte, ev *responsesEvent) payloadKind {
	c := r.t.cursor(data)
	ev.read(&c)
	ev.fault.addSiblings(data)
	return r.t.payloadKind(&c)
}

func (r *responsesReader) event(name, data []byte) payloadKind {
	var ev responsesEvent
	if v := r.read(data, &ev); v != progress {
		return v
	}
	if len(ev.typ) == 0 {
		ev.typ = name
	}
	if f, ok := strayError(ev.typ, data); ok && (len(ev.typ) == 0 || !ev.fault.seen) {
		ev.typ, ev.fault = []byte("error"), f
	}
	return r.apply(&ev)
}

func (r *responsesReader) add(d *contentDelta) {
	if d.text || d.reasoning {
		r.open.leave(&r.t)
	}
	r.t.add(d)
	if r.refused = r.refused || d.refusal; d.input {
		r.input(d.index, nil, d.part)
	}
}

// input records a part of the input of a call.
func (r *responsesReader) input(index int, id []byte, in inputPart) {
	switch it := r.find(index, id); {
	case it == nil:
		r.t.Unread = true // of which call it is a part is not known
	case it.kind == itemClient:
		r.open.part(&r.t, r.key(index, id), it, in)
	}
}

// apply changes the state by the event.
func (r *responsesReader) apply(ev *responsesEvent) payloadKind {
	switch string(ev.typ) {
	case "keepalive", "ping", "codex.rate_limits", "codex.response.metadata": // the last two of ChatGPT's plans
		return keepalive
	case "error", "response.failed", "response.cancelled", "response.error": // the last one of gateways
		r.failed(ev)
		return progress
	}
	unread := ev.unread && !isCallEvent(ev.typ) // an unknown member contains text
	switch string(ev.typ) {
	case "response.function_call_arguments.done", "response.custom_tool_call_input.done",
		"response.apply_patch_call_operation_diff.done":
		switch it := r.find(ev.outputIndex, ev.itemID); {
		case it == nil:
			unread = true // the call whose input is complete is not known
		case it.kind == itemClient:
			r.t.wholeInput(it, ev.whole)
			r.t.endInput(it)
		}
	case "response.shell_call_command.done":
		// One command is whole, and others of the call may follow.
		if it := r.find(ev.outputIndex, ev.itemID); it != nil && it.kind == itemClient {
			r.t.complete(it)
		}
		unread = false
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
	case "response.completed", "response.incomplete", "response.done":
		return r.finished(ev, unread)
	default:
		if bytes.HasSuffix(ev.typ, deltaSuffix) {
			r.t.Unread = r.t.Unread || unread
			return r.delta(ev)
		}
		if isCallEvent(ev.typ) {
			unread = r.mayCompleteCall(ev)
		} else { // an unknown event
			unread = unread || ev.text || ev.delta || ev.part.text || len(ev.item.typ) > 0 || ev.response.nonEmpty
		}
	}
	r.t.Unread = r.t.Unread || unread
	return progress
}

// finished handles the end of a response, which response.done of some servers shows by its
// status alone. unread: an unknown member of the event contains text.
func (r *responsesReader) finished(ev *responsesEvent, unread bool) payloadKind {
	resp := &ev.response
	byStatus := string(ev.typ) == "response.done"
	switch {
	case byStatus && (string(resp.status) == "failed" || string(resp.status) == "cancelled"):
		ev.typ = append([]byte("response."), resp.status...)
		r.failed(ev)
		return progress
	case string(ev.typ) == "response.incomplete", string(resp.status) == "incomplete", cutsInput(resp.reason):
		// Gateways send response.completed for an answer that a limit has cut, too.
		r.incomplete(resp)
	case !byStatus, len(resp.status) == 0, string(resp.status) == "completed":
		r.completed(resp)
	default:
		r.t.Unread, r.t.Terminal = true, true // its meaning is not known
		return progress
	}
	r.t.Unread = r.t.Unread || (unread || resp.unread) && r.unclearEnd(resp)
	return progress
}

// unclearEnd reports whether the end of a response has no status, or has no output and
// no items were received.
func (r *responsesReader) unclearEnd(resp *responsesObject) bool {
	return len(resp.status) == 0 || !resp.hasOutput && !r.anyItems
}

// mayCompleteCall reports whether an unknown event is about a client-executed call, or
// about an unknown call: it may complete the input. A provider-executed call counts from
// its beginning, so its events do not matter.
func (r *responsesReader) mayCompleteCall(ev *responsesEvent) bool {
	switch string(ev.typ) {
	case "response.shell_call_command.added", "response.shell_call_output_content.done":
		return false
	}
	it := r.find(ev.outputIndex, ev.itemID)
	return it == nil || it.kind == itemClient
}

// wholeContent records content that deltas should have delivered before, if it is not
// empty and there were no deltas.
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
func (r *responsesReader) delta(ev *responsesEvent) payloadKind {
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
			r.input(-1, ev.itemID, ev.input) // a contentDelta has no id
			return progress
		default:
			d.input, d.part = true, ev.input
			d.part.object = d.part.object || ev.unread && !ev.delta // its part of the input is elsewhere
		}
	}
	return r.t.content(d)
}

// failed handles an error event or the response.failed that may follow it.
func (r *responsesReader) failed(ev *responsesEvent) {
	f := ev.failure()
	if string(ev.typ) != "error" {
		if ev.response.nonEmpty {
			r.outcome(&ev.response)
		}
		if ev.response.fault.seen {
			f = &ev.response.fault
		} // else a gateway has put it beside the response, or in its place
		if string(ev.typ) == "response.cancelled" && len(f.code) == 0 {
			f.code = []byte("cancelled")
		}
	}
	r.t.fail(f)
}

// find returns the open item of an event, or nil.
func (r *responsesReader) find(index int, id []byte) *call {
	return r.open.find(r.key(index, id))
}

// key returns the key of the item of an event.
func (r *responsesReader) key(index int, id []byte) itemKey {
	if index >= 0 {
		return itemKey{index: index}
	}
	if string(id) != r.lastID { // most events have the same item as the last one
		r.lastID = safeID(id)
	}
	return itemKey{-1, r.lastID}
}

func (r *responsesReader) added(index int, item *responsesItem) {
	r.anyItems = true
	it := call{at: -1, completed: true, ready: true, ended: true}
	kind := item.kind()
	r.open.leave(&r.t)
	switch kind {
	case itemClient:
		it = r.t.start(item.callID, item.toolName())
		it.free = string(item.typ) != "function_call"
	case itemProvider:
		r.t.providerTool(item.providerTool())
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
	it.kind = kind
	r.open.begin(&r.t, r.key(index, item.id), it, item.input.first())
}

func (r *responsesReader) itemDone(index int, item *responsesItem) {
	it := r.find(index, item.id)
	if it == nil {
		// A gateway that sends only whole items.
		r.added(index, item)
		if it = r.find(index, item.id); it == nil {
			return // beyond the bound of items that are remembered
		}
	}
	switch it.kind {
	case itemClient:
		if it.at >= 0 {
			// If the id has changed, the one that the application receives counts.
			if id := safeID(item.callID); id != "" {
				r.t.Calls[it.at].ID = id
			}
			r.t.fillIn(*it, nil, item.toolName())
		}
		if string(item.status) == "incomplete" {
			return // it stays open
		}
		r.t.wholeInput(it, item.input)
		r.t.handOver(it)
	case itemMessage:
		r.refused = r.refused || item.refused
		if item.text && r.t.TextChunks == 0 {
			r.t.text() // there were no deltas
		}
		r.t.Unread = r.t.Unread || item.unread
	case itemCompaction:
		// A summary of the history, by the model for the model: reasoning, not an answer.
		r.t.reasoning()
	}
	r.open.remove(r.key(index, item.id))
}

func (r *responsesReader) completed(resp *responsesObject) {
	r.outcome(resp)
	for i := range r.open.list {
		r.t.handOver(&r.open.list[i].value) // its own end is missing, but the response is complete
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
	r.open.fill(&r.t)
	r.t.end()
}

// outcome reads what every end of a response has.
func (r *responsesReader) outcome(resp *responsesObject) {
	r.t.identify(resp.id, resp.model)
	r.t.use(resp.usage)
	r.t.Broken = r.t.Broken && len(resp.output) == 0 // it has all of the answer once more
	if r.anyItems {
		return
	}
	// The items are only in the final response.
	for i := range resp.output {
		item := &resp.output[i]
		if item.kind() == itemReasoning && item.reasoning {
			r.t.reasoning()
		}
		r.added(i, item)
		r.itemDone(i, item)
	}
}

// compacted handles the answer to a compaction: the messages of the history that stay, and a
// summary of the others, all of it for the model.
func (r *responsesReader) compacted(resp *responsesObject) {
	r.t.identify(resp.id, resp.model)
	r.t.use(resp.usage)
	for i := range resp.output {
		switch item := &resp.output[i]; item.kind() {
		case itemCompaction, itemReasoning:
			r.t.reasoning()
		case itemMessage, itemOther, itemClient, itemProvider, itemApproval:
		case itemUnknown:
			r.t.Unread = true
		}
	}
	r.t.Unread = r.t.Unread || !resp.hasOutput
	if resp.hasOutput {
		r.t.finishAs("compaction")
		r.t.end()
	}
}

func (r *responsesReader) document(data []byte) payloadKind {
	var ev responsesEvent
	resp := &ev.response
	c := r.t.cursor(data)
	ev.readResponse(&c)
	if v := r.t.payloadKind(&c); v != progress {
		return v
	}
	if string(resp.object) == "response.compaction" {
		r.compacted(resp)
		return progress
	}
	switch string(resp.status) {
	case "incomplete":
		r.incomplete(resp)
	case "failed", "cancelled":
		ev.typ = append([]byte("response."), resp.status...)
		r.failed(&ev)
	case "queued", "in_progress":
		// A background response: this exchange is complete, the client requests the answer
		// later.
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
		// The meaning of another status is unknown, and so is that of an answer without
		// output.
		r.t.Unread = r.t.Unread || !known || resp.unread && !resp.hasOutput && !resp.fault.seen
	}
	return progress
}
