package llmagentlogs

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/metadata"
)

func TestDefaultConfig(t *testing.T) {
	cfg := NewFactory().CreateDefaultConfig()
	require.NoError(t, componenttest.CheckConfigStruct(cfg))
	require.NoError(t, cfg.(*Config).Validate())
}

func TestConfig(t *testing.T) {
	all, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	load := func(t *testing.T, name string) (*Config, error) {
		t.Helper()
		sub, err := all.Sub(component.NewIDWithName(metadata.Type, name).String())
		require.NoError(t, err)
		cfg := defaultConfig()
		return cfg, sub.Unmarshal(cfg)
	}
	cfg, err := load(t, "")
	require.NoError(t, err)
	assert.Equal(t, createDefaultConfig(), cfg)

	cfg, err = load(t, "all")
	require.NoError(t, err)
	require.NoError(t, cfg.Validate())
	assert.Equal(t, &Config{
		Agents: []string{"codex", "gemini_cli"}, Settle: 500 * time.Millisecond, Quiet: 5 * time.Minute, MaxAge: 2 * time.Hour, MaxBytes: 1 << 20,
	}, cfg)

	for name, want := range map[string][]string{
		"zero": {
			`agents must be of ["codex" "claude_code" "gemini_cli"], is "cursor"`, `agents must be distinct: "codex" is not`,
			"settle must be greater than 0, is 0s", "max_bytes must be at least 65536, is 1",
		},
		"order": {"quiet (5s) must not be less than settle (10s)", "max_age (1s) must not be less than quiet (5s)"},
	} {
		cfg, err := load(t, name)
		require.NoError(t, err)
		for _, text := range want {
			require.ErrorContains(t, cfg.Validate(), text)
		}
	}
	_, err = load(t, "unknown")
	assert.ErrorContains(t, err, "run_timeout")
}
