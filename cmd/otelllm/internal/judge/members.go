package judge

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// The decoder of encoding/json is two functions that are so large that V8 compiles them for longer than a verdict takes, as soon as a few
// dozen facts have been read. A line is checked by that package, and divided here.

// eachMember calls each for the members of an object, or the elements of an array, which have no key. Raw is valid JSON without space around
// it. The slices are parts of raw.
func eachMember(raw []byte, each func(key, value []byte)) {
	for i := skipSpace(raw, 1); raw[i] != '}' && raw[i] != ']'; {
		var key []byte
		if raw[0] == '{' {
			end := endOfValue(raw, i)
			key = raw[i:end]
			i = skipSpace(raw, skipSpace(raw, end)+1) // a colon
		}
		end := endOfValue(raw, i)
		each(key, raw[i:end])
		if i = skipSpace(raw, end); raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
}

// endOfValue returns the end of the value that begins at i of valid JSON.
func endOfValue(raw []byte, i int) int {
	for depth := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // of a number or a word that was the last member
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

func skipSpace(raw []byte, i int) int {
	for raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\r' || raw[i] == '\n' {
		i++
	}
	return i
}

// textOf returns the text of a valid JSON value, as encoding/json decodes it. It reports false for a value that is no string.
func textOf(raw []byte) (text string, ok bool) {
	if raw[0] != '"' {
		return "", false
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), true
	}
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}
