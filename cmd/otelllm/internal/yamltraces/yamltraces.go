// Package yamltraces reads, for tests, the golden files of llm_classify: OTLP/JSON, written as YAML.
package yamltraces

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.yaml.in/yaml/v3"
)

// Read returns the traces of a golden file.
func Read(tb testing.TB, path string) ptrace.Traces {
	tb.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(tb, err)
	var document map[string]any
	require.NoError(tb, yaml.Unmarshal(raw, &document), path)
	raw, err = json.Marshal(document)
	require.NoError(tb, err, path)
	td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(raw)
	require.NoError(tb, err, path)
	return td
}
