package wire

import (
	"bytes"
	"sync"

	"github.com/otelllm/otelllm-go/otelllm/internal/sse"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire/eventstream"
	"github.com/otelllm/otelllm-go/semconv"
)

// reader is what one protocol makes of the payloads of a response. It changes the
// state only by a payload that is well-formed to its end.
type reader interface {
	// event reads the payload of one event; name is the SSE event field.
	event(name, data []byte) verdict
	// document reads a whole body that does not stream.
	document(data []byte) verdict
	// done takes the [DONE] that ends Chat Completions, and that gateways append to
	// other protocols too.
	done()
	// take reads the event that p begins with, as it comes in an event stream, if it is
	// one whose form it knows, and returns its length; else 0. Such an event is progress.
	take(p []byte) int
	// tally is where both write what they read.
	tally() *tally
	// reset makes it as new. Small memory of its own it may keep.
	reset()
}

// verdict is what a payload was.
type verdict uint8

const (
	malformed verdict = iota
	progress
	keepalive
)

// bodyDecoder is the [Decoder] of every protocol. It finds the framing, hands
// payloads to the protocol's reader and stops at the first byte that is not the
// protocol. Only what begins as something else it reads on: the SDKs do, and find the
// events that follow. Until one comes, the beginning is a violation.
type bodyDecoder struct {
	reader reader
	state  *State

	mode    mode
	list    listPlace // when listed
	loose   bool      // when listed: there is no array, only objects in a row
	sniff   sniffer
	frames  sse.Decoder          // when framed
	packets *eventstream.Decoder // when packed
	doc     *document            // when whole, bare or listed: the object that is being read; when framed: one that stands between the events, or nil
	line    []byte               // when lined: the line that the last Write left unfinished
}

// maxStray bounds a line of what a body begins with that is of no framing, in bytes.
const maxStray = 64 << 10

type mode uint8

const (
	sniffing mode = iota // the framing is not known yet
	framed               // SSE
	whole                // one JSON document
	bare                 // one JSON document where SSE was announced: at best an error
	listed               // JSON objects in an array or in a row
	lined                // JSON objects, one a line
	packed               // AWS event-stream messages
	stopped              // a violation, or Close
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
	d.bodyDecoder = bodyDecoder{}
	P(&d.reader).reset()
	d.from.released.Put(d)
}

// emptied is list without its elements, for another response; without its memory too
// where that is more than nearly all responses need.
func emptied[T any](list []T) []T {
	const most = 16
	if cap(list) > most {
		return nil
	}
	clear(list[:cap(list)])
	return list[:0]
}

func (d *bodyDecoder) init(contentType string, r reader, f forms) {
	d.reader, d.state = r, &r.tally().State
	d.state.Phase = semconv.PhaseResponseStarted
	d.state.Usage = unknownUsage
	d.state.FinishReasons = []string{}
	d.sniff.media, d.sniff.forms = mediaOf(contentType), f
	d.distrust()
}

// distrust: nothing that a framing begins with has come, so that a type that no model
// answers with is all that is known.
func (d *bodyDecoder) distrust() {
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
	case whole, bare:
		d.writeDocument(p)
	case listed:
		d.writeList(p)
	case lined:
		d.writeLines(p)
	case packed:
		d.packets.Write(p)
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
		switch m {
		case framed:
			limit := MaxEvent
			if d.state.Violation != semconv.TransportCauseUnset {
				limit = maxStray
			}
			d.frames.Init((*payloads)(d), limit)
		case packed:
			d.packets = eventstream.New((*messages)(d), MaxEvent)
		case whole, bare:
			d.doc = &document{}
		case listed:
			d.doc = &document{}
			if d.loose = b == '{'; d.loose {
				d.list = listLoose
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
	switch d.doc.write(p) {
	case documentOpen:
	case documentTooLong:
		d.violate(semconv.TransportCauseEventTooLong)
	case documentComplete:
		d.readDocument(d.doc.bytes())
	}
}

func (d *bodyDecoder) readDocument(data []byte) {
	t := d.reader.tally()
	if d.mode == bare {
		f, ok := faultOf(data)
		if !ok || !f.seen {
			d.violate(semconv.TransportCauseMalformedEvent)
			return
		}
		d.state.Events++
		t.fail(&f)
		d.stop()
		return
	}
	if d.reader.document(data) == malformed {
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
	d.stop()
}

func (d *bodyDecoder) Close() {
	switch d.mode {
	case sniffing:
		// A few bytes that could still have become anything: they were cut.
		d.distrust()
	case framed:
		d.frames.Close()
	case whole, bare:
		// A document that has not closed was cut. What it said never reached the
		// application, so it counts for nothing.
	case listed:
		// The same holds of the object that was cut.
	case packed:
		// A message that was cut counts for nothing: its checksum is missing.
	case lined:
		if len(d.line) > 0 {
			d.payload(nil, d.line, true)
		}
	}
	d.stop()
}

func (d *bodyDecoder) violate(cause semconv.TransportCause) {
	if d.state.Violation == semconv.TransportCauseUnset { // else the body began with one
		d.state.Violation = cause
	}
	d.stop()
}

// stop lets go of what is buffered; bytes that come later are ignored.
func (d *bodyDecoder) stop() {
	d.mode = stopped
	d.frames.Stop()
	if d.packets != nil {
		d.packets.Stop()
	}
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
	if data[0] == '[' && bytes.HasPrefix(data, []byte("[DONE]")) {
		d.state.Events++
		d.reader.done()
		return
	}
	switch d.reader.event(name, data) {
	case progress:
		d.state.Events++
	case keepalive:
		d.state.Keepalives++
	case malformed:
		// What the end of the body cut short is an interruption, not a violation.
		if !cut {
			d.violate(semconv.TransportCauseMalformedEvent)
		}
		return
	}
	if d.state.Violation != semconv.TransportCauseUnset { // by which the body began
		d.state.Violation = semconv.TransportCauseUnset
		d.frames.Limit(MaxEvent)
	}
}

// payloads is the decoder as the sink of its SSE framing.
type payloads bodyDecoder

func (d *payloads) Event(ev sse.Event) {
	(*bodyDecoder)(d).payload(ev.Name, ev.Data, ev.Unterminated)
}

// Take implements [sse.Sink].
func (d *payloads) Take(p []byte) int {
	n := d.reader.take(p)
	if n > 0 {
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
		d.doc = &document{}
	}
	if d.doc.write(line) != documentComplete {
		return
	}
	if f, ok := faultOf(d.doc.bytes()); ok && f.seen {
		d.state.Events++
		d.reader.tally().fail(&f)
	}
	d.doc = nil
}

func (d *payloads) TooLong() {
	(*bodyDecoder)(d).violate(semconv.TransportCauseEventTooLong)
}

func isBlank(data []byte) bool {
	return len(data) == 0 || data[0] <= ' ' && len(bytes.TrimSpace(data)) == 0
}
