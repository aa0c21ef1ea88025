package docs

import (
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// short are the abbreviations of the import table.
var short = map[string]string{"otel": "go.opentelemetry.io/otel", "collector": "go.opentelemetry.io/collector"}

// importTable is who may import whom: for a folder the import paths, or those that begin so where the entry ends in "/…".
// A folder without an entry has that of the nearest one above it.
type importTable map[string][]string

// everything is the entry of a folder that may import whatever it likes.
const everything = "everything"

var (
	tableRow = regexp.MustCompile("(?m)^\\| `([^`]+)/` \\|.*\\| ([^|]+) \\|$")
	codeSpan = regexp.MustCompile("^`([^`]+)`$")
)

// parseImportTable reads the table of imports.md.
func parseImportTable(t *testing.T, page string) importTable {
	t.Helper()
	table := importTable{}
	for _, row := range tableRow.FindAllStringSubmatch(page, -1) {
		folder, cell := row[1], row[2]
		require.NotContains(t, table, folder)
		table[folder] = nil
		for entry := range strings.SplitSeq(cell, ", ") {
			name := codeSpan.FindStringSubmatch(entry)
			switch {
			case name != nil:
				table[folder] = append(table[folder], importPath(name[1]))
			case entry == everything:
				table[folder] = append(table[folder], everything)
			default:
				require.Equal(t, "–", entry, "%s/: a list of packages, each in backquotes, or – or everything", folder)
			}
		}
	}
	require.NotEmpty(t, table)
	return table
}

// importPath is what an entry of the table means: a folder of this repository ends in "/" or "/…", with all below it.
func importPath(entry string) string {
	if folder, ok := strings.CutSuffix(entry, "/"); ok {
		return module + "/" + folder
	}
	first, rest, _ := strings.Cut(entry, "/")
	if full := short[first]; full != "" {
		return strings.TrimSuffix(full+"/"+rest, "/")
	}
	if !strings.Contains(first, ".") {
		return module + "/" + entry
	}
	return entry
}

// allows reports whether the package in a folder may import a path, and whether the table has the folder at all.
func (table importTable) allows(folder, imported string) (allowed, known bool) {
	for ; folder != "."; folder = path.Dir(folder) {
		entries, ok := table[folder]
		if !ok {
			continue
		}
		return slices.ContainsFunc(entries, func(entry string) bool {
			below, all := strings.CutSuffix(entry, "/…")
			return entry == everything || imported == below || all && strings.HasPrefix(imported, below+"/")
		}), true
	}
	return false, false
}

// TestImports compares imports.md with what every package of every module imports, for every
// system. Tests may import more, as long as client and Collector stay apart.
func TestImports(t *testing.T) {
	table := parseImportTable(t, read(t, "internal/docs/imports.md"))
	folders := map[string]map[string]bool{} // what each one's packages import, without tests
	for _, file := range files(t, ".go") {
		folder := path.Dir(file)
		if folders[folder] == nil {
			folders[folder] = map[string]bool{}
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(file)), nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range parsed.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if problem := table.problem(file, imported); problem != "" {
				t.Errorf("%s imports %s: %s", file, imported, problem)
			}
			if !strings.HasSuffix(file, "_test.go") && !standard(imported) {
				folders[folder][entryFor(imported)] = true
			}
		}
	}
	for folder := range table {
		assert.DirExists(t, filepath.Join(root, filepath.FromSlash(folder)), "imports.md has a row for a folder that is not there")
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		// Each package that is compiled into an agent or a Collector has a row of its own.
		_, known := table[folder]
		if !strings.HasPrefix(folder, "otelllm/") && !strings.HasPrefix(folder, "processor/") && !strings.HasPrefix(folder, "connector/") {
			_, known = table.allows(folder, "")
		}
		if !known {
			cell := strings.Join(slices.Sorted(maps.Keys(folders[folder])), ", ")
			t.Errorf("internal/docs/imports.md has no row for a package; as it is now:\n| `%s/` | … | %s |", folder, cmp.Or(cell, "–"))
		}
	}
}

