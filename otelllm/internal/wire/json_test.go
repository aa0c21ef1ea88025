package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

// wellFormed reads a document with skip.
func wellFormed(doc []byte) bool {
	c := cursor{b: doc}
	c.skip()
	return c.end()
}

// walked reads a document by its members and elements.
func walked(doc []byte) bool {
	c := cursor{b: doc}
	walk(&c)
	return c.end()
}

func walk(c *cursor) {
	switch c.peek() {
	case '{':
		for _, ok := c.object(); ok; _, ok = c.key() {
			walk(c)
		}
	case '[':
		for ok := c.array(); ok; ok = c.element() {
			walk(c)
		}
	case '"':
		c.str()
	default:
		c.number()
	}
}

var documents = []string{
	``, ` `, `{}`, `[]`, `{"a":1}`, `{"a":1,"b":[true,false,null,"x",{}]}`, " {\t\"a\"\r:\n1 } ",
	`{`, `}`, `[`, `]`, `{]`, `[}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`, `{"a"1}`, `{1:2}`,
	`[1,]`, `[,1]`, `[1 2]`, `[1]]`, `{}{}`, `{}x`, `{} `, `nul`, `null`, `nullx`, `true`, `tru`, `false`, `fals`, `True`,
	`0`, `-0`, `-`, `01`, `1.`, `1.5`, `.5`, `1e`, `1e5`, `1E+5`, `1e-`, `--1`, `+1`, `1e5.5`, `-a`, `0x1`, `NaN`,
	`"`, `""`, `"a`, `"\"`, `"\\"`, `"\"x"`, `"\u00e9"`, `"\u00e"`, `"\u00g0"`, `"\x"`, `"\/\b\f\n\r\t"`, `"\`, `"\u`,
	"\"a\tb\"", "\"a\nb\"", "\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"\xff\"", "\x00", "{\x00}", "\v{}", "\u00a0{}",
	`"12345678"`, `"1234567\"90"`, `"123456789012345\`, `"1234567` + "\x01\"", `"éééééééééééé"`,
	`{"a":{"b":{"c":[[[[{"d":"}]"}]]]]}}}`, `{"a":"b","a":"c"}`, `{"\u0061":1}`,
	`{"a":1"b":2}`, `{"a":"x""b":2}`, `{":":1}`, `{":a":1,":":2}`, `{"a\:"b"}`, `{"a"x1}`, `{"a",1}`, `{"a:"1}`, `{"a:" 1}`,
	`"\u:000"`, `"\u0:00"`, `"\u000{"`, `[` + strings.Repeat(strings.Repeat("[", 80)+strings.Repeat("]", 80)+",", 200) + `1]`,
}

func TestCursorAgreesWithEncodingJSON(t *testing.T) {
	for _, doc := range documents {
		want := json.Valid([]byte(doc))
		assert.Equal(t, want, wellFormed([]byte(doc)), "skipping %q", doc)
		assert.Equal(t, want, walked([]byte(doc)), "walking %q", doc)
	}
}

func TestCursorDepth(t *testing.T) {
	for _, depth := range []int{maxDepth, maxDepth + 1} {
		for _, doc := range []string{
			strings.Repeat("[", depth) + strings.Repeat("]", depth),
			strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
		} {
			assert.Equal(t, json.Valid([]byte(doc)), wellFormed([]byte(doc)))
			assert.Equal(t, json.Valid([]byte(doc)), walked([]byte(doc)))
		}
	}
	assert.False(t, wellFormed([]byte(strings.Repeat("[", 1<<20))))
}

func TestCursorReaders(t *testing.T) {
	at := func(doc string) *cursor { return &cursor{b: []byte(doc)} }

	assert.Equal(t, "a", string(at(`"a"`).str()))
	assert.Equal(t, "a\"é\n\u2028😀", string(at(`"a\"\u00e9\n\u2028\ud83d\ude00"`).str()))
	assert.Nil(t, at(`5`).str())
	assert.Nil(t, at(`null`).str())
	assert.Nil(t, at(`"a`).str())

	assert.Equal(t, "\xff", string(at("\"\xff\"").str()), "as it is written")

	assert.Equal(t, 12, at(`12`).count())
	assert.Equal(t, 123456789012, at(`123456789012`).count())
	assert.Equal(t, -1, at(`1234567890123`).count(), "too many to count")
	for _, doc := range []string{`-1`, `1.5`, `1e3`, `"12"`, `null`, `[1]`, `12345678901234567890`, `1x`} {
		c := at(doc)
		n := c.count()
		assert.True(t, n == -1 || !c.end(), "%s reads as %d", doc, n)
	}
	assert.Equal(t, "429", string(at(`429`).text()))
	assert.Equal(t, "x", string(at(`"x"`).text()))
	assert.Nil(t, at(`{"a":1}`).text())

	assert.True(t, at(`true`).boolean())
	for _, doc := range []string{`false`, `null`, `"true"`, `1`, `tru`} {
		assert.False(t, at(doc).boolean(), doc)
	}
	for doc, want := range map[string]bool{
		`"a"`: true, `" "`: true, `[0]`: true, `[[]]`: true, `{"a":null}`: true, `0`: true, `true`: true,
		`""`: false, `[]`: false, `[ ]`: false, `{}`: false, `null`: false, `false`: false, `[`: false, `"a`: false,
	} {
		c := at(doc)
		assert.Equal(t, want, c.nonEmpty(), doc)
		assert.Equal(t, json.Valid([]byte(doc)), c.end(), doc)
	}

	// A key may be written with escapes.
	c := at(`{"\u0069d":"x"}`)
	key, ok := c.object()
	assert.True(t, ok)
	assert.Equal(t, "id", string(key))
}

// Names are compared without the case of ASCII letters, and only of ASCII letters.
func TestMemberName(t *testing.T) {
	assert.Equal(t, "az[@`{_\x7f1 é", string(lowered(nil, []byte("AZ[@`{_\x7f1 é"))))
	for name, want := range map[string]string{
		"Content": "content", "FINISH_REASON": "finish_reason", "finishreason": "finishReason",
		"content": "", "poem": "", "": "", "finish\x7freason": "", strings.Repeat("A", maxMemberName+1): "",
	} {
		assert.Equal(t, want, memberName([]byte(name)), name)
	}
}

func FuzzCursor(f *testing.F) {
	for _, doc := range documents {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		want := json.Valid(doc)
		assert.Equal(t, want, wellFormed(doc), "skipping")
		assert.Equal(t, want, walked(doc), "walking")
		c := cursor{b: doc}
		c.nonEmpty()
		assert.Equal(t, want, c.end(), "something")

		var s string
		c = cursor{b: doc}
		if got := c.str(); got != nil && c.end() && utf8.Valid(doc) {
			assert.NoError(t, json.Unmarshal(doc, &s))
			assert.Equal(t, s, string(got), "text")
		}
	})
}
