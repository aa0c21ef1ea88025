package wire

import (
	"bytes"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire/eventstream"
	"github.com/otelllm/otelllm-go/semconv"
)

// messages is the decoder as the sink of its AWS event-stream framing.
type messages bodyDecoder

func (d *messages) Message(m *eventstream.Message) {
	switch string(m.Type) {
	case "exception":
		d.fail(m.Exception, nil, m.Payload)
	case "error": // of the framing itself, without a payload
		d.fail(nil, m.ErrorCode, m.Payload)
	default:
		(*bodyDecoder)(d).payload(m.Event, m.Payload, false)
	}
}

// fail takes a failure whose name is in the headers.
func (d *messages) fail(typ, code, payload []byte) {
	f, _ := faultOf(payload)
	f.seen = true
	if len(typ) > 0 {
		f.typ = typ
	}
	if len(code) > 0 {
		f.code = code
		f.setStatus(code)
	}
	d.state.Events++
	d.reader.tally().fail(&f)
}

// Malformed and the others are the framing's last word: where the next message would
// begin is not known.
func (d *messages) Malformed() {
	(*bodyDecoder)(d).violate(semconv.TransportCauseMalformedEvent)
	(*bodyDecoder)(d).stop()
}

func (d *messages) TooLong() {
	(*bodyDecoder)(d).violate(semconv.TransportCauseEventTooLong)
	(*bodyDecoder)(d).stop()
}

func (d *messages) NoRoom() { (*bodyDecoder)(d).giveUp() }

// isMessages reports whether a body that begins with b may be event-stream messages:
// no message is as long as 16 MiB, so that the first byte of its length is 0.
func isMessages(b []byte) bool { return bytes.HasPrefix(b, []byte{0}) }
