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
	event(name, data []byte) verdict
	// document reads a whole body that does not stream, as event does.
	document(data []byte) verdict
	// add changes the state by a delta. It may keep nothing of d.
	add(d *contentDelta)
	// done handles the [DONE] that ends Chat Completions, and that gateways append to
	// other protocols too.
	done()
	// tally holds the state.
	tally() *tally
	// reset prepares the reader for another response. It may keep a little memory.
	reset()
}

// verdict is what a payload was.
type verdict uint8

const (
	malformed verdict = iota
	progress
	keepalive
	misnamed // its members are named in another case: nothing was made of it
	content  // it is a delta, which the caller adds: see tally.content
)

// bodyDecoder is the [Decoder] of every protocol. It finds the framing and hands
// payloads to the protocol's reader. What is not the protocol makes the state Unread,
// and the decoding goes on: some client or other reads on as well, and what it finds
// has to be counted. A body that only begins as something else is a violation until an
// event comes.
type bodyDecoder struct {
	reader reader
	tally  *tally // the reader's
	state  *State // the tally's
	fast   fastPath
	values values // see fastPath

	mode    mode
	list    listPlace // when listed
	bare    bool      // when listed: there is no array, only objects in a row
	sniff   sniffer
	frames  sse.Decoder          // when framed
	packets *eventstream.Decoder // when packed
	doc     *document            // when whole, bare or listed: the object that is being read; when framed: one that stands between the events, or nil
	line    []byte               // when lined: the line that the last Write left unfinished
	inner   []byte               // the event that the last chunk held; its memory is used again
	cutLine bool                 // when lined: the beginning of the line that is being read was dropped

	provisional    bool                   // the body began with the state's violation: an event takes it back
	laterViolation semconv.TransportCause // what violated the protocol since, when distrusted
}

// maxStray bounds a line of what a body begins with that is of no framing, in bytes.
const maxStray = 64 << 10

type mode uint8

const (
	sniffing mode = iota // the framing is not known yet
	framed               // SSE
	whole                // one JSON document
	listed               // JSON objects in an array or in a row
	lined                // JSON objects, one a line
	packed               // AWS event-stream messages
	over                 // the document or the array is over: nothing is due
	stopped              // given up, or closed
)

// decoder is a bodyDecoder and its reader, an R, in one piece of memory: that of a
// short stream is much of what its decoding costs.
type decoder[R any, P interface {
	*R
	reader
}] struct {
	bodyDecoder
	reader R
	from   *decoders[R, P]
}

// decoders makes decoders of one protocol. Those that were released are used again.
type decoders[R any, P interface {
	*R
	reader
}] struct{ released sync.Pool }

func (ds *decoders[R, P]) get(contentType string, f forms) *decoder[R, P] {
	d, ok := ds.released.Get().(*decoder[R, P])
	if !ok {
		d = &decoder[R, P]{}
	}
	d.from = ds
	d.init(contentType, P(&d.reader), f)
	return d
}

// Release implements [Decoder]. The slices and texts of the state are left as they are.
func (d *decoder[R, P]) Release() {
	d.stop()
	d.fast.reset()
	d.bodyDecoder = bodyDecoder{fast: d.fast}
	P(&d.reader).reset()
	d.from.released.Put(d)
}

// emptied is list without its elements, for another response; without its memory too
// where that is more than nearly all responses need.
func cleared[T any](list []T) []T {
	const most = 16
	if cap(list) > most {
		return nil
	}
	clear(list[:cap(list)])
	return list[:0]
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

// distrust: nothing that a framing begins with has come, so that a type that no model
// answers with is all that is known.
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
	case over:
		d.after(p)
	}
}

// after takes what follows the end of a document or an array.
func (d *bodyDecoder) after(p []byte) {
	if d.mode == over && !isBlank(p) {
		d.state.Unread = true
	}
}

// begin looks at the first bytes of the body until they show the framing.
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
			// JSON of another type than an answer has: what is in it is not known.
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
		// head holds the byte itself as well. Where all of it came just now, p has it
		// together with what follows, and the first line need not be put together.
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
		d.reader.add(&d.tally.delta)
		v = progress
	}
	if v != progress {
		d.violate(semconv.TransportCauseMalformedEvent)
		return
	}
	d.state.Events++
	d.state.Terminal = true
	if d.state.Complete {
		d.state.Phase = semconv.PhaseStreamEnd
	} else {
		d.state.Phase = semconv.PhaseResponseStarted
	}
}

