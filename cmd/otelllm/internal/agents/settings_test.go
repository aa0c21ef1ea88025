package agents

import (
	"os"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The settings of Codex in docs/agents-in-your-collector.md are TOML, and have the keys that its configuration has.
func TestSettingsOfCodex(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/agents-in-your-collector.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "```toml\n")
	require.True(t, ok)
	block, _, _ := strings.Cut(rest, "```")
	type endpoint struct{ Endpoint, Protocol string }
	var settings struct {
		OTel struct {
			Exporter      map[string]endpoint `toml:"exporter"`
			TraceExporter map[string]endpoint `toml:"trace_exporter"`
			LogUserPrompt *bool               `toml:"log_user_prompt"`
		} `toml:"otel"`
	}
	meta, err := toml.Decode(block, &settings)
	require.NoError(t, err)
	assert.Empty(t, meta.Undecoded())
	assert.Equal(t, endpoint{"http://127.0.0.1:4318/v1/logs", "binary"}, settings.OTel.Exporter["otlp-http"])
	assert.Equal(t, endpoint{"http://127.0.0.1:4318/v1/traces", "binary"}, settings.OTel.TraceExporter["otlp-http"])
	require.NotNil(t, settings.OTel.LogUserPrompt)
	assert.False(t, *settings.OTel.LogUserPrompt)
}
