package wire

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/otelllm/otelllm-go/otelllm/internal/carry"
	"github.com/otelllm/otelllm-go/otelllm/internal/sse"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire/eventstream"
	"github.com/otelllm/otelllm-go/semconv"
)

// reader decodes the payloads of one protocol. A payload changes the state only if it is
// well-formed to its end.
type reader interface {
	// event reads the payload of one event and changes the state accordingly; name is the
	// SSE event field. If the event is nothing but a delta, it returns [tally.content].
	event(name, data []byte) payloadKind
	// document reads a whole body that does not stream, as event does.
	document(data []byte) payloadKind
	// add changes the state by a delta. It may keep nothing of d.
	add(d *contentDelta)
	// done handles the [DONE] that ends Chat Completions, and that gateways append to
	// other protocols too.
	done()
	// closed handles the end of the body. cut: it was not the body's own end, which most
	// clients report as an error.
	closed(cut bool)
	// tally holds the state.
	tally() *tally
	// reset prepares the reader for another response. It may keep a little memory.
	reset()
}

// bodyDecoder is the [Decoder] of every protocol. It detects the framing and passes
// payloads to the protocol's reader. What is not of the protocol sets State.Unread, and
// the decoding continues: some clients continue too, and what they find has to be
// counted. A body that only begins as something else is a violation until an event is
// received.
type bodyDecoder struct {
	reader reader
	tally  *tally // the reader's
	state  *State // the tally's
	fast   fastPath
	values values // see fastPath

	mode    mode
	list    listPlace // when listed
	bare    bool      // when listed: there is no array, only a sequence of objects
	sniff   sniffer
	frames  sse.Decoder          // when framed
	packets *eventstream.Decoder // when packed
	doc     *document            // when whole or listed: the current object; when framed: one between the events, or nil
	line    []byte               // when lined: the unfinished line of the last Write
	inner   []byte               // the event inside the last chunk; its memory is reused
	cutLine bool                 // when lined: the beginning of the current line was dropped

	envelope *envelope // of the protocol; nil: every form is taken for its own
	form     form      // of the payloads so far

	provisional    bool                   // the state's violation is how the body began: an event withdraws it
	laterViolation semconv.TransportCause // when provisional: the first violation after that
}

// maxStray bounds a line before the first event of a body that does not begin with a
// framing, in bytes.
const maxStray = 64 << 10

// decoder is a bodyDecoder and its reader, an R, in one allocation: for a short stream
// allocations are a large part of the cost.
type decoder[R any, P interface {
	*R
	reader
}] struct {
	bodyDecoder
	reader R
	from   *decoders[R, P]
}

// decoders creates the decoders of one protocol and reuses those that were released.
type decoders[R any, P interface {
	*R
	reader
}] struct {
	released sync.Pool
	envelope *envelope
}

func (ds *decoders[R, P]) get(contentType string, f forms) *decoder[R, P] {
	d, ok := ds.released.Get().(*decoder[R, P])
	if !ok {
		d = &decoder[R, P]{}
	}
	d.from = ds
	d.init(contentType, P(&d.reader), f)
	d.envelope = ds.envelope
	return d
}

// Release implements [Decoder]. The slices and strings of the state stay valid.
func (d *decoder[R, P]) Release() {
	d.stop()
	d.fast.reset()
	d.bodyDecoder = bodyDecoder{fast: d.fast}
	P(&d.reader).reset()
	d.from.released.Put(d)
}

func (d *bodyDecoder) init(contentType string, r reader, f forms) {
	d.reader, d.tally = r, r.tally()
	d.state, d.tally.values = &d.tally.State, &d.values
	d.state.Phase = semconv.PhaseResponseStarted
	d.state.Usage = unknownUsage
	d.state.FinishReasons = []string{}
	d.sniff.media, d.sniff.forms = mediaOf(contentType), f
	d.presumeViolation()
}

// fillInputs implements [FillsInputs].
func (d *bodyDecoder) fillInputs() { d.tally.fills = true }

// presumeViolation sets the violation of a body that has not begun: only its content
// type is known, and no model answers with it.
func (d *bodyDecoder) presumeViolation() {
	if d.sniff.media == mediaForeign {
		d.state.Violation = semconv.TransportCauseUnexpectedContentType
	}
}

