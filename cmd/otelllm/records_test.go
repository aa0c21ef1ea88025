package main

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What --json wrote is read again, with the same verdicts: also judged anew.
func TestClassifyReadsRecords(t *testing.T) {
	files, err := filepath.Glob(examples + "*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		status, first, errs := runCommand(t, "", "classify", "--json", file)
		require.Zero(t, status, errs)
		for _, again := range []bool{false, true} {
			args := []string{"classify", "--json", "-"}
			if again {
				args = append(args, "--again")
			}
			status, second, errs := runCommand(t, first, args...)
			require.Zero(t, status, errs)
			assert.Equal(t, verdictLines(first), verdictLines(second), "%s again %v", file, again)
		}
	}
}

// verdictLines returns what records say of verdicts.
func verdictLines(records string) (lines []string) {
	for line := range strings.Lines(records) {
		for part := range strings.SplitSeq(line, `,"`) {
			for _, key := range []string{"llm.run.outcome", "llm.failure.class", "llm.failure.cause", "llm.retry.safety", "llm.failure.phase"} {
				if strings.HasPrefix(part, key) {
					lines = append(lines, strings.TrimRight(part, "}]\n"))
				}
			}
		}
	}
	return lines
}

// check and classify read the folder of --keep, and the lines of run --json.
func TestFilesOfRunAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept, lines := filepath.Join(dir, "kept"), filepath.Join(dir, "runs.jsonl")
	p := otelllm(t, asks(model(t, broken)), append([]string{"run", "--keep", kept, "--json", lines, "--"}, asking(t, "ask")...)...)
	assert.Zero(t, p.run(t))
	for _, source := range []string{kept, lines} {
		status, out, errs := runCommand(t, "", "classify", source)
		assert.Zero(t, status, errs)
		assert.Contains(t, out, "connection_reset", source)
		status, out, errs = runCommand(t, "", "check", source)
		assert.Zero(t, status, "%s: %s %s", source, out, errs)
		assert.Contains(t, out, "0 contradict themselves", source)
		status, out, errs = runCommand(t, "", "explain", "last", source)
		assert.Zero(t, status, errs)
		assert.Contains(t, out, "connection reset", source)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.json"), []byte(`{"kind":"Pod"}`), 0o600))
	status, _, errs := runCommand(t, "", "classify", filepath.Join(dir, "other.json"))
	assert.Equal(t, statusError, status)
	assert.Contains(t, errs, "not a record")
}

func TestVersion(t *testing.T) {
	for want, info := range map[string]*debug.BuildInfo{
		"otelllm unknown go":                     nil,
		"otelllm v0.1.0 go":                      {Main: debug.Module{Version: "v0.1.0"}},
		"otelllm (devel) 0abc (with changes) go": {Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0abc"}, {Key: "vcs.modified", Value: "true"}}},
	} {
		var out strings.Builder
		require.NoError(t, printVersion(&out, info))
		assert.True(t, strings.HasPrefix(out.String(), want), out.String())
	}
}
