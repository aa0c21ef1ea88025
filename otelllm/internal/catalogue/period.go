package catalogue

import (
	"strings"
	"sync"
	"time"
)

// LongPeriod is, among the phrases of a message, that it names a limit of a period longer than
// minutes: "monthly usage limit", "tokens per day limit exceeded", "已达到 5 小时的使用上限". It
// is not in the table of phrases, and is the weakest of them.
const LongPeriod Phrase = 1<<16 - 1

// ShortWait is the longest wait for which an error counts as a rate limit. If a provider asks
// for a longer one, a quota is exhausted. If it asks for a shorter one, a limit of a long period
// passes: the window of such a limit may slide.
const ShortWait = 10 * time.Minute

// LongPeriodKey is the key of the rule for limits of a long period, as Verdict.Key and
// source.Entry.Key write it.
const LongPeriodKey = "limit of a long period"

const (
	// nearLimit is how far a period and what is limited may be from each other, in bytes.
	nearLimit = 48
	// maxPeriods bounds the periods of a message that are looked at.
	maxPeriods = 16
)

// wordList finds words of periods.yaml, the longest first, by their first byte.
type wordList struct {
	by    [1 << 8][]string
	whole bool // a word ends where a word of the text does
}

func listOf(whole bool, lists ...[]string) *wordList {
	l := &wordList{whole: whole}
	for _, words := range lists {
		for _, word := range words {
			l.by[word[0]] = append(l.by[word[0]], word)
		}
	}
	return l
}

// at returns the end of the listed word that begins at i of a text, or -1. One of letters
// begins where a word of the text does.
func (l *wordList) at(text string, i int) int {
	if i == len(text) {
		return -1
	}
	first := text[i]
	if isAlnum(first) && i > 0 && isAlnum(text[i-1]) {
		return -1
	}
	words, from := l.by[first], i+1
	if isDigit(first) {
		words = l.by['#']
		for from < len(text) && isDigit(text[from]) {
			from++
		}
	}
	for _, word := range words {
		if !strings.HasPrefix(text[from:], word[1:]) {
			continue
		}
		end := from + len(word) - 1
		if l.whole && end < len(text) && isAlnum(text[end-1]) && isAlnum(text[end]) {
			continue
		}
		return end
	}
	return -1
}

// in reports whether one of the words is in a text.
func (l *wordList) in(text string) bool {
	for i := range len(text) {
		if l.at(text, i) >= 0 {
			return true
		}
	}
	return false
}

func isDigit(b byte) bool { return b-'0' < 10 }

func isAlnum(b byte) bool { return isDigit(b) || b|0x20-'a' < 26 }

// periodWords are the lists of periods.yaml.
type periodWords struct{ long, short, limits, counted, spent, owners *wordList }

var periodIndex = sync.OnceValue(func() *periodWords {
	return &periodWords{
		long:    listOf(true, periodsLong[:]),
		short:   listOf(true, periodsShort[:]),
		limits:  listOf(false, periodsLimits[:]),
		counted: listOf(false, periodsLimits[:], periodsCounted[:]),
		spent:   listOf(false, periodsSpent[:]),
		owners:  listOf(true, periodsOwners[:]),
	}
})

// wordsOf returns a text with blanks for what joins words.
func wordsOf(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return ' '
		}
		return r
	}, text)
}

// sentenceEnds end what is near.
var sentenceEnds = []string{". ", "! ", "? ", "; ", "。", "！", "；"}

// longPeriod reports whether a text in lower case, a message or a code, names a limit of a long
// period. The first period near a limit decides: a message names the limit that was reached
// before the others.
func longPeriod(text string, code bool) bool {
	words := periodIndex()
	text = wordsOf(text)
	var limits *wordList // the text is searched for what was spent only if it has a period
	owned := false
	for i, periods := 0, 0; i < len(text) && periods < maxPeriods; i++ {
		end, long := words.long.at(text, i), true
		if end < 0 {
			end, long = words.short.at(text, i), false
		}
		if end >= 0 {
			switch {
			case limits != nil:
			case code || words.spent.in(text):
				limits = words.counted
			default:
				limits = words.limits
			}
			if limits.in(around(text, i, end)) {
				return long
			}
			periods++
			i = end - 1
			continue
		}
		if end := words.owners.at(text, i); end >= 0 {
			after := strings.TrimPrefix(text[end:], " ")
			owned = owned || words.limits.at(after, 0) >= 0 || words.limits.at(strings.TrimPrefix(after, "usage "), 0) >= 0
		}
	}
	return owned
}

// around returns what is near a part of a text, in the same sentence.
func around(text string, from, to int) string {
	before, after := text[max(0, from-nearLimit):from], text[to:min(len(text), to+nearLimit)]
	for _, end := range sentenceEnds {
		if i := strings.LastIndex(before, end); i >= 0 {
			before = before[i+len(end):]
		}
		after, _, _ = strings.Cut(after, end)
	}
	return text[from-len(before) : to+len(after)]
}