func (d *bodyDecoder) State() *State { return d.state }

func (d *bodyDecoder) Write(p []byte) {
	if d.mode == sniffing {
		d.begin(p)
		return
	}
	d.write(p)
}

func (d *bodyDecoder) write(p []byte) {
	switch d.mode {
	case framed:
		d.frames.Write(p)
	case whole:
		d.writeDocument(p)
	case listed:
		d.writeList(p)
	case lined:
		d.writeLines(p)
	case packed:
		d.packets.Write(p)
	case separate:
		d.writeMessage(p)
	case over:
		d.after(p)
	}
}

// writeMessage reads p, which is one payload.
func (d *bodyDecoder) writeMessage(p []byte) {
	if len(p) > MaxEvent {
		d.eventDropped(droppedTooLong)
		return
	}
	d.payload(nil, p, false)
}

// after handles the bytes after the end of a document or an array.
func (d *bodyDecoder) after(p []byte) {
	if d.mode == over && !isBlank(p) {
		d.state.Unread = true
	}
}

// begin reads the first bytes of the body until they show the framing.
func (d *bodyDecoder) begin(p []byte) {
	d.state.Violation = semconv.TransportCauseUnset
	for i, b := range p {
		m, decided := d.sniff.next(b)
		if !decided {
			continue
		}
		d.mode, d.state.Violation = m, d.sniff.violation
		d.provisional = d.state.Violation != semconv.TransportCauseUnset
		switch m {
		case framed:
			limit := MaxEvent
			if d.provisional {
				limit = maxStray
			}
			// An array where an answer is an object: its content is not decoded.
			d.state.Unread = b == '[' && d.provisional
			d.frames.Init((*payloads)(d), limit)
		case packed:
			d.packets = eventstream.New((*messages)(d), MaxEvent)
		case whole:
			d.doc = &document{}
		case listed:
			d.doc = &document{}
			if d.bare = b == '{'; d.bare {
				d.list = listBare
			}
		}
		// head includes the byte itself. If all of it is in p, p has it together with what
		// follows, and the first line need not be assembled.
		if head := d.sniff.head(); bytes.HasSuffix(p[:i+1], head) {
			d.write(p[i+1-len(head):])
		} else {
			d.write(head)
			d.write(p[i+1:])
		}
		return
	}
}

func (d *bodyDecoder) writeDocument(p []byte) {
	n := d.doc.write(p)
	switch {
	case d.doc.dropped != notDropped:
		d.giveUp()
	case d.doc.closed:
		d.readDocument(d.doc.bytes())
		d.end()
		d.after(p[n:])
	}
}

func (d *bodyDecoder) readDocument(data []byte) {
	v := d.reader.document(data)
	if v == misnamed {
		v = d.reader.document(canonical(data))
	}
	if v == content {
		addDelta(d.reader, &d.tally.delta)
		v = progress
	}
	if v != progress {
		d.malformed(data)
		return
	}
	d.state.Events++
	if st := d.state; st.Err == nil && !st.Complete && st.TextChunks+st.ReasoningChunks+st.ToolInputsStarted+st.ProviderToolsStarted == 0 {
		// An object that has nothing of an answer may say that it is an error.
		if f, _ := faultOf(data); f.seen || f.known() {
			d.tally.fail(&f)
		}
	}
	d.sawForm(data)
	d.judgeForm()
	d.state.Terminal = true
	if d.state.Complete {
		d.state.Phase = semconv.PhaseStreamEnd
	} else {
		d.state.Phase = semconv.PhaseResponseStarted
	}
}

func (d *bodyDecoder) Close() {
	d.tally.late = true
	d.flush()
	d.reader.closed(false)
}

