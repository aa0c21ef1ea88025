package wire

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// anthropicMessages is Anthropic Messages, also as Vertex AI serves it (the model is
// in the path) and Amazon Bedrock's InvokeModel (the model is in the path, and the
// events of a stream are in AWS event-stream messages).
// https://docs.anthropic.com/en/api/messages
// https://cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude
// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html
type anthropicMessages struct {
	// What the path of the request says, which the body does not.
	model  string
	stream bool
	host   string // the gen_ai.provider.name
	// versioned: the path does not tell whose model it is. The anthropic_version that
	// every body has there does.
	versioned bool
}

var messagesDecoders decoders[messagesReader, *messagesReader]

func (anthropicMessages) Name() string      { return "anthropic_messages" }
func (anthropicMessages) Operation() string { return "chat" }
func (anthropicMessages) NewDecoder(ct string) Decoder {
	d := messagesDecoders.get(ct, formMessages)
	d.reader.usage = unknownMessagesUsage
	return d
}
func (anthropicMessages) ReadError(_ int, b []byte) Error { return readError(b) }

func (p anthropicMessages) Provider() string { return cmp.Or(p.host, "anthropic") }

func (p anthropicMessages) ReadRequest(b []byte) (Request, error) {
	req, messages, version, err := readMessagesRequest(b)
	req.asked(p.model)
	req.Stream = req.Stream || p.stream
	req.IsCall = messages && req.Model != "" && (version || !p.versioned)
	return req, err
}

// messagesAt reads …/v1/messages, Vertex AI's …/publishers/anthropic/models/{model}:
// streamRawPredict and :rawPredict, and Bedrock's …/model/{id}/invoke-with-response-
// stream and /invoke. /v1/messages is no proof: services that send messages to
// people have it as well. Nor is a model of Bedrock's behind an ARN that does not
// say what it is.
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
		return nil, false // another maker's, whose messages are others
	}
	return anthropicMessages{model: model, stream: stream, host: providerBedrock, versioned: !sure}, sure
}

// messagesReader follows one response of the Messages API.
type messagesReader struct {
	t     tally
	open  known[int, call] // client-executed tool_use blocks that have not stopped, by their index
	usage messagesUsage
	inner []byte // the event that a chunk of Bedrock's held last; its memory is used again

	shapes shapes[blockDelta]
}

// blockDelta is a piece of a block.
type blockDelta struct {
	kind  blockDeltaKind
	index int32
}

type blockDeltaKind uint8

const (
	blockOther blockDeltaKind = iota
	blockText
	blockThinking
	blockInput
	blockCompaction
	blockUnknown
)

func blockDeltaOf(typ []byte) blockDeltaKind {
	switch string(typ) {
	case "text_delta":
		return blockText
	case "thinking_delta":
		return blockThinking
	case "input_json_delta":
		return blockInput
	case "compaction_delta":
		return blockCompaction
	case "signature_delta", "citations_delta":
		return blockOther
	default:
		return blockUnknown
	}
}

func (r *messagesReader) tally() *tally { return &r.t }

func (r *messagesReader) reset() {
	r.shapes.reset()
	*r = messagesReader{open: r.open.emptied(), shapes: r.shapes}
}

// done takes a [DONE], which this protocol does not have: it changes nothing.
func (r *messagesReader) done() {}

func (r *messagesReader) event(name, data []byte) verdict {
	if string(name) == "chunk" {
		var ok bool
		if data, ok = r.unwrap(data); !ok {
			return malformed
		}
		return r.inside(data)
	}
	return r.eventOf(name, data)
}

// inside takes the event inside of a chunk of Bedrock's.
func (r *messagesReader) inside(data []byte) verdict {
	if v := r.eventOf(nil, data); v != misnamed {
		return v
	}
	return r.eventOf(nil, canonical(data))
}

func (r *messagesReader) eventOf(name, data []byte) verdict {
	if d, f := r.shapes.match(data); d != nil {
		r.known(d, f)
		return progress
	}
	var ev messagesEvent
	if v := r.read(data, &ev); v != progress {
		return v
	}
	if len(ev.typ) == 0 {
		ev.typ = name
	} else if string(ev.typ) == "content_block_delta" && learnable(ev.index) {
		r.shapes.learn(name, data, blockDelta{blockDeltaOf(ev.delta.typ), int32(ev.index)})
	}
	return r.apply(&ev)
}

func (r *messagesReader) take(p []byte) int {
	d, f, n := r.shapes.take(p)
	if d != nil {
		r.known(d, f)
	}
	return n
}

// known takes a delta of a known shape.
func (r *messagesReader) known(d *blockDelta, f filled) {
	if d.kind == blockText && f.has(whatText) { // which is most of a stream
		r.t.text()
		return
	}
	r.delta(d.kind, int(d.index), f.has(whatText))
}

