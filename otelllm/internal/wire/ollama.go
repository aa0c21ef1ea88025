package wire

import "strings"

// ollama is Ollama's own API: a stream of JSON objects, one per line, or one object if
// the request has "stream": false. The object with "done": true ends and completes the
// response; done_reason is its finish reason. Servers that imitate this API may send the reason
// without the flag; Ollama itself has the reason in no other object.
// https://github.com/ollama/ollama/blob/main/docs/api.md
type ollama struct {
	generate bool // /api/generate, whose requests have no messages
}

func (ollama) Name() string                          { return "ollama" }
func (ollama) Provider() string                      { return "ollama" }
func (ollama) ReadError(_ int, b []byte) Error       { return readError(b) }
func (ollama) ReadRequest(b []byte) (Request, error) { return readOllamaRequest(b) }

var ollamaDecoders decoders[ollamaReader, *ollamaReader]

func (ollama) NewDecoder(ct string) Decoder { return ollamaDecoders.get(ct, formLines) }

func (o ollama) Operation() string {
	if o.generate {
		return "text_completion"
	}
	return "chat"
}

// ollamaAt matches …/api/chat and …/api/generate, which other applications have too.
func ollamaAt(path string) (p Protocol, sure bool) {
	switch {
	case strings.HasSuffix(path, "/api/chat"):
		return ollama{}, false
	case strings.HasSuffix(path, "/api/generate"):
		return ollama{generate: true}, false
	default:
		return nil, false
	}
}

// ollamaReader reads one response.
type ollamaReader struct{ t tally }

func (r *ollamaReader) tally() *tally { return &r.t }

func (r *ollamaReader) reset() { *r = ollamaReader{} }

// done has no effect: this protocol has no [DONE].
func (r *ollamaReader) done() {}

// closed has no effect: a call is always whole.
func (r *ollamaReader) closed(bool) {}

func (r *ollamaReader) read(data []byte, l *ollamaLine) payloadKind {
	c := r.t.cursor(data)
	l.read(&c)
	l.fault.addSiblings(data)
	v := r.t.payloadKind(&c)
	r.t.Unread = r.t.Unread || v == progress && l.unread && !l.answer && !l.fault.seen
	return v
}

func (r *ollamaReader) event(_, data []byte) payloadKind { return r.document(data) }

func (r *ollamaReader) add(d *contentDelta) { r.t.add(d) }

// document reads a whole answer, which has the form of a line.
func (r *ollamaReader) document(data []byte) payloadKind {
	var l ollamaLine
	if v := r.read(data, &l); v != progress {
		return v
	}
	return r.apply(&l)
}

func (r *ollamaReader) apply(l *ollamaLine) payloadKind {
	if l.fault.seen {
		r.t.fail(&l.fault)
		return progress
	}
	if !r.t.Terminal {
		r.t.identify(nil, l.model)
	}
	done := l.done || !l.open && len(l.reason) > 0
	d := contentDelta{text: l.text, reasoning: l.reasoning}
	if !done && len(l.calls) == 0 {
		return r.t.content(d)
	}
	r.t.add(&d)
	for _, made := range l.calls {
		c := r.t.start(made.id, made.name)
		r.t.handOver(&c) // a call is always whole
	}
	if !done || r.t.Terminal {
		return progress
	}
	usage := unknownUsage
	usage.Input, usage.Output = l.input, l.output
	r.t.use(usage)
	if len(l.reason) == 0 {
		l.reason = []byte("stop") // older servers have no done_reason
	}
	r.t.finish(l.reason)
	r.t.end()
	return progress
}
