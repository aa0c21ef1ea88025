package docs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// packages are those that a snippet may use without importing them, by their names.
var packages = map[string]string{
	"classify":      module + "/otelllm/classify",
	"context":       "context",
	"errors":        "errors",
	"faultyllm":     module + "/test/faultyllm",
	"http":          "net/http",
	"log":           "log",
	"openai":        "github.com/openai/openai-go/v3",
	"option":        "github.com/openai/openai-go/v3/option",
	"manual":        module + "/otelllm/manual",
	"mcpeffect":     module + "/otelllm/mcpeffect",
	"os":            "os",
	"otel":          "go.opentelemetry.io/otel",
	"otelllm":       module + "/otelllm",
	"otlptracehttp": "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp",
	"realtime":      module + "/otelllm/realtime",
	"responses":     module + "/otelllm/responses",
	"retry":         module + "/otelllm/retry",
	"signal":        "os/signal",
	"syscall":       "syscall",
	"testing":       "testing",
	"time":          "time",
	"trace":         "go.opentelemetry.io/otel/sdk/trace",
}

// surroundings are what the snippets of a page leave out: the function that they are a part of, and declarations.
type surroundings struct{ function, declarations string }

// plain are the surroundings of a page that does not say more.
const plain = "(ctx context.Context) (err error)"

var around = map[string]surroundings{
	"docs/instrument-go.md": {declarations: `
		var id string
		var call struct{ ID, Arguments string }
		var applyPatch func(ctx context.Context, arguments string) (string, error)
		var header http.Header
		var frame []byte
		var write func(frame []byte) error
		var read func() (frame []byte, err error)`},
	"test/README.md": {function: "(t *testing.T)"},
	"docs/retry.md": {
		function: "(ctx context.Context) (answer string, err error)",
		declarations: `
		const maxTries = 4
		var messages func() []string
		var history []string
		var policy retry.Policy
		var turn func(ctx context.Context, history *[]string) error
		var ask func(ctx context.Context, messages []string) (string, error)
		var confirm func(question string) bool
		var wait func(ctx context.Context, d time.Duration)
		var backoff func(try int) time.Duration`,
	},
}

var importDeclaration = regexp.MustCompile(`(?m)^import (?:\([^)]*\)|(?:\w+ )?"[^"]+")$`)

// goChecker compiles snippets against the packages that they import, as the module of the harness has them.
type goChecker struct {
	positions *token.FileSet
	importer  types.Importer
}

// newGoChecker compiles what the snippets import.
func newGoChecker(t *testing.T, all []block) *goChecker {
	t.Helper()
	imports := map[string]bool{}
	for i := range all {
		if all[i].language != "go" {
			continue
		}
		// Syntax errors are reported by check.
		if file, err := parseGo(token.NewFileSet(), &all[i]); err == nil {
			for _, spec := range file.Imports {
				imports[strings.Trim(spec.Path.Value, `"`)] = true
			}
		}
	}
	c := &goChecker{positions: token.NewFileSet()}
	c.importer = c.importing(exportData(t, slices.Sorted(maps.Keys(imports))))
	return c
}

// importing reads what compiled packages export.
func (c *goChecker) importing(exported map[string]string) types.Importer {
	return importer.ForCompiler(c.positions, "gc", func(path string) (io.ReadCloser, error) {
		file, ok := exported[path]
		if !ok {
			return nil, fmt.Errorf("the module of the harness has no package %s", path)
		}
		return os.Open(file)
	})
}

// exportData compiles packages and returns the files with what they export, by their paths.
func exportData(t *testing.T, paths []string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	// As the Makefile compiles what needs no race detector, so that it is compiled once.
	flags, err := exec.CommandContext(ctx, "go", "env", "GOFLAGS").Output()
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-export", "-f", "{{.ImportPath}} {{.Export}}"}, paths...)...)
	cmd.Dir = filepath.Join(root, "test")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS="+strings.TrimSpace(string(flags)+" -trimpath"))
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	require.NoError(t, err, problems.String())
	exported := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			exported[path] = file
		}
	}
	return exported
}

func (c *goChecker) check(t *testing.T, b *block) {
	for _, err := range c.problems(b) {
		t.Error(err)
	}
}

// problems compiles a snippet. What it declares and does not use is fine: the reader's program goes on.
func (c *goChecker) problems(b *block) (list []error) {
	file, err := parseGo(c.positions, b)
	if err != nil {
		return []error{err}
	}
	conf := types.Config{Importer: c.importer, Error: func(err error) {
		var problem types.Error
		if !errors.As(err, &problem) || !problem.Soft {
			list = append(list, err)
		}
	}}
	_, _ = conf.Check("snippet", c.positions, []*ast.File{file}, nil)
	return list
}

