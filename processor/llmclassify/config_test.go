package llmclassify

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap/confmaptest"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/intake"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
)

func TestConfig(t *testing.T) {
	conf, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	storageID := component.MustNewIDWithName("file_storage", "spans")
	for _, tt := range []struct {
		name      string
		want      *Config
		unmarshal string
		errs      []string
	}{
		{name: "", want: createDefaultConfig().(*Config)},
		{name: "all", want: &Config{
			MaxHold: 10 * time.Second, Settle: 500 * time.Millisecond, RunTimeout: 15 * time.Minute,
			MaxHeldBytes: 1 << 20, MaxFactBytes: 1 << 16, MaxSpansPerRun: 100, Shards: 4, IncomingVerdicts: intake.Strip, MarkStatus: markUnset, Dialects: []string{"gen_ai", "otelllm"},
			Storage: &storageID, MetadataKeys: []string{"X-Tenant", "x-region"},
		}},
		{name: "zero", errs: []string{
			"max_hold must be greater than 0, is 0s",
			"max_held_bytes must be greater than 0, is -1",
			"max_spans_per_run must be greater than 0, is 0",
			`dialects: unknown dialect "latin": must be one of `,
			`incoming_verdicts must be keep_client, strip or keep, is "trust"`,
			`mark_status must be failed_runs or unset, is "all"`,
			"shards must not be negative, is -1",
			"metadata_keys must be distinct and not empty: \"X-Tenant\" is not",
		}},
		{name: "order", errs: []string{
			"settle (2s) must not be greater than max_hold (1s)",
			"run_timeout (500ms) must not be less than max_hold (1s)",
		}},
		{name: "unknown", unmarshal: "max_age"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sub, err := conf.Sub(component.NewIDWithName(metadata.Type, tt.name).String())
			require.NoError(t, err)
			cfg := createDefaultConfig()
			err = sub.Unmarshal(cfg)
			if tt.unmarshal != "" {
				require.ErrorContains(t, err, tt.unmarshal)
				return
			}
			require.NoError(t, err)
			err = cfg.(*Config).Validate()
			for _, want := range tt.errs {
				require.ErrorContains(t, err, want)
			}
			if len(tt.errs) == 0 {
				require.NoError(t, err)
				assert.Equal(t, tt.want, cfg)
			}
		})
	}
}
