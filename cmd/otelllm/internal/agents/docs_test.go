package agents_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/agents"
)

var update = flag.Bool("update", false, "write the table of the page")

const (
	page  = "../../../../docs/agents.md"
	begin = "<!-- table: go test ./internal/agents -update, in cmd/otelllm -->\n"
	end   = "<!-- end of table -->"
)

// The page has the table of the program.
func TestPage(t *testing.T) {
	raw, err := os.ReadFile(page)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(raw), begin)
	require.True(t, ok)
	table, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	var b strings.Builder
	b.WriteString("\n| agent | `--set` | known by | sent through the proxy by | not through the proxy | tried |\n|---|---|---|---|---|---|\n")
	for _, a := range agents.Table() {
		known, tried := "–", "untried"
		if len(a.Commands) > 0 {
			known = "`" + strings.Join(a.Commands, "`, `") + "`"
		}
		if a.Version != "" {
			tried = a.Version
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s | %s | %s |\n", a.Title, a.Name, known, a.Way, a.Limits, tried)
	}
	b.WriteString("\n")
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+begin+b.String()+end+after), 0o644))
		return
	}
	assert.Equal(t, b.String(), table, "go test ./internal/agents -update writes it")
}

// Each version that is said to be tried is the one that is pinned for the tests.
func TestVersionsArePinned(t *testing.T) {
	raw, err := os.ReadFile("../../../../test/agents/package.json")
	require.NoError(t, err)
	for _, a := range agents.Table() {
		if a.Version != "" && a.Name != agents.Generic {
			assert.Contains(t, string(raw), `"`+a.Version+`"`, a.Title)
		}
	}
}
