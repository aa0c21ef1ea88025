package wire

import (
	"bytes"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// geminiInteractions is Google's Interactions API, streaming or not. A stream has
// interaction.created, then for each step step.start, .delta and .stop, and
// interaction.completed, which has the status: the response is complete with it if that is
// completed, requires_action (calls wait for their outputs) or incomplete. An error event, or
// the status failed or cancelled, is a failure. A [DONE] may follow and proves nothing. A
// function_call step is for the application, every other step of a call is executed by
// Google. The events content.start, .delta and .stop, and interaction.start and .complete,
// are those of the API before it had steps.
//
// https://ai.google.dev/gemini-api/docs/interactions/streaming (November 2026), and the types
// of googleapis/python-genai of August 2026.
type geminiInteractions struct{ resumed string }

func (geminiInteractions) Name() string                    { return "gemini_interactions" }
func (geminiInteractions) Provider() string                { return "gcp.gemini" }
func (geminiInteractions) Operation() string               { return "generate_content" }
func (geminiInteractions) ReadError(_ int, b []byte) Error { return readError(b) }

var interactionsDecoders decoders[interactionsReader, *interactionsReader]

func (p geminiInteractions) NewDecoder(ct string) Decoder {
	d := interactionsDecoders.get(ct, 0)
	d.state.Resumed = p.resumed != ""
	return d
}

// interactionsAt matches …/v1beta/interactions, as well with a project of Vertex AI, and as a
// hint any other path with this end.
func interactionsAt(path string) (p Protocol, sure bool) {
	if !strings.HasSuffix(path, "/interactions") {
		return nil, false
	}
	return geminiInteractions{}, betaInteractions(path)
}

func betaInteractions(path string) bool {
	return strings.Contains(path, "/v1beta/") || strings.Contains(path, "/v1beta1/") || strings.Contains(path, "/v1alpha/")
}

// ReadRequest implements [Protocol].
func (geminiInteractions) ReadRequest(body []byte) (Request, error) {
	var req Request
	var tools offeredTools
	var calls, outputs newestIDs
	given, agent := false, false
	c := cursor{b: body}
	isObject := c.peek() == '{'
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "model":
			req.Model = safeModel(c.str())
		case "agent":
			agent = c.hasValue()
		case "stream":
			req.Stream = c.boolean()
		case "background":
			req.Background = c.boolean()
		case "previous_interaction_id":
			req.PreviousID = safeID(c.str())
		case "input":
			switch c.peek() {
			case '[':
				given = true
				for ok := c.array(); ok; ok = c.element() {
					readInteractionsStep(&c, &calls, &outputs)
				}
			case '{':
				given = true
				readInteractionsStep(&c, &calls, &outputs)
			default:
				given = c.filled()
			}
		case "tools":
			for ok := tools.array(&c); ok; ok = c.element() {
				switch typ := readType(&c); string(typ) {
				case "function", "computer_use":
				case "mcp_server":
					tools.add([]byte("mcp"))
				default:
					tools.add(typ)
				}
			}
		case "generation_config":
			req.limit(readMember(&c, "max_output_tokens"))
		default:
			tools.other(&c, interactionsMembers, key)
		}
	}
	tools.hidden = tools.hidden || agent // those of the agent
	req.ProviderTools = tools.types()
	req.fillModel("")
	req.HistoryOutputs = outputs.safe()
	if req.PreviousID == "" {
		req.HistoryCalls = calls.safe()
	} else {
		req.BodyCalls = calls.safe()
	}
	req.IsCall = given && (req.Model != "" || agent)
	return req, requestError(&c, isObject)
}

// readInteractionsStep reads a step of the history, or a part of the user's input.
func readInteractionsStep(c *cursor, calls, outputs *newestIDs) {
	typ, id, callID := readTypeAndIDs(c, "id", "call_id")
	switch string(typ) {
	case "function_call":
		calls.add(id)
	case "function_result":
		outputs.add(callID)
	}
}

// interactionsReader reads one response.
type interactionsReader struct {
	t    tally
	open callSet[int] // steps of calls that have not ended, by index
	// anySteps: an event of a step was received.
	anySteps bool
	// ended: the status has come. What an error says after that is not the cause.
	ended bool
}

func (r *interactionsReader) tally() *tally { return &r.t }
func (r *interactionsReader) reset()        { *r = interactionsReader{open: r.open.cleared()} }
func (r *interactionsReader) done()         {}

// closed handles the end of the body.
func (r *interactionsReader) closed(cut bool) {
	if !cut && !r.t.over() {
		r.open.cleanEnd(&r.t)
	}
}

func (r *interactionsReader) add(d *contentDelta) { r.t.addWithCalls(d, &r.open) }

func (r *interactionsReader) event(name, data []byte) payloadKind {
	ev := interactionsEvent{index: -1}
	c := r.t.cursor(data)
	ev.read(&c)
	if v := r.t.payloadKind(&c); v != progress {
		return v
	}
	if ev.typed = len(ev.typ) > 0; !ev.typed {
		ev.typ = name
	}
	return r.apply(&ev)
}