// standard reports whether a package is in the standard library.
func standard(imported string) bool { return !strings.Contains(strings.Split(imported, "/")[0], ".") }

// entryFor is the entry of the table for an import path.
func entryFor(imported string) string {
	if folder, ok := strings.CutPrefix(imported, module+"/"); ok {
		return "`" + folder + "/`"
	}
	for name, full := range short {
		if is(imported, full) {
			return "`" + name + strings.TrimPrefix(imported, full) + "`"
		}
	}
	return "`" + imported + "`"
}

// problem is what is wrong with an import, "" if nothing.
func (table importTable) problem(file, imported string) string {
	folder := path.Dir(file)
	client, collector := strings.HasPrefix(folder+"/", "otelllm/"), strings.HasPrefix(folder+"/", "processor/") || strings.HasPrefix(folder+"/", "connector/")
	switch {
	case client && (is(imported, short["collector"]) || is(imported, "github.com/open-telemetry/opentelemetry-collector-contrib") || is(imported, module+"/processor") || is(imported, module+"/connector")):
		return "the client never compiles Collector code, not even in tests"
	case collector && (imported == module+"/otelllm" || is(imported, module+"/otelllm/internal")):
		return "the Collector never compiles the client, not even in tests: they meet in semconv and classify"
	case strings.HasSuffix(file, "_test.go"):
		return ""
	case standard(imported):
		return ""
	}
	if allowed, _ := table.allows(folder, imported); !allowed {
		return fmt.Sprintf("internal/docs/imports.md does not allow %s for %s/", entryFor(imported), folder)
	}
	return ""
}

// is reports whether a package is the one at a path, or below it.
func is(imported, at string) bool { return imported == at || strings.HasPrefix(imported, at+"/") }

// TestImportsRefuse: imports that the table does not allow are found.
func TestImportsRefuse(t *testing.T) {
	table := parseImportTable(t, "| folder | what | may import |\n|---|---|---|\n"+
		"| `otelllm/` | a | `semconv/`, `otelllm/internal/…`, `otel`, `otel/trace/…`, `github.com/felixge/httpsnoop` |\n"+
		"| `otelllm/internal/sse/` | b, `c` | – |\n| `examples/` | d | everything |\n")
	for _, tt := range []struct {
		file, imported string
		fails          bool
	}{
		{"otelllm/a.go", "net/http", false},
		{"otelllm/a.go", module + "/semconv", false},
		{"otelllm/a.go", module + "/semconv/internal/gen", true},
		{"otelllm/a.go", module + "/otelllm/internal/sse", false},
		{"otelllm/a.go", module + "/otelllm/classify", true},
		{"otelllm/a.go", "go.opentelemetry.io/otel", false},
		{"otelllm/a.go", "go.opentelemetry.io/otel/trace/noop", false},
		{"otelllm/a.go", "go.opentelemetry.io/otel/tracer", true},
		{"otelllm/a.go", "go.opentelemetry.io/otel/sdk/trace", true},
		{"otelllm/a_test.go", "go.opentelemetry.io/otel/sdk/trace", false},
		{"otelllm/a_test.go", "go.opentelemetry.io/collector/pdata/ptrace", true},
		{"otelllm/a.go", "github.com/felixge/httpsnoop", false},
		{"otelllm/a.go", "github.com/felixge/httpsnoop/more", true},
		{"otelllm/internal/sse/a.go", "strings", false},
		{"otelllm/internal/sse/a.go", module + "/semconv", true},
		{"otelllm/internal/sse/more/a.go", module + "/semconv", true},
		{"examples/a/b/c.go", "example.com/anything", false},
		{"processor/x/a_test.go", module + "/otelllm/internal/wire", true},
		{"bench/a.go", "example.com/anything", true},
	} {
		assert.Equal(t, tt.fails, table.problem(tt.file, tt.imported) != "", "%s: %s", tt.file, tt.imported)
	}
}
