package keep

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// read calls each with every document in dir, the oldest file first. It returns how many lines
// it skipped because they are not whole documents, as the last one of a file after a crash.
func read(t *testing.T, dir string, each func(ptrace.Traces)) (skipped int) {
	t.Helper()
	files, _, err := list(dir)
	require.NoError(t, err)
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(dir, f.name))
		require.NoError(t, err)
		for line := range bytes.Lines(raw) {
			td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
			if err != nil {
				skipped++
				continue
			}
			each(td)
		}
	}
	return skipped
}
