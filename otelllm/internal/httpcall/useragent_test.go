package httpcall

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestUserAgent(t *testing.T) {
	for sent, want := range map[string]string{
		"codex_exec/0.169.0 (Debian 13.0.0; x86_64) xterm (codex_exec; 0.169.0)": "codex_exec/0.169.0",
		"claude-cli/2.1.330 (external, cli)":                                     "claude-cli/2.1.330",
		"OpenAI/Python 2.1.0":                                                    "OpenAI",
		"opencode/1.18.33":                                                       "opencode/1.18.33",
		"agent":                                                                  "",
		"agent/":                                                                 "",
		"/1.0":                                                                   "",
		"":                                                                       "",
		"my agent/1.0":                                                           "",
		"agent/1.0/secret":                                                       "",
		"agent/sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEF": "",
		"agent/" + strings.Repeat("1", 100):                        "",
		"agent/1.0\x00":                                            "",
	} {
		assert.Equal(t, want, UserAgent(http.Header{"User-Agent": {sent}}), sent)
	}
	assert.Empty(t, UserAgent(nil))
}
