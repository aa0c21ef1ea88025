package report

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"invoke_agent coder":           "invoke_agent coder",
		"Größe 模型 👩‍💻 a\u00a0b":        "Größe 模型 👩‍💻 a\u00a0b",
		"\x1b[2Jgone":                  `\x1b[2Jgone`,
		"\x1b]52;c;cm0gLXJm\a":         `\x1b]52;c;cm0gLXJm\a`,
		"a\r\nverdict  ok\tb":          `a\r\nverdict  ok\tb`,
		"\u009b31mC1":                  `\u009b31mC1`,
		"a\u202eb\u2066c\ufeff\u2028d": `a\u202eb\u2066c\ufeff\u2028d`,
		"a\xffb\x9b1m":                 `a\xffb\x9b1m`,
		`a\nb`:                         `a\nb`,
	} {
		assert.Equal(t, want, Printable(text))
	}
}
