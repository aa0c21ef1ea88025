package wire

import (
	"encoding/base64"

	"github.com/otelllm/otelllm-go/otelllm/internal/carry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire/eventstream"
	"github.com/otelllm/otelllm-go/semconv"
)

// messages is bodyDecoder as the sink of its AWS event-stream framing.
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

// fail records a failure whose name is in the headers.
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
	d.tally.fail(&f)
}

// Malformed ends the decoding, as TooLong and NoRoom do: the start of the next message is
// not known.
func (d *messages) Malformed() {
	(*bodyDecoder)(d).violate(semconv.TransportCauseMalformedEvent)
	(*bodyDecoder)(d).stop()
}

func (d *messages) TooLong() {
	(*bodyDecoder)(d).violate(semconv.TransportCauseEventTooLong)
	(*bodyDecoder)(d).stop()
}

func (d *messages) NoRoom() { (*bodyDecoder)(d).giveUp() }

// unwrap returns the event inside a chunk of Bedrock's InvokeModel:
// {"bytes":"base64"}. ok: the chunk is well-formed. One without bytes holds an empty
// event.
func (d *bodyDecoder) unwrap(data []byte) (inner []byte, ok bool) {
	var encoded []byte
	c := cursor{b: data}
	for key, ok := c.object(); ok; key, ok = c.key() {
		switch string(key) {
		case "bytes":
			encoded = c.str()
		case "p": // padding
			c.skip()
		default:
			c.skipUnread(key)
		}
	}
	if !c.end() {
		return nil, false
	}
	d.state.Unread = d.state.Unread || c.unread
	if len(encoded) == 0 {
		return []byte("{}"), true
	}
	if cap(d.inner) > carry.Keep {
		d.inner = nil
	}
	var err error
	d.inner, err = base64.StdEncoding.AppendDecode(d.inner[:0], encoded)
	return d.inner, err == nil
}
