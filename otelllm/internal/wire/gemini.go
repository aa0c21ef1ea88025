package wire

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// gemini is Google's generateContent and streamGenerateContent, of the Gemini API
// and of Vertex AI. It has no terminal event: a response is complete when every
// candidate that was seen has a finishReason, or when promptFeedback says that the
// prompt was blocked. The stream is SSE (alt=sse), else one JSON array.
// https://ai.google.dev/api/generate-content
type gemini struct {
	// What the path of the request says, which the body does not: empty when the
	// protocol was named and not recognised.
	model    string
	stream   bool
	fromPath bool   // the path said these
	host     string // the gen_ai.provider.name that the path tells
}

func (gemini) Name() string       { return "gemini" }
func (g gemini) Provider() string { return cmp.Or(g.host, "gcp.gemini") }
func (gemini) Operation() string  { return "generate_content" }

// HasLastWord reports whether a response of p has a terminal event. Where it has none,
// nothing need follow what completes it.
func HasLastWord(p Protocol) bool {
	_, silent := p.(gemini)
	return !silent
}

var geminiDecoders decoders[geminiReader, *geminiReader]

func (gemini) NewDecoder(ct string) Decoder { return geminiDecoders.get(ct, formArray) }

// ReadError reads an error, which is an object in an array where the answer would
// have been an array.
func (gemini) ReadError(_ int, b []byte) Error {
	b = bytes.TrimLeft(bytes.TrimPrefix(b, []byte(byteOrderMark)), " \t\r\n[")
	return readError(b)
}

func (g gemini) ReadRequest(b []byte) (Request, error) {
	req, contents, err := readGeminiRequest(b)
	req.fillModel(g.model)
	if g.fromPath {
		req.Stream, req.StreamUnknown = g.stream, false
	}
	// Under a path of its own a gateway may have the model elsewhere.
	req.IsCall = contents
	return req, err
}

// geminiAt reads …/models/{model}:streamGenerateContent and …:generateContent, and
// those of Code Assist, …/v1internal:streamGenerateContent, which name no model.
func geminiAt(path string) (p Protocol, sure bool) {
	colon := strings.LastIndexByte(path, ':')
	if colon < 0 {
		return nil, false
	}
	resource, method := path[:colon], path[colon+1:]
	model := resource[strings.LastIndexByte(resource, '/')+1:]
	if model == "v1internal" {
		model = ""
	}
	g := gemini{model: model, fromPath: true, stream: method == "streamGenerateContent"}
	if !g.stream && method != "generateContent" {
		return nil, false
	}
	if strings.Contains(resource, "/publishers/") || strings.Contains(resource, "/endpoints/") {
		g.host = providerVertex
	}
	return g, true
}

// geminiReader follows one response.
type geminiReader struct {
	t          tally
	candidates openSet[int, geminiCandidate]
	unfinished int // candidates
}

type geminiCandidate struct {
	finished bool
	open     bool // call is one whose input will continue
	call     call
}

func (r *geminiReader) tally() *tally { return &r.t }

func (r *geminiReader) reset() {
	*r = geminiReader{candidates: r.candidates.cleared()}
}

func (r *geminiReader) event(_, data []byte) verdict { return r.document(data) }

// document reads a whole answer, which is as a chunk is.
func (r *geminiReader) document(data []byte) verdict {
	ch := geminiChunk{usage: unknownGeminiUsage}
	if v := r.read(data, &ch); v != progress {
		return v
	}
	return r.apply(&ch)
}

func (r *geminiReader) add(d *contentDelta) {
	if !r.t.Terminal {
		r.t.use(d.usage.counts())
	}
	candidate := r.candidateOf(d.index)
	r.t.add(d)
	if d.input {
		r.callPart(candidate, &geminiPart{continues: !d.last})
	}
	r.updateComplete()
}

// done takes the end of the array, or a [DONE] from a gateway.
func (r *geminiReader) done() {
	if r.t.Terminal {
		return
	}
	r.t.Terminal = true
	if r.t.Complete {
		r.t.Phase = semconv.PhaseStreamEnd
	}
}

