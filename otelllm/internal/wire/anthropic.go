package wire

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// anthropicMessages is Anthropic Messages, also as served by Vertex AI (the model is in
// the path) and by Amazon Bedrock's InvokeModel (the model is in the path, and the events
// of a stream are in AWS event-stream messages).
// https://docs.anthropic.com/en/api/messages
// https://cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude
// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html
type anthropicMessages struct {
	// Data of the request's path that the body lacks.
	model  string
	stream bool
	host   string // the gen_ai.provider.name
	// versioned: the path does not show whose model it is. The anthropic_version does, which
	// every body has there.
	versioned bool
}

var messagesDecoders = decoders[messagesReader, *messagesReader]{envelope: messagesEnvelope}

func (anthropicMessages) Name() string      { return "anthropic_messages" }
func (anthropicMessages) Operation() string { return "chat" }
func (anthropicMessages) NewDecoder(ct string) Decoder {
	d := messagesDecoders.get(ct, formMessages|formChunks)
	d.reader.usage = unknownMessagesUsage
	return d
}
func (anthropicMessages) ReadError(_ int, b []byte) Error { return readError(b) }

func (p anthropicMessages) Provider() string { return cmp.Or(p.host, "anthropic") }

func (p anthropicMessages) ReadRequest(b []byte) (Request, error) {
	req, messages, version, err := readMessagesRequest(b)
	req.fillModel(p.model)
	req.Stream = req.Stream || p.stream
	req.IsCall = messages && req.Model != "" && (version || !p.versioned)
	return req, err
}

// messagesAt matches …/v1/messages, Vertex AI's …/publishers/anthropic/models/{model}:
// streamRawPredict and :rawPredict, and Bedrock's …/model/{id}/invoke-with-response-
// stream and /invoke. /v1/messages is not a proof: services that send messages to people
// have it too. Neither is a model on Bedrock whose ARN does not show what it is.
func messagesAt(path string) (p Protocol, sure bool) {
	if strings.HasSuffix(path, "/v1/messages") {
		return anthropicMessages{}, false
	}
	if model, stream, ok := publishedModel(path, "anthropic"); ok {
		return anthropicMessages{model: model, stream: stream, host: providerVertex}, true
	}
	model, stream, ok := bedrockModel(path, "/invoke-with-response-stream", "/invoke")
	if !ok {
		return nil, false
	}
	sure = strings.Contains(model, "anthropic.")
	if !sure && !strings.HasPrefix(model, "arn:") {
		return nil, false // another vendor's model, which has other messages
	}
	return anthropicMessages{model: model, stream: stream, host: providerBedrock, versioned: !sure}, sure
}

// messagesReader reads one response of the Messages API.
type messagesReader struct {
	t     tally
	open  callSet[int] // open blocks of calls, by index
	begun bool         // a block has begun
	id    string       // of the message
	usage messagesUsage
}

func (r *messagesReader) tally() *tally { return &r.t }

func (r *messagesReader) reset() {
	*r = messagesReader{open: r.open.cleared()}
}

// done has no effect: this protocol has no [DONE].
func (r *messagesReader) done() {}

func (r *messagesReader) read(data []byte, ev *messagesEvent) payloadKind {
	c := r.t.cursor(data)
	ev.read(&c)
	ev.fault.addSiblings(data)
	return r.t.payloadKind(&c)
}

