package wire

import "bytes"

// callInput follows the input of a call, which arrives as pieces of JSON text inside JSON
// strings. It keeps where the text is in its grammar, and nothing of the text: a client may
// execute a call as soon as its input is one whole JSON value, whether or not the provider
// has said so. The zero value is an input of which nothing has arrived.
//
// Of numbers only the characters are checked. Outside of containers, one may be whole with each
// of them.
type callInput struct {
	state  inputState
	hex    uint8  // in inputHex: digits of a \u escape that are due
	due    string // in inputLiteral: the characters that are due
	depth  uint8  // of open containers
	arrays uint64 // which of the open containers are arrays, a bit for each
	inName bool   // in a string: it is the name of a member
}

// maxNesting bounds the open containers.
const maxNesting = 64

// inputState is a place in the grammar of JSON.
type inputState uint8

const (
	inputEmpty   inputState = iota // only white space has arrived
	inputValue                     // a value is due
	inputElement                   // a value or the end of the array is due
	inputMember                    // a name or the end of the object is due
	inputName                      // a name is due
	inputColon                     // a colon is due
	inputNext                      // a comma or the end of the container is due
	inputString                    // within a string
	inputEscape                    // within a string, after a backslash
	inputHex                       // within a \u escape
	inputNumber                    // within a number
	inputLiteral                   // within true, false or null
	inputWhole                     // the value has ended
	inputDeep                      // it has more than maxNesting open containers, and is not followed
	inputInvalid                   // it is not JSON
)

// isOpen reports whether the input is the beginning of a JSON value, or nothing yet: no
// client can execute the call.
func (in *callInput) isOpen() bool {
	return in.state < inputWhole && (in.state != inputNumber || in.depth > 0)
}

// isBroken reports whether the input, of which nothing more comes, is known not to be JSON.
func (in *callInput) isBroken() bool {
	return in.state == inputInvalid || in.isOpen() && !in.isEmpty()
}

// isEmpty reports whether nothing but white space has arrived. Clients take it for no
// arguments.
func (in *callInput) isEmpty() bool { return in.state == inputEmpty }

// write reads a piece of the input as it is between the quotes of a JSON string, which the
// cursor has accepted: its escapes are whole.
func (in *callInput) write(raw []byte) {
	for i := 0; i < len(raw); {
		if in.state >= inputDeep {
			return
		}
		b := raw[i]
		if in.state == inputString && b != '\\' {
			// A quote or a control character can only be here as an escape.
			n := bytes.IndexByte(raw[i:], '\\')
			if n < 0 {
				return
			}
			i += n
			continue
		}
		i++
		if b == '\\' {
			b, i = unescapeByte(raw, i)
		}
		in.next(b)
	}
}

// unescapeByte returns the character of the escape sequence whose backslash is before i, and
// the offset after it. Every character that is not ASCII is 0x80.
func unescapeByte(raw []byte, i int) (b byte, after int) {
	switch raw[i] {
	case 'n':
		return '\n', i + 1
	case 't':
		return '\t', i + 1
	case 'r':
		return '\r', i + 1
	case 'b', 'f':
		return 0, i + 1
	case 'u':
		if raw[i+1] != '0' || raw[i+2] != '0' || raw[i+3] > '7' {
			return 0x80, i + 5
		}
		return hexDigit(raw[i+3])<<4 | hexDigit(raw[i+4]), i + 5
	default: // a quote, a backslash or a slash
		return raw[i], i + 1
	}
}

func hexDigit(b byte) byte {
	if b <= '9' {
		return b - '0'
	}
	return b | 0x20 - 'a' + 10
}

// next reads one character.
func (in *callInput) next(b byte) {
	switch in.state {
	case inputString:
		in.inString(b)
		return
	case inputEscape:
		in.escaped(b)
		return
	case inputHex:
		if !isHex(b) {
			in.state = inputInvalid
		} else if in.hex--; in.hex == 0 {
			in.state = inputString
		}
		return
	case inputLiteral:
		in.inLiteral(b)
		return
	case inputNumber:
		if inNumber(b) {
			return
		}
		in.ended()
	}
	switch b {
	case ' ', '\t', '\n', '\r':
	case '"':
		in.openString()
	case '{', '[':
		in.open(b == '[')
	case '}', ']':
		in.closed(b == ']')
	case ',':
		in.comma()
	case ':':
		if in.state != inputColon {
			in.state = inputInvalid
			return
		}
		in.state = inputValue
	default:
		in.openScalar(b)
	}
}

// literals are the literals of JSON, by their first characters.
var literals = map[byte]string{'t': "true", 'f': "false", 'n': "null"}

// openScalar begins a number or a literal.
func (in *callInput) openScalar(b byte) {
	word, literal := literals[b]
	switch {
	case !in.valueDue():
		in.state = inputInvalid
	case literal:
		in.state, in.due = inputLiteral, word[1:]
	case inNumber(b):
		in.state = inputNumber
	default:
		in.state = inputInvalid
	}
}

func (in *callInput) inLiteral(b byte) {
	if b != in.due[0] {
		in.state = inputInvalid
		return
	}
	if in.due = in.due[1:]; in.due == "" {
		in.ended()
	}
}

func (in *callInput) inString(b byte) {
	switch {
	case b == '"' && in.inName:
		in.state = inputColon
	case b == '"':
		in.ended()
	case b == '\\':
		in.state = inputEscape
	case b < ' ':
		in.state = inputInvalid
	}
}

func (in *callInput) escaped(b byte) {
	switch {
	case b == 'u':
		in.state, in.hex = inputHex, 4
	case plainEscapes[b]:
		in.state = inputString
	default:
		in.state = inputInvalid
	}
}

func (in *callInput) openString() {
	in.inName = in.state == inputMember || in.state == inputName
	if !in.inName && !in.valueDue() {
		in.state = inputInvalid
		return
	}
	in.state = inputString
}

// open enters a container.
func (in *callInput) open(array bool) {
	if !in.valueDue() {
		in.state = inputInvalid
		return
	}
	if in.depth == maxNesting {
		in.state = inputDeep
		return
	}
	bit := uint64(1) << in.depth
	if in.arrays &^= bit; array {
		in.arrays |= bit
	}
	in.depth++
	if in.state = inputMember; array {
		in.state = inputElement
	}
}

// closed leaves a container.
func (in *callInput) closed(array bool) {
	switch {
	case in.depth == 0, in.inArray() != array:
		in.state = inputInvalid
	case in.state == inputNext, in.state == inputMember && !array, in.state == inputElement && array:
		in.depth--
		in.ended()
	default:
		in.state = inputInvalid
	}
}

// inArray reports whether the innermost open container, which there is, is an array.
func (in *callInput) inArray() bool { return in.arrays>>(in.depth-1)&1 != 0 }

func (in *callInput) comma() {
	switch {
	case in.state != inputNext:
		in.state = inputInvalid
	case in.inArray():
		in.state = inputValue
	default:
		in.state = inputName
	}
}

// ended records the end of a value.
func (in *callInput) ended() {
	if in.state = inputNext; in.depth == 0 {
		in.state = inputWhole
	}
}

func (in *callInput) valueDue() bool {
	return in.state == inputEmpty || in.state == inputValue || in.state == inputElement
}

// inNumber reports whether a number can have this character.
func inNumber(b byte) bool {
	return b-'0' <= 9 || b == '-' || b == '+' || b == '.' || b == 'e' || b == 'E'
}