// apply makes the chunk part of the state.
func (r *geminiReader) apply(ch *geminiChunk) verdict {
	if !r.t.Terminal {
		r.t.identify(ch.id, ch.model)
		r.t.use(ch.usage.counts())
	}
	if d, ok := ch.content(); ok {
		return r.t.content(d)
	}
	part := 0
	for i := range ch.candidates.n {
		d := ch.candidates.at(i)
		r.applyCandidate(ch, d, part)
		part += d.parts
	}
	if ch.candidates.n > 0 && !ch.fault.seen {
		r.updateComplete()
	}
	if len(ch.blocked) > 0 && !r.t.Complete && !r.t.Terminal {
		r.t.finishAs(finishReason(blockReason(ch.blocked))) // whatever it is, nothing of an answer comes
		r.t.Complete, r.t.Phase = true, semconv.PhaseStreamEnd
	}
	if ch.fault.seen {
		r.t.fail(&ch.fault)
	}
	return progress
}

// blockReason is the finish reason of a prompt that was blocked. Gemini's words are
// those of its finish reasons but for these two, which by themselves say nothing.
func blockReason(reason []byte) []byte {
	switch string(reason) {
	case "OTHER", "BLOCKED_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED":
		return []byte("content_filter")
	default:
		return reason
	}
}

// applyCandidate takes what a candidate says, whose parts begin at part.
func (r *geminiReader) applyCandidate(ch *geminiChunk, d *geminiDelta, part int) {
	known := r.candidateOf(d.index)
	for i := range d.parts {
		r.part(known, ch.parts.at(part+i))
	}
	if known == nil || known.finished || len(d.finish) == 0 {
		return
	}
	known.finished = true
	r.unfinished--
	if !r.t.Terminal {
		r.t.finish(d.finish)
	}
	if known.open && !cutsInput(d.finish) {
		r.t.handOver(&known.call) // Vertex may leave out the end of the last call
	}
	known.open = false
	if isFailure(d.finish) && !ch.fault.seen && !r.t.Terminal {
		ch.fault = fault{seen: true, typ: d.finish}
	}
}

func (r *geminiReader) part(known *geminiCandidate, p *geminiPart) {
	switch p.kind {
	case geminiText:
		r.t.add(&contentDelta{text: p.text(), reasoning: p.reasoning()})
	case geminiCall:
		r.callPart(known, p)
	case geminiServerTool:
		r.t.providerTools(1)
	}
}

// callPart takes a function call. It comes whole, and is the application's with
// that. On Vertex it may come in pieces: the first has the name, and each but the
// last says that it will continue.
func (r *geminiReader) callPart(known *geminiCandidate, p *geminiPart) {
	var c call
	switch {
	case known != nil && known.open && len(p.name) == 0:
		c = known.call
		r.t.fillIn(c, p.id, nil)
		r.t.enter(semconv.PhaseToolInput)
	case len(p.name) == 0 && len(p.id) == 0:
		return // a piece of a call that was not seen to begin
	default:
		c = r.t.start(p.id, p.name)
	}
	if p.continues {
		if known != nil {
			known.open, known.call = true, c
		}
		return
	}
	r.t.handOver(&c)
	if known != nil && len(p.name) == 0 {
		known.open = false
	}
}

// judge looks whether the response is complete.
func (r *geminiReader) updateComplete() {
	if r.t.Terminal {
		return
	}
	r.t.Complete = r.unfinished == 0
	switch {
	case !r.t.Complete:
	case r.t.ToolCalls == 0:
		r.t.Phase = semconv.PhaseStreamEnd
	default:
		r.t.Phase = semconv.PhaseToolCallReady
	}
}

// candidateOf is the candidate of this index; nil beyond the bound of what is
// remembered.
func (r *geminiReader) candidateOf(index int) *geminiCandidate {
	if known := r.candidates.find(index); known != nil {
		return known
	}
	added := r.candidates.add(index, geminiCandidate{})
	if added != nil {
		r.unfinished++
	}
	return added
}