func (r *messagesReader) event(name, data []byte) payloadKind {
	var ev messagesEvent
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

func (r *messagesReader) add(d *contentDelta) { r.t.addWithCalls(d, &r.open) }

// apply changes the state by the event.
func (r *messagesReader) apply(ev *messagesEvent) payloadKind {
	switch string(ev.typ) {
	case "ping":
		return keepalive
	case "error":
		r.t.fail(&ev.fault)
		return progress
	}
	// An unknown member of an event, or an unknown event, may have content.
	r.t.Unread = r.t.Unread || ev.unread
	switch string(ev.typ) {
	case "content_block_delta":
		return r.delta(ev.index, &ev.delta)
	case "content_block_start":
		r.startBlock(ev.index, &ev.block)
	case "content_block_stop":
		r.stopBlock(ev.index)
	case "message_start":
		id := safeID(ev.message.id)
		if r.begun && !r.t.Terminal {
			if id != "" && id == r.id {
				return progress // gateways repeat it: vercel/ai#18332
			}
			r.restart()
		}
		r.id = id
		r.begin(&ev.message)
	case "message_delta":
		if !r.t.Terminal {
			r.stop(ev.delta.stop)
			r.use(&ev.message.usage)
		}
	case "message_stop":
		r.end()
	default:
		r.t.Unread = r.t.Unread || ev.delta.nonEmpty || len(ev.block.typ) > 0 || len(ev.message.content) > 0
	}
	return progress
}

// delta reads a part of a block.
func (r *messagesReader) delta(index int, md *messagesDelta) payloadKind {
	d := contentDelta{index: index}
	switch string(md.typ) {
	case "text_delta":
		d.text = md.filled
	case "thinking_delta":
		d.thinking, d.reasoning = true, md.filled
	case "compaction_delta":
		// A summary of the history, by the model for the model: reasoning, not an answer.
		d.reasoning = true
	case "input_json_delta":
		d.input, d.part = true, md.input
	case "signature_delta", "citations_delta":
	default:
		r.t.Unread = true
	}
	return r.t.content(d)
}

// restart handles the message_start of another message within one that has blocks: what stands in front
// of the provider has appended the answer of another attempt (Wei-Shaw/sub2api#991, vercel/ai#18331).
// SDKs fail on it, or put both answers into one message. Without a block before it nothing is mixed:
// Kimi sends several (MoonshotAI/Kimi-K2.5#33).
func (r *messagesReader) restart() {
	r.open.endAll(&r.t)
	r.t.spoil()
	r.t.Spliced = true
}

func (r *messagesReader) startBlock(index int, b *messagesBlock) {
	r.begun = true
	r.open.leave(&r.t)
	switch string(b.typ) {
	case "text":
		if b.filled {
			r.t.text()
		}
	case "thinking", "redacted_thinking", "compaction":
		r.t.enter(semconv.PhaseReasoning)
		if b.filled {
			r.t.reasoning()
		}
	case "tool_use":
		r.open.begin(&r.t, index, r.t.start(b.id, b.name), b.input.first())
	case "container_upload", "fallback":
	default:
		switch {
		case bytes.HasSuffix(b.typ, []byte("_tool_use")): // server_tool_use, mcp_tool_use
			r.open.add(index, r.t.startProviderTool(b.serverTool()))
		case !bytes.HasSuffix(b.typ, []byte("_tool_result")):
			r.t.Unread = true
		}
	}
	switch string(b.typ) {
	case "text", "thinking", "redacted_thinking", "compaction":
		r.t.Unread = r.t.Unread || b.unread
	}
}

func (r *messagesReader) stopBlock(index int) {
	if c := r.open.find(index); c != nil {
		r.t.endInput(c)
		r.open.remove(index)
	}
}

func (r *messagesReader) stop(reason []byte) {
	if len(reason) > 0 {
		r.t.FinishReasons = []string{r.t.reason(reason)}
	}
}

// closed handles the end of the body. Some servers send no message_stop: the stop_reason ends
// the message, too.
func (r *messagesReader) closed(cut bool) {
	if cut || r.t.over() {
		return
	}
	r.open.cleanEnd(&r.t)
	if len(r.t.FinishReasons) > 0 {
		r.end()
	}
}

// end handles message_stop: the application receives the message as it is, and its calls
// unless the answer was cut within them.
func (r *messagesReader) end() {
	if r.t.Terminal {
		return
	}
	r.t.Terminal = true
	reasons := r.t.FinishReasons
	if len(reasons) == 0 || !cutsInput([]byte(reasons[0])) {
		r.t.handOverAll()
	} else {
		r.open.fill(&r.t)
	}
	if len(reasons) > 0 {
		r.t.end()
	}
}

// use records Anthropic's counts, each of which is cumulative.
func (r *messagesReader) use(u *messagesUsage) {
	known := &r.usage
	known.input = latest(known.input, u.input)
	known.output = latest(known.output, u.output)
	known.cacheRead = latest(known.cacheRead, u.cacheRead)
	known.cacheCreation = latest(known.cacheCreation, u.cacheCreation)
	r.t.use(known.counts())
}

func (r *messagesReader) document(data []byte) payloadKind {
	var ev messagesEvent
	if v := r.read(data, &ev); v != progress {
		return v
	}
	if string(ev.typ) == "error" || ev.fault.seen {
		if !ev.fault.seen {
			ev.fault, _ = faultOf(data)
		}
		r.t.fail(&ev.fault)
		return progress
	}
	r.t.Unread = r.t.Unread || ev.unread && len(ev.message.content) == 0
	if r.begin(&ev.message); len(ev.message.stop) > 0 {
		r.end()
	}
	return progress
}

// begin reads a message. That of message_start is mostly empty, but not always: if a
// program that the provider executes calls the application's tools, it has the calls and
// the stop_reason, and only message_stop follows. Until there is a stop_reason the output
// count is a placeholder.
func (r *messagesReader) begin(m *messagesObject) {
	after := r.t.Terminal
	if !after {
		r.t.identify(m.id, m.model)
		if len(m.stop) == 0 {
			m.usage.output = -1
		}
		r.use(&m.usage)
	}
	for i := range m.content {
		r.startBlock(i, &m.content[i])
		r.stopBlock(i)
	}
	if !after {
		r.stop(m.stop)
	}
}
