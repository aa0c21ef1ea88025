package docs

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// factsName is a name of otelllm_facts.py as snippets use it.
var factsName = regexp.MustCompile(`\bfacts\.([A-Za-z_]+)`)

// checkPython checks that a snippet is Python, if there is one to ask, and that the helper has every name that the snippet
// takes from it.
func checkPython(t *testing.T, b *block) {
	helper := read(t, "examples/python/otelllm_facts.py")
	for _, name := range factsName.FindAllStringSubmatch(b.text, -1) {
		assert.Regexp(t, `(?m)^ *(def|class) `+name[1]+`\b`, helper, "otelllm_facts.py has no %s", name[1])
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("LEFT OUT: there is no python3")
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", "import ast, sys; ast.parse(sys.stdin.read())")
	cmd.Stdin = strings.NewReader(b.text)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
