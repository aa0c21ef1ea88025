package eventstream

import "encoding/binary"

// span is the place of a value in the headers. No message is as long as 2 GiB.
type span struct{ start, end int32 }

func (s span) of(headers []byte) []byte { return headers[s.start:s.end] }

// The headers of which the value is used.
const (
	messageType = iota
	eventType
	exceptionType
	errorCode
	numbered
)

func numberOf(name []byte) int {
	switch string(name) {
	case ":message-type":
		return messageType
	case ":event-type":
		return eventType
	case ":exception-type":
		return exceptionType
	case ":error-code":
		return errorCode
	default:
		return numbered
	}
}

// Types of values.
const (
	typeTrue = iota
	typeFalse
	typeByte
	typeInt16
	typeInt32
	typeInt64
	typeBytes
	typeString
	typeTimestamp
	typeUUID
)

// headers are the headers of a message and the places of the values in them.
type headers struct {
	bytes []byte
	at    [numbered]span
}

// read parses the headers in b. It returns nil if b is not well-formed. The result is
// valid until the next call.
func (d *Decoder) read(b []byte) *[numbered]span {
	for i := range d.known {
		if h := &d.known[i]; len(h.bytes) > 0 && string(h.bytes) == string(b) {
			return &h.at
		}
	}
	h := &d.known[d.oldest]
	d.oldest = 1 - d.oldest
	h.bytes, h.at = h.bytes[:0], [numbered]span{}
	if !h.find(b) {
		return nil
	}
	if len(b) <= maxHeaders {
		h.bytes = append(h.bytes, b...)
	}
	return &h.at
}

// find finds the values in b. It reports whether b is well-formed.
func (h *headers) find(b []byte) bool {
	for i := 0; i < len(b); {
		name := i + 1
		i = name + int(b[i])
		if i >= len(b) {
			return false
		}
		n := numberOf(b[name:i])
		kind := b[i]
		i++
		size := 0
		switch kind {
		case typeTrue, typeFalse:
		case typeByte:
			size = 1
		case typeInt16:
			size = 2
		case typeInt32:
			size = 4
		case typeInt64, typeTimestamp:
			size = 8
		case typeUUID:
			size = 16
		case typeBytes, typeString:
			if len(b)-i < 2 {
				return false
			}
			size = int(binary.BigEndian.Uint16(b[i:]))
			i += 2
		default:
			return false
		}
		if len(b)-i < size {
			return false
		}
		if kind == typeString && n < numbered {
			h.at[n] = span{int32(i), int32(i + size)}
		}
		i += size
	}
	return true
}
