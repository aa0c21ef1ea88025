package otelllm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program that requires this module gets few others with it, and none that could raise
// the version of a module that the program is likely to use itself: gRPC, protobuf, zap.
func TestModulesOfAUser(t *testing.T) {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	const module = "github.com/otelllm/otelllm-go"
	write("go.mod", "module example.com/agent\n\ngo 1.25.0\n\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+root+"\n")
	write("main.go", "package main\n\nimport _ \""+module+"/otelllm\"\n\nfunc main() {}\n")
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	write("go.sum", string(sums))

	list := exec.CommandContext(t.Context(), "go", "list", "-mod=mod", "-m", "all")
	list.Dir = dir
	list.Env = append(os.Environ(), "GOWORK=off")
	out, err := list.Output()
	require.NoError(t, err)
	modules := strings.Split(strings.TrimSpace(string(out)), "\n")[1:]
	require.Contains(t, string(out), "go.opentelemetry.io/otel ")
	assert.LessOrEqual(t, len(modules), 30, "%s", out)
	for _, module := range modules {
		for _, heavy := range []string{"google.golang.org/grpc", "google.golang.org/protobuf", "go.uber.org/zap", "go.opentelemetry.io/collector"} {
			assert.False(t, strings.HasPrefix(module, heavy), module)
		}
	}
}
