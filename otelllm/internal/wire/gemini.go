package wire

import (
	"cmp"
	"strings"

	"github.com/otelllm/otelllm-go/semconv"
)

// gemini is Google's generateContent and streamGenerateContent, of the Gemini API and of
// Vertex AI. It has no terminal event: a response is complete when every candidate that
// was received has a finishReason, or when promptFeedback reports that the prompt was
// blocked. The stream is SSE (alt=sse) or one JSON array.
// https://ai.google.dev/api/generate-content
type gemini struct {
	// Data of the request's path that the body lacks. It is empty if the protocol was
	// found by its name and not by the path.
	model    string
	stream   bool
	fromPath bool   // model and stream are from the path
	host     string // the gen_ai.provider.name that the path shows
}

func (gemini) Name() string       { return "gemini" }
func (g gemini) Provider() string { return cmp.Or(g.host, "gcp.gemini") }
func (gemini) Operation() string  { return "generate_content" }

// HasTerminalEvent reports whether responses of p have a terminal event. If not, nothing has to
// follow the event that completes a response.
func HasTerminalEvent(p Protocol) bool {
	_, silent := bare(p).(gemini)
	return !silent
}

var geminiDecoders = decoders[geminiReader, *geminiReader]{envelope: geminiEnvelope}

func (gemini) NewDecoder(ct string) Decoder { return geminiDecoders.get(ct, formArray) }

func (gemini) ReadError(_ int, b []byte) Error { return readError(b) }

func (g gemini) ReadRequest(b []byte) (Request, error) {
	req, contents, err := readGeminiRequest(b)
	req.fillModel(g.model)
	if g.fromPath {
		req.Stream, req.StreamUnknown = g.stream, false
	}
	// A gateway that uses another path may have the model elsewhere.
	req.IsCall = contents
	return req, err
}

// geminiAt matches …/models/{model}:streamGenerateContent and …:generateContent, and those
// of Code Assist, …/v1internal:streamGenerateContent, which name no model.
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

// geminiReader reads one response.
type geminiReader struct {
	t          tally
	candidates openSet[int, geminiCandidate]
	unfinished int // number of candidates that have not finished
}

type geminiCandidate struct {
	finished bool
	open     bool // the input of call will continue
	call     call
}

func (r *geminiReader) tally() *tally { return &r.t }

func (r *geminiReader) reset() {
	*r = geminiReader{candidates: r.candidates.cleared()}
}

func (r *geminiReader) read(data []byte, ch *geminiChunk) payloadKind {
	c := r.t.cursor(data)
	ch.read(&c, false)
	ch.fault.addSiblings(data)
	v := r.t.payloadKind(&c)
	if v == progress && ch.unread && !ch.answer && !ch.fault.seen {
		if f, ok := strayError(nil, data); ok {
			ch.fault = f
		}
	}
	// A chunk without candidates either is not part of the answer, or has the answer in
	// an unknown place.
	r.t.Unread = r.t.Unread || v == progress && ch.unread && !ch.answer && !ch.fault.seen
	return v
}

func (r *geminiReader) event(_, data []byte) payloadKind { return r.document(data) }

// document reads a whole answer, which has the form of a chunk.
func (r *geminiReader) document(data []byte) payloadKind {
	ch := geminiChunk{usage: unknownGeminiUsage}
	if v := r.read(data, &ch); v != progress {
		return v
	}
	return r.apply(&ch)
}

func (r *geminiReader) add(d *contentDelta) {
	if !r.t.Terminal {
		usage := geminiUsage(d.counts)
		r.t.use(usage.counts())
	}
	candidate := r.candidateOf(d.index)
	if candidate != nil && candidate.open && (d.text || d.reasoning) {
		r.t.complete(&candidate.call) // what follows is not of it
	}
	r.t.add(d)
	if d.input {
		r.callPart(candidate, &geminiPart{continues: !d.last})
	}
	r.updateComplete()
}

// closed handles the end of the body. There is no event that has to come last, so a program may
// take a clean end for the end of the answer, and what it has of the arguments of a call for all
// of them: these have no form in which an open value shows.
// https://github.com/vercel/ai/issues/14358
func (r *geminiReader) closed(cut bool) {
	if cut {
		return
	}
	for i := range r.candidates.list {
		if known := &r.candidates.list[i].value; known.open {
			r.t.complete(&known.call)
		}
	}
}

// done handles the end of the array, or a [DONE] from a gateway.
func (r *geminiReader) done() {
	if r.t.Terminal {
		return
	}
	r.t.Terminal = true
	if r.t.Complete {
		r.t.Phase = semconv.PhaseStreamEnd
	}
}

// apply changes the state by the chunk.
func (r *geminiReader) apply(ch *geminiChunk) payloadKind {
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
		r.t.finishAs(finishReason(blockReason(ch.blocked))) // for any reason: there will be no answer
		r.t.Complete, r.t.Phase = true, semconv.PhaseStreamEnd
	}
	if ch.fault.seen {
		r.t.fail(&ch.fault)
	}
	return progress
}

// blockReason returns the finish reason of a prompt that was blocked. Gemini's reasons are
// also finish reasons, except these, which have no meaning without the context.
func blockReason(reason []byte) []byte {
	switch string(reason) {
	case "OTHER", "BLOCKED_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED":
		return []byte("content_filter")
	default:
		return reason
	}
}

// applyCandidate changes the state by a candidate. Its parts begin at index part.
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
		r.t.handOver(&known.call) // Vertex may omit the end of the last call
	}
	known.open = false
	if isFailure(d.finish) && !ch.fault.seen && !r.t.Terminal {
		ch.fault = fault{seen: true, typ: d.finish}
	}
}

func (r *geminiReader) part(known *geminiCandidate, p *geminiPart) {
	if known != nil && known.open && (p.filled || p.kind == geminiCall && len(p.name) > 0) {
		r.t.complete(&known.call) // what follows is not of it
	}
	switch p.kind {
	case geminiText:
		r.t.add(&contentDelta{text: p.text(), reasoning: p.reasoning()})
	case geminiCall:
		r.callPart(known, p)
	case geminiServerTool:
		r.t.providerTool(p.tool)
	}
}

// callPart reads a function call. Mostly it is whole, so that the application has it. On
// Vertex it may be split: the first part has the name, and every part but the last has
// willContinue.
func (r *geminiReader) callPart(known *geminiCandidate, p *geminiPart) {
	var c call
	switch {
	case known != nil && known.open && len(p.name) == 0:
		c = known.call
		r.t.fillIn(c, p.id, nil)
		if !c.completed {
			r.t.enter(semconv.PhaseToolInput)
		}
	case len(p.name) == 0 && len(p.id) == 0:
		return // a part of a call whose beginning was not received
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

// updateComplete sets whether the response is complete.
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

// candidateOf returns the candidate of this index; nil beyond the bound of candidates that
// are remembered.
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
