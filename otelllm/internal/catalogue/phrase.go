package catalogue

import "strings"

// Phrase is the place of a phrase in the catalogue. It says which words were found and holds
// nothing of the message.
type Phrase uint16

// Phrases are phrases that were found, the longest first, at most [MaxPhrases].
type Phrases []Phrase

const (
	// MaxPhrases bounds the phrases that are kept of an error.
	MaxPhrases = 4
	// MaxMessage bounds the part of a message that is searched, in bytes.
	MaxMessage = 4 << 10
)

// phrase is a rule for words of a message. phrases has them with the longest first: a phrase
// that contains another one says more.
type phrase struct {
	text string // as normalMessage leaves it
	rule
}

// FindPhrases adds to found the phrases in the beginning of a message. It takes about as long
// as reading the message once for each phrase, which is for errors only.
func FindPhrases(found Phrases, message []byte) Phrases {
	if len(message) == 0 {
		return found
	}
	text := strings.ToLower(normalMessage(message))
	for i := range phrases {
		if strings.Contains(text, phrases[i].text) {
			found = found.add(Phrase(i))
		}
	}
	return found
}

// add adds a phrase in its place, once. Of more than MaxPhrases the longest stay.
func (ps Phrases) add(p Phrase) Phrases {
	at := 0
	for at < len(ps) && ps[at] < p {
		at++
	}
	if at < len(ps) && ps[at] == p {
		return ps
	}
	ps = append(ps, 0)
	copy(ps[at+1:], ps[at:])
	ps[at] = p
	return ps[:min(len(ps), MaxPhrases)]
}

// Join returns the phrases of both.
func (ps Phrases) Join(others Phrases) Phrases {
	for _, p := range others {
		ps = ps.add(p)
	}
	return ps
}

// normalMessage returns the beginning of a message without the backslashes of JSON within JSON
// and with one blank for white space, so that an error reads the same however often it was
// quoted.
func normalMessage(message []byte) string {
	message = message[:min(len(message), MaxMessage)]
	var b strings.Builder
	b.Grow(len(message))
	blank := false
	for _, c := range message {
		switch {
		case c == '\\':
			continue
		case c <= ' ':
			if blank {
				continue
			}
			c = ' '
		}
		blank = c == ' '
		b.WriteByte(c)
	}
	return b.String()
}