func (d *bodyDecoder) Close() {
	switch d.mode {
	case sniffing:
		// A few bytes that could still have become anything: they were cut.
		d.presumeViolation()
	case framed:
		d.frames.Close()
		d.strayed()
	case whole:
		// A document that has not closed was cut. What it said never reached the
		// application, so it counts for nothing.
	case listed:
		// The same holds of the object that was cut.
	case packed:
		// A message that was cut counts for nothing: its checksum is missing.
	case lined:
		d.payload(nil, d.line, true)
	}
	d.stop()
}

// Cut implements [Decoder].
func (d *bodyDecoder) Cut() {
	if json.Valid(d.line) {
		d.Close() // an object is whole by itself, with or without the end of its line
		return
	}
	complete, terminal, phase := d.state.Complete, d.state.Terminal, d.state.Phase
	failed := d.state.Err != nil
	d.Close()
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

// violate: something is not the protocol. The decoding goes on after it.
func (d *bodyDecoder) violate(cause semconv.TransportCause) {
	d.state.Unread = true
	switch {
	case d.state.Violation == semconv.TransportCauseUnset:
		d.state.Violation = cause
	case d.provisional && d.laterViolation == semconv.TransportCauseUnset:
		d.laterViolation = cause
	}
}

// trust takes back the violation that the body began with, once an event has come.
func (d *bodyDecoder) withdrawViolation() {
	if d.provisional {
		d.provisional, d.state.Violation = false, d.laterViolation
		d.frames.Limit(MaxEvent)
	}
}

// lose: an event is not decoded.
func (d *bodyDecoder) eventDropped(why dropReason) {
	if d.state.Unread = true; why == droppedTooLong {
		d.violate(semconv.TransportCauseEventTooLong)
	}
}

// giveUp ends the decoding of a body of which nothing can be said.
func (d *bodyDecoder) giveUp() {
	d.state.Unread, d.state.GaveUp = true, true
	d.stop()
}

// end: the document or the array is over.
func (d *bodyDecoder) end() {
	d.stop()
	d.mode = over
}

// stop lets go of what is buffered; bytes that come later are ignored.
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

// payload takes the payload of one event. Cut: the body ended within it.
func (d *bodyDecoder) payload(name, data []byte, cut bool) {
	if isBlank(data) {
		if !cut {
			d.state.Keepalives++ // a heartbeat: a name at most
		}
		return
	}
	if isDone(data) {
		d.state.Events++
		d.reader.done()
		return
	}
	v := d.event(name, data)
	if v == malformed {
		v = d.first(name, data, cut)
	}
	switch v {
	case progress:
		d.state.Events++
	case keepalive:
		d.state.Keepalives++
	default:
		// What the end of the body cut short is an interruption, not a violation.
		if !cut {
			d.violate(semconv.TransportCauseMalformedEvent)
		}
		return
	}
	d.withdrawViolation()
}

// event reads the payload of one event.
func (d *bodyDecoder) event(name, data []byte) verdict {
	if d.sniff.forms&formChunks != 0 && string(name) == "chunk" {
		var ok bool
		if data, ok = d.unwrap(data); !ok {
			return malformed
		}
		name = nil
	}
	if delta := d.fast.find(name, data); delta != nil {
		d.reader.add(delta)
		return progress
	}
	v := d.reader.event(name, data)
	if v == misnamed {
		data = canonical(data)
		v = d.reader.event(name, data)
	}
	if v == content {
		d.fast.learn(name, data, d.tally.values, d.tally.delta)
		d.reader.add(&d.tally.delta)
		return progress
	}
	return v
}

// first takes the object that a malformed payload begins with: some clients read no
// further. Another value at its beginning is not decoded.
func (d *bodyDecoder) first(name, data []byte, cut bool) verdict {
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

// payloads is the decoder as the sink of its SSE framing.
type payloads bodyDecoder

func (d *payloads) Event(ev sse.Event) {
	(*bodyDecoder)(d).payload(ev.Name, ev.Data, ev.Unterminated)
}

// Take implements [sse.Sink].
func (d *payloads) Take(p []byte) int {
	delta, n := d.fast.take(p)
	if n > 0 {
		d.reader.add(delta)
		d.state.Events++
	}
	return n
}

func (d *payloads) Comment() { d.state.Keepalives++ }

// Stray takes an error that a server or a gateway wrote into the stream without
// framing it, on one line or on several. Some SDKs overlook it; the cause of what
// follows is in it.
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

// strayed reads the object that stood between the events. One that is no error is
// nothing to readers of events, but a client may read it.
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
	if f, ok := faultOf(doc.bytes()); ok && f.seen {
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

func isBlank(data []byte) bool {
	return len(data) == 0 || data[0] <= ' ' && len(bytes.TrimSpace(data)) == 0
}
