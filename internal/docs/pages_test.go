package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// root is the root of the repository.
	root = "../.."
	// module is the path of the root module. Every other module's path is this and its folder.
	module = "github.com/otelllm/otelllm-go"
)

// files returns the files of the repository whose name ends in suffix, by their path from the root, with slashes. It
// skips the test where the other modules are missing: scripts/oldest-go copies the root module alone.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, "examples", "go.mod")); err != nil {
		t.Skip("LEFT OUT: this is a copy of the root module alone, and the pages are about all modules")
	}
	var found []string
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != root && (name == "build" || name == "node_modules" || name == "testdata" || name == ".git") {
			return filepath.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(name, suffix) {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			found = append(found, filepath.ToSlash(rel))
		}
		return nil
	}))
	require.NotEmpty(t, found)
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	require.NoError(t, err)
	return string(raw)
}

// block is a fenced block of a page.
type block struct {
	page     string
	line     int // of the first line of text
	language string
	text     string
}

func (b *block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

var fence = regexp.MustCompile("^ *(```+|~~~+) *([^`]*)$")

// blocksOf returns the fenced blocks of a page.
func blocksOf(t *testing.T, page, text string) []block {
	t.Helper()
	var (
		found []block
		end   string // what closes the open block; "" outside of one
	)
	for i, line := range strings.Split(text, "\n") {
		mark := fence.FindStringSubmatch(strings.TrimRight(line, " \r"))
		switch {
		case end == "" && mark != nil:
			end = mark[1]
			found = append(found, block{page: page, line: i + 2, language: mark[2]})
		case end != "" && mark != nil && strings.HasPrefix(mark[1], end) && mark[2] == "":
			end = ""
		case end != "":
			found[len(found)-1].text += line + "\n"
		}
	}
	require.Empty(t, end, "%s: the last block is not closed", page)
	return found
}

// TestSnippets checks every fenced block of every page by its language. A language without a check fails.
func TestSnippets(t *testing.T) {
	var all []block
	for _, page := range files(t, ".md") {
		all = append(all, blocksOf(t, page, read(t, page))...)
	}
	golang := newGoChecker(t, all)
	checks := map[string]func(*testing.T, *block){
		"go":      golang.check,
		"yaml":    checkYAML,
		"json":    checkJSON,
		"sh":      checkShell,
		"js":      checkJavaScript,
		"python":  checkPython,
		"toml":    checkTOML,
		"traceql": checkTraceQL,
		"":        checkText,
	}
	seen := map[string]int{}
	for i := range all {
		b := &all[i]
		t.Run(b.String(), func(t *testing.T) {
			check, ok := checks[b.language]
			require.True(t, ok, "nothing checks a block of %q: say how in this test", b.language)
			check(t, b)
		})
		seen[b.language]++
	}
	for language := range checks {
		assert.Positive(t, seen[language], "no page has a block of %q", language)
	}
}

// texts are the pages with blocks that no program reads, and what these show.
var texts = map[string]string{
	"README.md":                       "a picture, and what otelllm demo prints; compared by cmd/otelllm",
	"docs/agents.md":                  "what otelllm run prints",
	"docs/sessions.md":                "what otelllm sessions prints",
	"docs/classify-old-traces.md":     "what otelllm check prints",
	"docs/founding-incidents.md":      "what otelllm run prints; generated and compared by test/e2e/agents",
	"docs/incidents.md":               "what test/incidents prints; generated and compared there",
	"docs/instrument-any-language.md": "verdicts; generated and compared by cmd/otelllm",
	"docs/operate/security.md":        "a picture",
	"docs/verdicts.md":                "what make demo prints",
	"docs/upstream/claude.md":         "what docs/upstream/claude.sh prints",
	"docs/upstream/codex.md":          "what docs/upstream/codex.sh prints",
	"docs/upstream/gemini.md":         "what docs/upstream/gemini.sh prints",
	"docs/upstream/opencode.md":       "what docs/upstream/opencode.sh prints",
	"docs/upstream/qwen.md":           "what docs/upstream/qwen.sh prints",
}

func checkText(t *testing.T, b *block) {
	assert.Contains(t, texts, b.page, "a block without a language: name the language, or what the block shows in texts")
}

// checkTOML: the settings of Codex are parsed by the tests of cmd/otelllm, which has a parser.
func checkTOML(t *testing.T, b *block) {
	assert.Equal(t, "docs/agents-in-your-collector.md", b.page, "TOML is checked on this page only")
}

// checkTraceQL: the queries of one page are parsed by scripts/check-grafana, run by deploy/collector's tests where a Tempo
// is there, and their names are compared with the vocabulary in every run of those tests.
func checkTraceQL(t *testing.T, b *block) {
	assert.Equal(t, "deploy/collector/tempo/traceql.md", b.page, "TraceQL is checked on this page only")
}

// TestBlocks is the reading of pages.
func TestBlocks(t *testing.T) {
	page := "text\n```go\na\n  ```\n\n````\n```\nb\n````\n- item\n  ```sh\n  c\n  ```\n"
	assert.Equal(t, []block{
		{"page", 3, "go", "a\n"},
		{"page", 7, "", "```\nb\n"},
		{"page", 12, "sh", "  c\n"},
	}, blocksOf(t, "page", page))
}