// flush dispatches what no blank line has ended.
func (d *bodyDecoder) flush() {
	switch d.mode {
	case sniffing:
		// The body was cut within bytes that do not show a framing yet.
		d.presumeViolation()
	case framed:
		d.frames.Close()
		d.strayed()
		if st := d.state; d.frames.Foreign() && d.sniff.violation == semconv.TransportCauseUnset {
			// Without any event it is no event stream.
			st.Unread, st.GaveUp = true, st.Events == 0 && st.Err == nil && st.Violation == semconv.TransportCauseUnset
		}
	case whole:
		// A document that has not closed was cut. It never reached the application, so it
		// does not count.
	case listed:
		// The same holds for an object that was cut.
	case packed:
		// A message that was cut does not count: its checksum is missing.
	case lined:
		d.payload(nil, d.line, true)
	}
	d.judgeForm()
	d.stop()
}

// Cut implements [Decoder].
func (d *bodyDecoder) Cut(truncated bool) {
	if json.Valid(d.line) {
		d.Close() // an object is complete by itself, with or without the end of its line
		return
	}
	complete, terminal, phase := d.state.Complete, d.state.Terminal, d.state.Phase
	failed := d.state.Err != nil
	d.tally.truncated = truncated
	d.flush()
	d.reader.closed(true)
	if d.state.Err != nil && !failed {
		return
	}
	d.state.Terminal = terminal
	if d.state.Complete && !complete {
		d.state.Complete = false
		if d.state.Phase == semconv.PhaseStreamEnd {
			d.state.Phase = phase
		}
	}
}

// violate records a violation of the protocol. The decoding continues after it.
func (d *bodyDecoder) violate(cause semconv.TransportCause) {
	d.state.Unread = true
	switch {
	case d.state.Violation == semconv.TransportCauseUnset:
		d.state.Violation = cause
	case d.provisional && d.laterViolation == semconv.TransportCauseUnset:
		d.laterViolation = cause
	}
}

// withdrawViolation removes the violation that the body began with. It is called once
// an event was received.
func (d *bodyDecoder) withdrawViolation() {
	if d.provisional {
		d.provisional, d.state.Violation = false, d.laterViolation
		d.frames.Limit(MaxEvent)
	}
}

// eventDropped records that an event is not decoded.
func (d *bodyDecoder) eventDropped(why dropReason) {
	if d.state.Unread = true; why == droppedTooLong {
		d.violate(semconv.TransportCauseEventTooLong)
	}
}

// giveUp ends the decoding of a body that cannot be read further.
func (d *bodyDecoder) giveUp() {
	d.state.Unread, d.state.GaveUp = true, true
	d.stop()
}

// end records that the document or the array has ended.
func (d *bodyDecoder) end() {
	d.stop()
	d.mode = over
}

// stop releases what is buffered; later bytes are ignored.
func (d *bodyDecoder) stop() {
	d.mode = stopped
	d.frames.Stop()
	if d.packets != nil {
		d.packets.Stop()
	}
	d.doc.drop()
	carry.Drop(d.line)
	d.doc, d.line = nil, nil
}

// payload handles the payload of one event. cut: the body ended within the event.
func (d *bodyDecoder) payload(name, data []byte, cut bool) {
	if isBlank(data) {
		switch {
		case cut:
		case string(name) == "error":
			// The error has no message: NestJS omits the data then.
			d.state.Events++
			d.tally.fail(&fault{seen: true})
			d.withdrawViolation()
		default:
			d.state.Keepalives++ // a heartbeat, which has at most a name
		}
		return
	}
	if isDone(data) {
		d.state.Events++
		d.reader.done()
		d.judgeForm()
		return
	}
	v := d.event(name, data)
	if v == malformed {
		v = d.first(name, data, cut)
	}
	switch v {
	case progress:
		d.state.Events++
		d.sawForm(data)
	case keepalive:
		d.state.Keepalives++
	default:
		// A payload that was cut by the end of the body is an interruption, not a violation.
		if !cut {
			d.malformed(data)
		}
		return
	}
	d.withdrawViolation()
}

// malformed records a payload that could not be read. A word, such as a heartbeat, would not have
// been a part of the answer, and Python reads an object with a NaN or an Infinity.
func (d *bodyDecoder) malformed(data []byte) {
	d.violate(semconv.TransportCauseMalformedEvent)
	c := cursor{b: data}
	if c.peek() == '{' && !bytes.Contains(data, []byte("NaN")) && !bytes.Contains(data, []byte("Infinity")) {
		d.state.Broken = d.state.Broken || !d.state.Complete && !d.state.Terminal
	}
}

