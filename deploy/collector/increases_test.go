package collector

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The count of lost spans has the first event of a counter, also after a restart, and takes no counter for new that was
// only not scraped for a while.
func TestCountsAfterGap(t *testing.T) {
	promtool := promBinary(t, "promtool")
	d := readDashboards(t)["llm-classifier.json"]
	require.Equal(t, "Spans lost", d.Panels[1].Title)
	expr := d.fill(d.Panels[1].Targets[0].Expr, "10m", nil)
	for name, tt := range map[string]struct {
		up, spans string
		want      int
	}{
		"the first event":    {"1x120", "_x50 7x70", 7},
		"failed scrapes":     {"1x40 0x10 1x70", "7x40 stale _x9 7x70", 0},
		"Prometheus is away": {"1x40 _x20 1x60", "7x40 _x20 7x60", 0},
		"a restart":          {"1x120", "7x40 stale _x19 3x60", 3},
		"a new Collector":    {"_x50 1x70", "_x50 5x70", 5},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			fmt.Fprintf(&out, "evaluation_interval: 30s\ntests:\n  - interval: 30s\n    input_series:\n"+
				"      - {series: 'up{job=\"j\", instance=\"i\"}', values: %s}\n"+
				"      - {series: 'otelcol_exporter_send_failed_spans{job=\"j\", instance=\"i\", exporter=\"otlp_grpc\"}', values: %s}\n"+
				"    promql_expr_test:\n", tt.up, tt.spans)
			// As long as the counter's return is within the range, and when it has left it.
			for _, at := range []int{32, 33, 34, 45, 50} {
				want := tt.want
				if at > 40 {
					want = 0
				}
				fmt.Fprintf(&out, "      - {eval_time: %dm, expr: %q, exp_samples: [{value: %d}]}\n", at, expr, want)
			}
			file := filepath.Join(t.TempDir(), "test.yaml")
			require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o600))
			log, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput()
			assert.NoError(t, err, "%s", log)
		})
	}
}
