package wire

import (
	"encoding/binary"
	"encoding/json"
	"math/bits"
)

// rawString reads a string, whose opening quote is the next byte, with its escapes.
func (c *cursor) rawString() (s []byte, escaped, ok bool) {
	start := c.i + 1
	if escaped, ok = c.pass(); !ok {
		return nil, false, false
	}
	return c.b[start : c.i-1], escaped, true
}

// pass consumes a string, whose opening quote is the next byte.
func (c *cursor) pass() (escaped, ok bool) {
	b := c.b
	i := c.i + 1
	for {
		if i+8 <= len(b) {
			marks := special(binary.LittleEndian.Uint64(b[i : i+8]))
			if marks == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(marks) / 8
		} else {
			i = plainEnd(b, i)
		}
		if i >= len(b) {
			return false, c.missing()
		}
		switch b[i] {
		case '"':
			c.i = i + 1
			return escaped, true
		case '\\':
			escaped = true
			if i+1 < len(b) && plainEscapes[b[i+1]] {
				i += 2
				continue
			}
			n := escapeLen(b[i:])
			if n == 0 {
				return false, c.missing()
			}
			i += n
		default: // a control character
			return false, c.missing()
		}
	}
}

// special marks quotes, backslashes and control characters among the eight bytes of w,
// each by the highest bit of its byte. Only the lowest mark is reliable: false marks
// occur above true ones.
func special(w uint64) uint64 {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	return ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w) & highs
}

// longString is the length in bytes from which on steps of more than eight bytes are
// faster: audio and images are longer, words are not.
const longString = 64

// skipPlain returns an offset at or after i, before which no byte is special.
func skipPlain(b []byte, i int) int {
	for i+32 <= len(b) {
		w := b[i : i+32]
		if special(binary.LittleEndian.Uint64(w))|special(binary.LittleEndian.Uint64(w[8:]))|
			special(binary.LittleEndian.Uint64(w[16:]))|special(binary.LittleEndian.Uint64(w[24:])) != 0 {
			break
		}
		i += 32
	}
	return i
}

// plainEnd returns the offset of the first quote, backslash or control character at or
// after i, or len(b).
func plainEnd(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		if marks := special(binary.LittleEndian.Uint64(b[i : i+8])); marks != 0 {
			return i + bits.TrailingZeros64(marks)/8
		}
	}
	for ; i < len(b); i++ {
		if b[i] == '"' || b[i] == '\\' || b[i] < ' ' {
			break
		}
	}
	return i
}

// escapeLen returns the length of the escape sequence that b begins with, or 0.
func escapeLen(b []byte) int {
	switch {
	case len(b) >= 2 && plainEscapes[b[1]]:
		return 2
	case len(b) >= 6 && b[1] == 'u' && isHex(b[2]) && isHex(b[3]) && isHex(b[4]) && isHex(b[5]):
		return 6
	default:
		return 0
	}
}

// plainEscapes are the bytes that form an escape sequence with a backslash alone.
var plainEscapes = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

func isHex(c byte) bool {
	return c-'0' < 10 || (c|0x20)-'a' < 6
}

// unescape returns the text of a string that is given as it is between its quotes. Escapes
// are rare in the strings that are read, so it may allocate.
func unescape(raw []byte) []byte {
	var s string
	quoted := make([]byte, 0, len(raw)+2)
	quoted = append(append(append(quoted, '"'), raw...), '"')
	if json.Unmarshal(quoted, &s) != nil {
		return nil // not reached: the cursor has accepted it
	}
	return []byte(s)
}
