package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestManPage requires a section for every command that help shows, and the flags as they are typed.
func TestManPage(t *testing.T) {
	cmd := newCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"man"})
	require.NoError(t, cmd.Execute())
	page := out.String()
	for _, section := range []string{"NAME", "SYNOPSIS", "RUN", "PROXY", "DEMO", "CLASSIFY", "SESSIONS", "EXPLAIN", "CHECK", "JUDGE"} {
		assert.Contains(t, page, "\n.SH "+section+"\n")
	}
	assert.NotContains(t, page, "\n.SH MAN\n")
	assert.Contains(t, page, `\fB\-\-fail\-on\fR`)
}

func TestRoff(t *testing.T) {
	assert.Equal(t, "\\&.TH is text\n\\&'so is this\na\\-b \\en", roff(".TH is text\n'so is this\na-b \\n"))
}
