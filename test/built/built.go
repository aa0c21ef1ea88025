// Package built finds the programs that tests need and that take minutes to build. A
// test without them is skipped, and the message says how to build them.
package built

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Collector returns the path of the Collector with llm_classify, from OTELCOL_BIN. It
// does not use a Collector that happens to be in build/, which may be older than the
// code.
func Collector(tb testing.TB) string {
	tb.Helper()
	bin := os.Getenv("OTELCOL_BIN")
	if bin == "" {
		tb.Skip("LEFT OUT: OTELCOL_BIN names no Collector; `make collector` builds one to build/otelcol-llm")
	}
	return there(tb, bin)
}

// Otelllm returns the path of the program otelllm, from OTELLLM_BIN.
func Otelllm(tb testing.TB) string {
	tb.Helper()
	bin := os.Getenv("OTELLLM_BIN")
	if bin == "" {
		tb.Skip("LEFT OUT: OTELLLM_BIN names no otelllm; `make otelllm` builds one to build/otelllm")
	}
	return there(tb, bin)
}

// Jaeger returns the path of a Jaeger 2, from JAEGER_BIN, or of the one that `make
// demo-jaeger` has built.
func Jaeger(tb testing.TB) string {
	tb.Helper()
	if bin := os.Getenv("JAEGER_BIN"); bin != "" {
		return there(tb, bin)
	}
	bin := filepath.Join(Root(tb), "build", "jaeger")
	if _, err := os.Stat(bin); err != nil {
		tb.Skip("LEFT OUT: there is no build/jaeger; `scripts/build-jaeger build/jaeger` builds it, in about 5 minutes")
	}
	return bin
}

// Root returns the root of the repository.
func Root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	require.NoError(tb, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "deploy", "collector", "manifest.yaml")); err == nil {
			return dir
		}
		require.NotEqual(tb, filepath.Dir(dir), dir, "the test has to run inside the repository")
		dir = filepath.Dir(dir)
	}
}

// there checks that the named program exists: naming a missing one is an error, not a
// reason to skip.
func there(tb testing.TB, bin string) string {
	tb.Helper()
	require.FileExists(tb, bin)
	abs, err := filepath.Abs(bin)
	require.NoError(tb, err)
	return abs
}
