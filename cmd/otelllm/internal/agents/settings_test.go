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
	var settings struct {
		OTel struct {
			Exporter      map[string]struct{ Endpoint string } `toml:"exporter"`
			TraceExporter map[string]struct{ Endpoint string } `toml:"trace_exporter"`
			LogUserPrompt *bool                                `toml:"log_user_prompt"`
		} `toml:"otel"`
	}
	meta, err := toml.Decode(block, &settings)
	require.NoError(t, err)
	assert.Empty(t, meta.Undecoded())
	assert.Equal(t, "http://127.0.0.1:4317", settings.OTel.Exporter["otlp-grpc"].Endpoint)
	assert.Equal(t, "http://127.0.0.1:4317", settings.OTel.TraceExporter["otlp-grpc"].Endpoint)
	require.NotNil(t, settings.OTel.LogUserPrompt)
	assert.False(t, *settings.OTel.LogUserPrompt)
}
