package agentlog

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The processor, which is another module, has the list of its own for the spans of Claude
// Code.
func TestBesideIsThatOfTheProcessor(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "processor", "llmclassify", "internal", "dialect", "claudecode.go")
	if _, err := os.Stat(path); err != nil {
		t.Skip("the processor's source is not here")
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	var theirs []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "beside" {
			return true
		}
		for _, e := range spec.Values[0].(*ast.CompositeLit).Elts {
			name, err := strconv.Unquote(e.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value)
			require.NoError(t, err)
			theirs = append(theirs, name)
		}
		return false
	})
	assert.ElementsMatch(t, theirs, slices.Collect(maps.Keys(beside)))
}
