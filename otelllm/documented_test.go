package otelllm_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every exported name is used in an example: functions, variables, constants and types by their names, methods by a call.
// A call of a method shows its type as well.
func TestEveryNameHasExample(t *testing.T) {
	known := importer{}
	for _, folder := range []string{".", "manual", "realtime", "responses", "mcpeffect", "retry"} {
		assert.Empty(t, undocumented(t, known, folder), "%s: without an example", folder)
	}
}

// undocumented returns the exported names of a package that no example of it uses. The package is added to known.
func undocumented(t *testing.T, known importer, folder string) []string {
	t.Helper()
	path := "github.com/otelllm/otelllm-go/otelllm"
	if folder != "." {
		path += "/" + folder
	}
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	files := token.NewFileSet()
	var sources, examples []*ast.File
	for _, e := range entries {
		name := e.Name()
		switch {
		case !strings.HasSuffix(name, ".go"):
		case !strings.HasSuffix(name, "_test.go"):
			sources = append(sources, parse(t, files, filepath.Join(folder, name)))
		case strings.HasPrefix(name, "example_"):
			examples = append(examples, parse(t, files, filepath.Join(folder, name)))
		}
	}

	// The types of other packages are not needed: the checker goes on without them.
	lenient := types.Config{Importer: known, Error: func(error) {}, IgnoreFuncBodies: true}
	api, _ := lenient.Check(path, files, sources, nil)
	known[path] = api
	used := types.Info{Uses: map[*ast.Ident]types.Object{}}
	lenient.IgnoreFuncBodies = false
	_, _ = lenient.Check(path+"_test", files, examples, &used)

	shown := map[string]bool{}
	for _, file := range examples {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Example") {
				continue
			}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if object := used.Uses[id]; object != nil && object.Pkg() == api {
						shown[receiver(object)], shown[qualified(object)] = true, true
					}
				}
				return true
			})
		}
	}
	missing := []string{}
	want := func(name string) {
		if !shown[name] {
			missing = append(missing, name)
		}
	}
	for _, name := range api.Scope().Names() {
		object := api.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		want(name)
		if named, ok := object.Type().(*types.Named); ok {
			for method := range named.Methods() {
				if method.Exported() && !ofInterface[method.Name()] {
					want(name + "." + method.Name())
				}
			}
		}
	}
	return missing
}

// ofInterface are the methods that other packages call: net/http, errors, and those that ask for a net.Error.
var ofInterface = map[string]bool{
	"RoundTrip": true,
	"Error":     true, "Is": true, "As": true, "Unwrap": true,
	"Timeout": true, "Temporary": true,
}

// qualified returns the name of an object, that of a method with its type.
func qualified(object types.Object) string {
	if typ := receiver(object); typ != "" {
		return typ + "." + object.Name()
	}
	return object.Name()
}

// receiver returns the type of a method's receiver, and "" for what is not a method.
func receiver(object types.Object) string {
	signature, ok := object.Type().(*types.Signature)
	if !ok || signature.Recv() == nil {
		return ""
	}
	typ := signature.Recv().Type()
	if pointer, ok := typ.(*types.Pointer); ok {
		typ = pointer.Elem()
	}
	return typ.(*types.Named).Obj().Name()
}

// importer has the packages that it holds, and no others.
type importer map[string]*types.Package

func (i importer) Import(path string) (*types.Package, error) {
	if pkg := i[path]; pkg != nil {
		return pkg, nil
	}
	return nil, errors.New("not needed")
}

func parse(t *testing.T, files *token.FileSet, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	return file
}
