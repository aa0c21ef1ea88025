package wire

import "bytes"

// What two requests of one conversation have in common although they do not repeat each other's
// bytes: they are in two protocols, their instructions have the time, or the ids of calls were
// renamed.

// transcriptWords is the hash of a sequence of texts. It does not depend on how the texts are
// distributed over messages and parts.
type transcriptWords struct {
	hash uint64 // 0: there are none
	n    uint64 // wordsBase to the power of their number; 0: 1
}

// wordsBase is the base of the polynomial whose coefficients are the hashes of the texts.
const wordsBase = 0x9e3779b97f4a7c15

// add adds a text, as it is written, with its hash. An empty one changes nothing.
func (w *transcriptWords) add(text []byte, hash uint64) {
	if len(text) <= len(`""`) {
		return
	}
	w.hash = w.hash*wordsBase + (hash | 1)
	w.n = max(w.n, 1) * wordsBase
}

// after returns the hash of the texts of w behind those that have this hash.
func (w transcriptWords) after(hash uint64) uint64 { return hash*max(w.n, 1) + w.hash }

// append returns the texts of earlier with those of w behind them.
func (w transcriptWords) append(earlier transcriptWords) transcriptWords {
	return transcriptWords{w.after(earlier.hash), max(w.n, 1) * max(earlier.n, 1)}
}

// calmHash is [hashBytes] of a text without the dates and times in it: an agent that tells its
// model the time does so anew in each request. A date or a time is a sequence of digits and signs
// with a colon, or with two hyphens or slashes and at least 8 characters: 12:30,
// 2026-03-01T12:00:00Z, 3/1/2026.
func calmHash(text []byte) uint64 {
	sum, rest := uint64(0), 0 // where what is not hashed yet begins
	for i := 1; i+1 < len(text); i++ {
		switch text[i] {
		case ':', '-', '/':
		default:
			continue
		}
		if !isDigit(text[i-1]) || !isDigit(text[i+1]) {
			continue
		}
		from, until := i, i
		for from > rest && isOfTime(text[from-1]) {
			from--
		}
		for until < len(text) && isOfTime(text[until]) {
			until++
		}
		if isTime(text[from:until]) {
			sum = mix(sum, hashBytes(text[rest:from]))
			rest = until
		}
		i = until
	}
	if rest == 0 {
		return hashBytes(text)
	}
	return mix(sum, hashBytes(text[rest:]))
}

func isDigit(b byte) bool { return b-'0' <= 9 }

func isOfTime(b byte) bool {
	switch b {
	case ':', '-', '/', '.', '+', 'T', 'Z':
		return true
	default:
		return isDigit(b)
	}
}

// isTime reports whether what may be a date or a time is one.
func isTime(b []byte) bool {
	if bytes.IndexByte(b, ':') >= 0 {
		return true
	}
	return len(b) >= len("3/1/2026") && (bytes.Count(b, []byte("-")) == 2 || bytes.Count(b, []byte("/")) == 2)
}

// leads reports whether the message at c has instructions, of a system or a developer.
func leads(c cursor) bool {
	if c.peek() != '{' {
		return false
	}
	for key, ok := c.object(); ok; key, ok = c.key() {
		if string(key) == "role" {
			role := string(unquoted(c.raw()))
			return role == "system" || role == "developer"
		}
		c.skip()
	}
	return false
}

// namesIn returns the hash of the names in a list of offered tools: of all strings that are the
// value of a member "name", in whatever object. Their order does not count.
func namesIn(tools []byte) (sum uint64) {
	const member = `"name"`
	for {
		at := bytes.Index(tools, []byte(member))
		if at < 0 {
			return sum
		}
		tools = tools[at+len(member):]
		if at = skipSpace(tools, 0); at >= len(tools) || tools[at] != ':' {
			continue
		}
		if at = skipSpace(tools, at+1); at >= len(tools) || tools[at] != '"' {
			continue
		}
		tools = tools[at+1:]
		end := bytes.IndexByte(tools, '"')
		if end < 0 {
			return sum
		}
		sum += hashBytes(tools[:end]) | 1
		tools = tools[end+1:]
	}
}

// idText returns an id, as it is written, in the form in which it is recorded; "" for anything
// but a string.
func idText(value []byte) string {
	if len(value) <= len(`""`) || value[0] != '"' {
		return ""
	}
	c := cursor{b: value}
	return safeID(c.str())
}

// idAndStem returns the hashes of an id, as it is written, and of its stem; 0: it has none but
// itself.
func idAndStem(value []byte) (hash, stem uint64) {
	id := idText(value)
	if s := idStem(id); len(s) < len(id) {
		stem = TranscriptID(s)
	}
	return TranscriptID(id), stem
}

// idStem returns an id up to the end of its first part that looks random: agents append to the ids
// that they were given. It returns "" if no part does.
func idStem(id string) string {
	for from := 0; from < len(id); {
		until := from
		for until < len(id) && isAlnum(id[until]) {
			until++
		}
		if looksRandom(id[from:until]) {
			return id[:until]
		}
		from = until + 1
	}
	return ""
}

// RandomID reports whether an id looks like one that is never used again: its last part does.
// Counters (call_0, functions.get_weather:12) do not.
func RandomID(id string) bool {
	start := len(id)
	for start > 0 && isAlnum(id[start-1]) {
		start--
	}
	return looksRandom(id[start:])
}

// looksRandom reports whether a part of an id has at least 8 letters and digits, 3 digits or 3
// changes between lower and upper case among them.
func looksRandom(part string) bool {
	if len(part) < 8 {
		return false
	}
	digits, letters, changes := 0, 0, 0
	for i := range len(part) {
		switch b := part[i]; {
		case b <= '9':
			digits++
		default:
			letters++
			if i > 0 && part[i-1] > '9' && (b^part[i-1])&0x20 != 0 {
				changes++
			}
		}
	}
	return digits >= 3 && letters > 0 || changes >= 3 || digits >= 12
}

func isAlnum(b byte) bool {
	return b-'0' <= 9 || b|0x20 >= 'a' && b|0x20 <= 'z'
}