// apply makes the event part of the state.
func (r *messagesReader) apply(ev *messagesEvent) verdict {
	switch string(ev.typ) {
	case "ping":
		return keepalive
	case "error":
		r.t.fail(&ev.fault)
		return progress
	}
	// What is not known says something: a member of an event, or the event itself.
	r.t.Unread = r.t.Unread || ev.doubt
	switch string(ev.typ) {
	case "content_block_delta":
		r.delta(blockDeltaOf(ev.delta.typ), ev.index, ev.delta.filled)
	case "content_block_start":
		r.startBlock(ev.index, &ev.block)
	case "content_block_stop":
		r.stopBlock(ev.index)
	case "message_start":
		// A second one begins the message anew, as the SDK does it; calls that the
		// first one left open stay open.
		r.open.clear()
		r.begin(&ev.message)
	case "message_delta":
		if !r.t.Terminal {
			r.stop(ev.delta.stop)
			r.use(&ev.message.usage)
		}
	case "message_stop":
		r.end()
	default:
		r.t.Unread = r.t.Unread || ev.delta.says || len(ev.block.typ) > 0 || len(ev.message.content) > 0
	}
	return progress
}

func (r *messagesReader) delta(kind blockDeltaKind, index int, filled bool) {
	switch kind {
	case blockText:
		if filled {
			r.t.text()
		}
	case blockThinking:
		if filled {
			r.t.thought()
		} else {
			r.t.enter(semconv.PhaseReasoning)
		}
	case blockInput:
		if r.open.find(index) != nil {
			r.t.enter(semconv.PhaseToolInput)
		}
	case blockCompaction:
		// The history in short, by the model and for the model: what it thinks, not what
		// it answers.
		r.t.thought()
	case blockUnknown:
		r.t.Unread = true
	}
}

func (r *messagesReader) startBlock(index int, b *messagesBlock) {
	switch string(b.typ) {
	case "text":
		if b.filled {
			r.t.text()
		}
	case "thinking", "redacted_thinking", "compaction":
		r.t.enter(semconv.PhaseReasoning)
		if b.filled {
			r.t.thought()
		}
	case "tool_use":
		r.open.add(index, r.t.start(b.id, b.name))
	case "container_upload", "fallback":
	default:
		switch {
		case bytes.HasSuffix(b.typ, []byte("_tool_use")): // server_tool_use, mcp_tool_use
			r.t.providerTools(1)
		case !bytes.HasSuffix(b.typ, []byte("_tool_result")):
			r.t.Unread = true
		}
	}
	switch string(b.typ) {
	case "text", "thinking", "redacted_thinking", "compaction":
		r.t.Unread = r.t.Unread || b.doubt
	}
}

func (r *messagesReader) stopBlock(index int) {
	if c := r.open.find(index); c != nil {
		r.t.complete(c)
		r.open.remove(index)
	}
}

func (r *messagesReader) stop(reason []byte) {
	if len(reason) > 0 {
		r.t.FinishReasons = []string{r.t.reason(reason)}
	}
}

// end is message_stop: the message is handed over as it is, and its calls with it
// unless the answer was cut within them.
func (r *messagesReader) end() {
	if r.t.Terminal {
		return
	}
	r.t.Terminal = true
	reasons := r.t.FinishReasons
	if len(reasons) == 0 || !cutsInput(reasons[0]) {
		r.t.handOverAll()
	}
	if len(reasons) > 0 {
		r.t.end()
	}
}

// use records Anthropic's counts, which are cumulative each for itself.
func (r *messagesReader) use(u *messagesUsage) {
	known := &r.usage
	known.input = latest(known.input, u.input)
	known.output = latest(known.output, u.output)
	known.cacheRead = latest(known.cacheRead, u.cacheRead)
	known.cacheCreation = latest(known.cacheCreation, u.cacheCreation)
	r.t.use(known.counts())
}

func (r *messagesReader) document(data []byte) verdict {
	var ev messagesEvent
	if v := r.read(data, &ev); v != progress {
		return v
	}
	if string(ev.typ) == "error" || ev.fault.seen {
		r.t.fail(&ev.fault)
		return progress
	}
	r.t.Unread = r.t.Unread || ev.doubt && len(ev.message.content) == 0
	if r.begin(&ev.message); len(ev.message.stop) > 0 {
		r.end()
	}
	return progress
}

// begin takes a message. That of message_start is mostly empty, but not always:
// when a program of the provider's calls the application's tools, it holds the
// calls and the stop_reason, and nothing but message_stop follows. Until there is a
// stop_reason the output's count is a placeholder.
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