// event reads the payload of one event.
func (d *bodyDecoder) event(name, data []byte) payloadKind {
	if d.sniff.forms&formChunks != 0 && string(name) == "chunk" {
		var ok bool
		if data, ok = d.unwrap(data); !ok {
			return malformed
		}
		name, d.form = nil, formOwn
	}
	if delta := d.fast.find(name, data); delta != nil {
		addDelta(d.reader, delta)
		return progress
	}
	v := d.reader.event(name, data)
	if v == misnamed {
		data = canonical(data)
		v = d.reader.event(name, data)
	}
	if v == content {
		d.fast.learn(name, data, d.tally.values, d.tally.delta)
		addDelta(d.reader, &d.tally.delta)
		return progress
	}
	return v
}

// first reads the object that a malformed payload begins with: some clients read no
// further. Another value at its beginning is not decoded.
func (d *bodyDecoder) first(name, data []byte, cut bool) payloadKind {
	c := cursor{b: data}
	object := c.peek() == '{'
	c.skip()
	end := c.i
	if c.bad || c.end() {
		return malformed
	}
	d.state.Unread = true
	if !object {
		return malformed
	}
	v := d.event(name, data[:end])
	if v != malformed && !cut {
		d.violate(semconv.TransportCauseMalformedEvent)
	}
	return v
}

// isDone reports whether a payload is the [DONE] that ends Chat Completions.
func isDone(data []byte) bool {
	if data[0] <= ' ' {
		data = bytes.TrimLeft(data, " \t\n")
	}
	return data[0] == '[' && bytes.HasPrefix(data, []byte("[DONE]"))
}

// payloads is bodyDecoder as the sink of its SSE framing.
type payloads bodyDecoder

func (d *payloads) Event(ev sse.Event) {
	(*bodyDecoder)(d).payload(ev.Name, ev.Data, ev.Unterminated)
}

// Take implements [sse.Sink].
func (d *payloads) Take(p []byte) int {
	delta, n := d.fast.take(p)
	if n > 0 {
		addDelta(d.reader, delta)
		d.state.Events++
	}
	return n
}

func (d *payloads) Comment() { d.state.Keepalives++ }

// Stray reads an error that a server or a gateway wrote into the stream without framing,
// on one line or on several. Some SDKs ignore it, but it is the cause of what follows.
func (d *payloads) Stray(line []byte, first bool) {
	if first || d.doc == nil {
		(*bodyDecoder)(d).strayed()
		d.doc = &document{}
	}
	was := d.doc.dropped
	d.doc.write(line)
	if d.doc.dropped != was {
		(*bodyDecoder)(d).eventDropped(d.doc.dropped)
	}
	if d.doc.closed {
		(*bodyDecoder)(d).strayed()
	}
}

// strayed reads the object between the events. Readers of events ignore one that is not
// an error, but a client may read it.
func (d *bodyDecoder) strayed() {
	doc := d.doc
	if doc == nil {
		return
	}
	d.doc = nil
	defer doc.drop()
	if !doc.closed || doc.dropped != notDropped {
		return
	}
	if f, ok := faultOf(doc.bytes()); ok && (f.seen || f.known()) {
		d.state.Events++
		d.tally.fail(&f)
		return
	}
	if c := (cursor{b: doc.bytes()}); !c.hasText() && !c.bad {
		return
	}
	d.state.Unread = true
	if d.state.Events == 0 && d.state.Violation == semconv.TransportCauseUnset {
		d.state.Violation, d.provisional = semconv.TransportCauseMalformedEvent, true
	}
}

// Dropped implements [sse.Sink].
func (d *payloads) Dropped(tooLong bool) {
	why := droppedNoMemory
	if tooLong {
		why = droppedTooLong
	}
	(*bodyDecoder)(d).eventDropped(why)
}

// isBlank reports whether there are only blanks of ASCII: others are no blanks in JSON, and may
// be in two pieces.
func isBlank(data []byte) bool {
	return len(data) == 0 || data[0] <= ' ' && len(bytes.Trim(data, " \t\r\n\v\f")) == 0
}
