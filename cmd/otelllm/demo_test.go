package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The demo prints ten lines, and these are in the README.
func TestDemo(t *testing.T) {
	status, out, errs := runCommand(t, "", "demo")
	assert.Zero(t, status, errs)
	assert.Equal(t, 10, strings.Count(out, "\n"), out)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	assert.Contains(t, string(readme), "```\n"+out+"```\n")
}

func TestDemoVerbose(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.html")
	status, out, errs := runCommand(t, "", "demo", "-v", "--report", file)
	assert.Zero(t, status, errs)
	assert.Equal(t, 3, strings.Count(out, "timeline  +"), out)
	assert.Contains(t, out, "user_confirmed_retry, because of tool_side_effect")
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, 3, strings.Count(string(page), `"kind":"run"`))
	status, _, errs = runCommand(t, "", "demo", "--report", t.TempDir())
	assert.Equal(t, statusError, status)
	assert.Contains(t, errs, "write the report")
}
