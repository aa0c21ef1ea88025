package report

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns text as a terminal may have it: what a terminal would obey or not show,
// such as the escape sequences and line ends in a name of a foreign trace, is quoted as in Go.
func Printable(text string) string {
	if strings.IndexFunc(text, unprintable) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if unprintable(r) || r == utf8.RuneError && size == 1 {
			quoted := strconv.QuoteToASCII(text[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}

// unprintable reports whether a rune is a control character, changes the direction of what
// follows, or shows nothing. What joins the parts of an emoji is printed.
func unprintable(r rune) bool {
	const joiner = '\u200d'
	return !unicode.IsPrint(r) && r != joiner && !unicode.Is(unicode.Zs, r)
}