// apply changes the state by the event.
func (r *interactionsReader) apply(ev *interactionsEvent) payloadKind {
	r.t.Unread = r.t.Unread || ev.unread
	switch string(ev.typ) {
	case "step.delta", "content.delta":
		r.anySteps = true
		return r.delta(ev.index, &ev.delta)
	case "step.start", "content.start":
		r.anySteps = true
		r.begin(ev.index, &ev.step)
	case "step.stop", "content.stop":
		r.stop(ev.index)
	case "interaction.created", "interaction.start":
		r.t.identify(ev.response.id, ev.response.model)
	case "interaction.status_update":
	case "interaction.completed", "interaction.complete":
		r.t.identify(ev.response.id, ev.response.model)
		r.end(&ev.response)
	case "error":
		if !r.ended {
			r.t.fail(&ev.fault)
		}
	default:
		// A type that is not known may be the beginning of a tool.
		r.t.Unread = r.t.Unread || ev.typed || len(ev.delta.typ) > 0 || len(ev.step.typ) > 0
	}
	return progress
}

// delta reads a part of a step.
func (r *interactionsReader) delta(index int, s *interactionsStep) payloadKind {
	d := contentDelta{index: index}
	switch string(s.typ) {
	case "text", "image", "audio", "video", "document":
		d.text = s.filled
	case "thought_summary", "thought":
		d.thinking, d.reasoning = true, s.filled
	case "arguments_delta":
		d.input, d.part = true, s.input
	case "thought_signature", "text_annotation_delta":
	case "function_call": // before there were steps: a whole call
		if c := r.open.find(index); c == nil || c.completed {
			r.begin(index, s)
		} else {
			r.t.fillIn(*c, s.id, s.name)
		}
		return progress
	default:
		switch {
		case s.callsProvider():
			if c := r.open.find(index); c == nil || !c.completed {
				r.begin(index, s) // its beginning was not read
			}
			return progress
		case !s.ofProvider():
			r.t.Unread = true
		}
	}
	return r.t.content(d)
}

// begin handles the beginning of a step.
func (r *interactionsReader) begin(index int, s *interactionsStep) {
	r.open.leave(&r.t)
	switch string(s.typ) {
	case "function_call":
		r.open.begin(&r.t, index, r.t.start(s.id, s.name), s.input.first())
	case "model_output", "text", "image", "audio", "video", "document":
		if s.filled {
			r.t.text()
		}
	case "thought":
		r.t.enter(semconv.PhaseReasoning)
		if s.filled {
			r.t.reasoning()
		}
	case "user_input", "function_result":
	default:
		switch {
		case s.callsProvider():
			r.open.add(index, r.t.startProviderTool(s.providerTool()))
		case !s.ofProvider():
			r.t.Unread = true
		}
	}
}

func (r *interactionsReader) stop(index int) {
	if c := r.open.find(index); c != nil {
		r.t.endInput(c)
		r.open.remove(index)
	}
}

// end handles the end of the interaction, by its status.
func (r *interactionsReader) end(o *interactionsObject) {
	r.ended = true
	r.t.use(o.usage)
	if !r.anySteps { // they are only in the final response
		for i := range o.steps {
			r.begin(i, &o.steps[i])
			r.stop(i)
		}
	}
	if r.t.Terminal {
		return
	}
	switch status := string(o.status); status {
	case "completed", "requires_action":
		waits := status == "requires_action"
		r.open.endAll(&r.t)
		r.t.handOverAll()
		r.t.Unread = r.t.Unread || waits && r.t.ToolCalls == 0 // what it waits for was not read
		if waits || r.t.ToolCalls > 0 {
			r.t.finishAs("tool_calls")
		} else {
			r.t.finishAs("stop")
		}
		r.t.end()
	case "incomplete", "budget_exceeded":
		r.t.finishAs("incomplete")
		r.t.end()
	case "queued", "in_progress": // in the background
		r.t.finishAs(status)
		r.t.end()
	case "failed", "cancelled":
		f := o.fault
		if len(f.code) == 0 && status == "cancelled" {
			f.code = []byte(status)
		}
		f.seen = true
		r.t.fail(&f)
	default: // its meaning is not known
		r.t.Terminal, r.t.Unread = true, true
	}
}

func (r *interactionsReader) document(data []byte) payloadKind {
	var o interactionsObject
	o.usage = unknownUsage
	c := r.t.cursor(data)
	for key, ok := c.object(); ok; key, ok = c.key() {
		o.member(&c, key)
	}
	if v := r.t.payloadKind(&c); v != progress {
		return v
	}
	if len(o.status) == 0 {
		if f, ok := faultOf(data); ok && f.seen {
			r.t.fail(&f)
		} else {
			r.t.Unread = true
		}
		return progress
	}
	r.t.identify(o.id, o.model)
	r.t.Unread = r.t.Unread || o.unread
	r.end(&o)
	return progress
}

