package wire

import (
	"cmp"
	"strings"
)

// bedrockConverse is Amazon Bedrock's Converse and ConverseStream. messageStop is the
// terminal event, and completes the response if it has a stopReason. The metadata that
// follows it has the usage. An exception ends the stream.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
type bedrockConverse struct {
	// Data of the request's path that the body lacks. It is empty if the protocol was
	// found by its name and not by the path.
	model    string
	stream   bool
	fromPath bool // model and stream are from the path
}

func (bedrockConverse) Name() string      { return "bedrock_converse" }
func (bedrockConverse) Provider() string  { return providerBedrock }
func (bedrockConverse) Operation() string { return "chat" }

var converseDecoders decoders[converseReader, *converseReader]

func (bedrockConverse) NewDecoder(ct string) Decoder { return converseDecoders.get(ct, formMessages) }

// ReadError reads an error. Mostly its type is only in a header: see [CompleteError].
func (bedrockConverse) ReadError(_ int, b []byte) Error { return readError(b) }

func (p bedrockConverse) ReadRequest(b []byte) (Request, error) {
	req, messages, err := readConverseRequest(b)
	req.fillModel(p.model)
	if p.fromPath {
		req.Stream, req.StreamUnknown = p.stream, false
	}
	if prompt := cmp.Or(p.model, req.Model); strings.HasPrefix(prompt, "arn:") && strings.Contains(prompt, ":prompt/") {
		req.ProviderTools = nil // the stored prompt may offer more tools than the request
	}
	// A gateway that uses another path may have the model elsewhere.
	req.IsCall = messages
	return req, err
}

// bedrockAt matches …/model/{id}/converse-stream and …/model/{id}/converse.
func bedrockAt(path string) (p Protocol, sure bool) {
	if model, stream, ok := bedrockModel(path, "/converse-stream", "/converse"); ok {
		return bedrockConverse{model: model, stream: stream, fromPath: true}, true
	}
	return nil, false
}

// converseReader reads one response.
type converseReader struct {
	t    tally
	open callSet[int] // open toolUse blocks, by index
}

func (r *converseReader) tally() *tally { return &r.t }

func (r *converseReader) reset() {
	*r = converseReader{open: r.open.cleared()}
}

// done has no effect: this protocol has no [DONE].
func (r *converseReader) done() {}

func (r *converseReader) read(data []byte, ev *converseEvent) payloadKind {
	c := r.t.cursor(data)
	ev.read(&c)
	return r.t.payloadKind(&c)
}

func (r *converseReader) event(name, data []byte) payloadKind {
	var ev converseEvent
	if v := r.read(data, &ev); v != progress {
		return v
	}
	if ev.fault.seen {
		r.t.fail(&ev.fault)
		return progress
	}
	return r.apply(name, &ev)
}

func (r *converseReader) add(d *contentDelta) { r.t.addWithCalls(d, &r.open) }

func (r *converseReader) apply(name []byte, ev *converseEvent) payloadKind {
	if string(name) == "metadata" {
		r.t.use(ev.usage.counts()) // also after the terminal event
		return progress
	}
	r.t.Unread = r.t.Unread || ev.unread
	switch string(name) {
	case "contentBlockDelta":
		return r.t.content(ev.delta.content(ev.index))
	case "contentBlockStart":
		r.startBlock(ev.index, &ev.start)
	case "contentBlockStop":
		r.stopBlock(ev.index)
	case "messageStop":
		if !r.t.Terminal {
			r.end(ev.stop)
		}
	case "messageStart":
	default:
		r.t.Unread = r.t.Unread || ev.delta.nonEmpty || ev.start.nonEmpty || len(ev.content) > 0
	}
	return progress
}

func (r *converseReader) startBlock(index int, b *converseBlock) {
	r.open.leave(&r.t)
	switch {
	case b.kind != converseTool:
		d := b.content(index)
		r.add(&d)
	case string(b.typ) == "server_tool_use":
		r.open.add(index, r.t.startProviderTool(b.name))
	default:
		r.open.begin(&r.t, index, r.t.start(b.id, b.name), b.input)
	}
}

func (r *converseReader) stopBlock(index int) {
	if c := r.open.find(index); c != nil {
		r.t.endInput(c)
		r.open.remove(index)
	}
}

// closed handles the end of the body. AWS's client does not report that the body ended too
// early, but a reset.
func (r *converseReader) closed(cut bool) {
	if !r.t.Terminal && (!cut || r.t.truncated) {
		r.open.cleanEnd(&r.t)
	}
}

// end handles messageStop: the application receives the message as it is, and its calls
// unless the answer was cut within them.
func (r *converseReader) end(reason []byte) {
	if len(reason) > 0 {
		r.t.finish(reason)
	}
	if isFailure(reason) {
		r.t.fail(&fault{seen: true, typ: reason})
		return
	}
	r.t.Terminal = true
	if !cutsInput(reason) {
		r.t.handOverAll()
	} else {
		r.open.fill(&r.t)
	}
	if len(reason) > 0 {
		r.t.end()
	}
}

func (r *converseReader) document(data []byte) payloadKind {
	var ev converseEvent
	if v := r.read(data, &ev); v != progress {
		return v
	}
	if ev.fault.seen {
		r.t.fail(&ev.fault)
		return progress
	}
	r.t.Unread = r.t.Unread || ev.unread
	r.t.use(ev.usage.counts())
	for i := range ev.content {
		r.startBlock(i, &ev.content[i])
		r.stopBlock(i)
	}
	if len(ev.stop) > 0 {
		r.end(ev.stop)
	}
	return progress
}
