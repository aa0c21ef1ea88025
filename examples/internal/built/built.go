// Package built finds the programs that tests need and that take minutes to
// build: a test without them is left out, and says how to get them.
package built

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Collector is the Collector with llm_classify, named by OTELCOL_BIN. One that
// happens to lie in build/ may be older than the code, so it is not taken.
func Collector(tb testing.TB) string {
	tb.Helper()
	bin := os.Getenv("OTELCOL_BIN")
	if bin == "" {
		tb.Skip("LEFT OUT: OTELCOL_BIN names no Collector; `make collector` builds one to build/otelcol-llm")
	}
	return there(tb, bin)
}

// Jaeger is a Jaeger 2, named by JAEGER_BIN, or the one that `make demo-jaeger`
// has built.
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

// Root is the root of the repository.
func Root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	require.NoError(tb, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "deploy", "collector", "manifest.yaml")); err == nil {
			return dir
		}
		require.NotEqual(tb, filepath.Dir(dir), dir, "the test does not run inside of the repository")
		dir = filepath.Dir(dir)
	}
}

// there: who names a program means that program.
func there(tb testing.TB, bin string) string {
	tb.Helper()
	require.FileExists(tb, bin)
	abs, err := filepath.Abs(bin)
	require.NoError(tb, err)
	return abs
}
