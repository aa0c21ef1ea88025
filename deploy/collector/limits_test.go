package collector

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelllm/otelllm-go/deploy/collector/internal/traffic"
)

// The traffic of `make eyes` has fewer combinations of labels than any metric has room for: nothing is counted without its
// labels. It is three services at four models with every kind of failure.
func TestLimitsFitTraffic(t *testing.T) {
	raw, err := os.ReadFile("config-metrics.yaml")
	require.NoError(t, err)
	var config struct {
		Connectors map[string]struct {
			Dimensions []struct{ Name string }
			Limit      string `yaml:"aggregation_cardinality_limit"`
		}
	}
	require.NoError(t, yaml.Unmarshal(raw, &config))
	for seed := range uint64(4) {
		l := traffic.NewLedger(traffic.New(eyesTraffic(seed+1, time.Now(), 12*time.Minute)))
		entries := map[string]traffic.Entries{
			"runs": l.Runs, "requests": l.Requests, "tools": l.Tools,
			"run_durations": l.RunSeconds, "request_durations": l.RequestSeconds, "tool_durations": l.ToolSeconds,
			"first_chunk": l.FirstChunks, "longest_gap": l.Gaps, "recovered_failures": l.RecoveredFailures,
			"missing_outputs": l.LostOutputs, "wasted_tokens": l.WastedTokens, "wasted_requests": l.WastedRequests,
		}
		for name, c := range config.Connectors {
			name, ok := strings.CutPrefix(name, "span_metrics/")
			if !ok {
				continue
			}
			require.Contains(t, entries, name)
			by := []string{"service_name"}
			for _, d := range c.Dimensions {
				by = append(by, strings.ReplaceAll(d.Name, ".", "_"))
			}
			_, text, ok := strings.Cut(strings.TrimSuffix(c.Limit, "}"), ":-")
			require.True(t, ok, "%s: %q", name, c.Limit)
			limit, err := strconv.Atoi(text)
			require.NoError(t, err)
			n := len(entries[name].By(by...))
			assert.Positive(t, n, name)
			assert.LessOrEqual(t, n, limit, "seed %d: combinations of labels of span_metrics/%s", seed+1, name)
		}
	}
}
