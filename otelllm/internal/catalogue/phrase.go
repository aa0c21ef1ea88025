package catalogue

import (
	"slices"
	"strings"
	"sync"
)

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

// Known reports whether one of the phrases is in the table of phrases: [LongPeriod] alone does
// not show that a message is an error.
func (ps Phrases) Known() bool { return len(ps) > 0 && ps[0] != LongPeriod }

// FindPhrases adds to found the phrases in the beginning of a message.
func FindPhrases(found Phrases, message []byte) Phrases {
	if len(message) < minPhrase {
		return found
	}
	index := phraseIndex()
	text := strings.ToLower(normalMessage(message))
	for at := range len(text) - prefix + 1 {
		key := prefixOf(text[at:])
		if !index.may[key%uint32(len(index.may))] {
			continue
		}
		for _, p := range index.of[key] {
			if strings.HasPrefix(text[at:], phrases[p].text) {
				found = found.add(p)
			}
		}
	}
	if longPeriod(text, false) {
		found = found.add(LongPeriod)
	}
	return found
}

const (
	// minPhrase is the length of the shortest phrase that the generator accepts, in bytes.
	minPhrase = 8
	// prefix is the length of what finds the phrases that may begin at a place, in bytes.
	prefix = 4
)

// phraseIndexOf has the phrases by what they begin with.
type phraseIndexOf struct {
	may [1 << 12]bool // whether a phrase with this prefix, modulo the length, may exist
	of  map[uint32][]Phrase
}

var phraseIndex = sync.OnceValue(func() *phraseIndexOf {
	index := &phraseIndexOf{of: make(map[uint32][]Phrase, len(phrases))}
	for i := range phrases {
		key := prefixOf(phrases[i].text)
		index.may[key%uint32(len(index.may))] = true
		index.of[key] = append(index.of[key], Phrase(i))
	}
	return index
})

// prefixOf returns the first bytes of a text of at least that length.
func prefixOf(text string) uint32 {
	return uint32(text[0]) | uint32(text[1])<<8 | uint32(text[2])<<16 | uint32(text[3])<<24
}

// add adds a phrase in its place, once. Of more than MaxPhrases the longest stay.
func (ps Phrases) add(p Phrase) Phrases {
	at, found := slices.BinarySearch(ps, p)
	if found {
		return ps
	}
	ps = slices.Insert(ps, at, p)
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