// interactionsEvent is the parsed form of one event.
type interactionsEvent struct {
	typ         []byte
	index       int
	step, delta interactionsStep
	response    interactionsObject
	fault       fault
	unread      bool // an unknown member contains text
	typed       bool // it has a type of its own, not the event's name
}

// interactionsStep is a step, or a part of one.
type interactionsStep struct {
	typ, id, name []byte
	filled        bool // it has content
	input         inputPart
}

// callsProvider reports whether it is a call that the provider executes.
func (s *interactionsStep) callsProvider() bool {
	return bytes.HasSuffix(s.typ, []byte("_call")) && string(s.typ) != "function_call"
}

// providerTool returns the name of the tool of such a call.
func (s *interactionsStep) providerTool() []byte {
	if name := bytes.TrimSuffix(s.typ, []byte("_call")); string(name) != "mcp_server_tool" {
		return name
	}
	return []byte("mcp")
}

// ofProvider reports whether it is such a call, or its result.
func (s *interactionsStep) ofProvider() bool {
	return s.callsProvider() || bytes.HasSuffix(s.typ, []byte("_result"))
}

// interactionsObject is an interaction: that of an event, or a whole body.
type interactionsObject struct {
	id, model, status []byte
	steps             []interactionsStep
	usage             Usage
	fault             fault
	unread            bool // an unknown member contains text
}

func (ev *interactionsEvent) read(c *cursor) {
	ev.response.usage = unknownUsage
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "event_type":
			ev.typ = c.str()
		case "index":
			ev.index = c.count()
		case "step", "content":
			ev.step = readInteractionsContent(c)
		case "delta":
			ev.delta = readInteractionsContent(c)
		case "interaction":
			for key, ok := c.object(); ok; key, ok = c.key() {
				ev.response.member(c, key)
			}
		case "error":
			ev.fault.read(c)
		case "event_id":
			c.skipVarying()
		case "status", "interaction_id", "usage", "step_usage", "metadata":
			c.skip()
		default:
			ev.unread = c.checkUnread(key) || ev.unread
		}
	}
	ev.unread = ev.unread || ev.response.unread
}

// member reads a member of an interaction. What the request had is repeated in it.
func (o *interactionsObject) member(c *cursor, key []byte) {
	switch string(key) {
	case "id":
		o.id = c.str()
	case "model":
		o.model = c.str()
	case "status":
		o.status = c.str()
	case "steps", "outputs":
		for ok := c.array(); ok; ok = c.element() {
			if s := readInteractionsContent(c); c.room(len(o.steps)) {
				o.steps = append(o.steps, s)
			}
		}
	case "usage":
		o.usage = readInteractionsUsage(c)
	case "error":
		o.fault.read(c)
	case "errors":
		for ok := c.array(); ok; ok = c.element() {
			o.fault.read(c)
		}
	case "object", "created", "updated", "role", "agent", "agent_config", "environment", "environment_id", "generation_config", "input",
		"labels", "previous_interaction_id", "response_format", "response_mime_type", "response_modalities", "safety_settings",
		"service_tier", "system_instruction", "tools", "webhook_config":
		c.skip()
	default:
		o.unread = c.checkUnread(key) || o.unread
	}
}

// readInteractionsContent reads a step, a delta, or a part of the content.
func readInteractionsContent(c *cursor) (s interactionsStep) {
	if c.peek() == '[' { // parts
		for ok := c.array(); ok; ok = c.element() {
			part := readInteractionsContent(c)
			s.filled = s.filled || part.filled
		}
		return s
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "type":
			s.typ = c.str()
		case "id":
			s.id = c.str()
		case "name":
			s.name = c.str()
		case "text", "data", "uri":
			s.filled = c.filled() || s.filled
		case "content", "summary":
			part := readInteractionsContent(c)
			s.filled = s.filled || part.filled
		case "arguments":
			s.input = c.inputPart()
		case "signature":
			c.skipVarying()
		case "annotations", "mime_type", "resolution", "call_id", "result", "is_error", "error", "rate", "channels", "server_name",
			"search_type", "language", "file_citation":
			c.skip()
		default:
			c.skipUnread(key)
		}
	}
	return s
}

func readInteractionsUsage(c *cursor) Usage {
	u := unknownUsage
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "total_input_tokens":
			u.Input = c.count()
		case "total_output_tokens":
			u.Output = c.count()
		case "total_cached_tokens":
			u.CacheRead = c.count()
		case "total_thought_tokens", "total_reasoning_tokens":
			u.Reasoning = c.count()
		default:
			c.skip()
		}
	}
	if u.Output >= 0 && u.Reasoning > 0 {
		u.Output += u.Reasoning // the thoughts are counted apart
	}
	return u
}