// parseGo makes a file of a snippet: one that is no file is the body of a function, with imports by the names that it uses.
func parseGo(positions *token.FileSet, b *block) (*ast.File, error) {
	at := fmt.Sprintf("//line %s:%d\n", b.page, b.line)
	if strings.HasPrefix(b.text, "package ") {
		return parser.ParseFile(positions, "", at+b.text, parser.SkipObjectResolution)
	}
	own := strings.Join(importDeclaration.FindAllString(b.text, -1), "\n")
	body := importDeclaration.ReplaceAllStringFunc(b.text, func(declaration string) string {
		return strings.Repeat("\n", strings.Count(declaration, "\n")) // lines keep their numbers
	})
	s := around[b.page]
	source := func(imports string) string {
		return "package snippet\n" + own + "\n" + imports + s.declarations + "\nfunc _" + cmp.Or(s.function, plain) + " {\n" + at + body + "return\n}\n"
	}
	file, err := parser.ParseFile(token.NewFileSet(), "", source(""), parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	missing := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if name, ok := selector.X.(*ast.Ident); ok && packages[name.Name] != "" {
				missing[name.Name] = true
			}
		}
		return true
	})
	for _, spec := range file.Imports {
		for name, path := range packages {
			if spec.Path.Value == `"`+path+`"` {
				delete(missing, name)
			}
		}
	}
	var imports strings.Builder
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		fmt.Fprintf(&imports, "import %s %q\n", name, packages[name])
	}
	return parser.ParseFile(positions, "", source(imports.String()), parser.SkipObjectResolution)
}

var (
	codeInText    = regexp.MustCompile("`[^`\n]+`")
	qualifiedName = regexp.MustCompile(`\b(otelllm|classify|manual|mcpeffect|realtime|responses|retry|semconv|faultyllm)\.([A-Z]\w*)`)
	methodName    = regexp.MustCompile(`(?:^|[^.\w])([A-Z]\w*)\.([A-Z]\w*)`)
)

// TestNamesInText: exported names that pages have in their text are there: pkg.Name, and Type.Method of the packages that record.
func TestNamesInText(t *testing.T) {
	paths := map[string]string{
		"otelllm": packages["otelllm"], "classify": packages["classify"], "faultyllm": packages["faultyllm"],
		"manual": packages["manual"], "mcpeffect": packages["mcpeffect"], "realtime": packages["realtime"], "responses": packages["responses"],
		"retry":   packages["retry"],
		"semconv": module + "/semconv",
	}
	pages := files(t, ".md")
	c := &goChecker{positions: token.NewFileSet()}
	c.importer = c.importing(exportData(t, slices.Sorted(maps.Values(paths))))
	scopes := map[string]*types.Scope{}
	for name, path := range paths {
		pkg, err := c.importer.Import(path)
		require.NoError(t, err)
		scopes[name] = pkg.Scope()
	}
	var seen int
	for _, page := range pages {
		for _, code := range codeInText.FindAllString(read(t, page), -1) {
			for _, name := range qualifiedName.FindAllStringSubmatch(code, -1) {
				seen++
				assert.NotNil(t, scopes[name[1]].Lookup(name[2]), "%s: %s: there is no %s", page, code, name[0])
			}
			for _, name := range methodName.FindAllStringSubmatch(code, -1) {
				for _, scope := range []string{"otelllm", "manual", "realtime", "responses"} {
					named, ok := scopes[scope].Lookup(name[1]).(*types.TypeName)
					if !ok {
						continue
					}
					seen++
					member, _, _ := types.LookupFieldOrMethod(named.Type(), true, named.Pkg(), name[2])
					assert.NotNil(t, member, "%s: %s: there is no %s.%s", page, code, name[1], name[2])
				}
			}
		}
	}
	assert.Greater(t, seen, 20)
}

// TestGoRefuses: a snippet that does not compile fails, at its line on the page.
func TestGoRefuses(t *testing.T) {
	files(t, ".md")
	cases := []struct{ text, want string }{
		{"x := 1\nvar y string = x\n", "page.md:11: cannot use x"},
		{"client := otelllm.NewNothing()\n", "page.md:10: undefined: otelllm.NewNothing"},
		{"import \"net/http\"\n\n_ = http.Nothing\n", "page.md:12: undefined: http.Nothing"},
		{"import (\n\t\"net/http\"\n)\n\n_ = http.Nothing\n", "page.md:14: undefined: http.Nothing"},
		{"client := otelllm.NewTransport(\n", "page.md:11"},
		{"package main\n\nfunc main() { run() }\n", "page.md:12: undefined: run"},
		{"unused := http.DefaultClient\n", ""},
		{"defer func() { recover() }()\nreturn nil\n", ""},
	}
	var all []block
	for _, tt := range cases {
		all = append(all, block{page: "page.md", line: 10, language: "go", text: tt.text})
	}
	c := newGoChecker(t, all)
	for i, tt := range cases {
		problems := c.problems(&all[i])
		if tt.want == "" {
			assert.Empty(t, problems, tt.text)
		} else if assert.NotEmpty(t, problems, tt.text) {
			assert.Contains(t, problems[0].Error(), tt.want)
		}
	}
}
