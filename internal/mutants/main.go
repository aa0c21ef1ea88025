// Mutants judges what gremlins found: a mutant that the tests let live has to be listed
// as equivalent, with the reason, and what is listed has to be alive.
//
//	mutants -list equivalent.txt <folder> <gremlins' result of it> ...
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

func main() {
	list := flag.String("list", "", "the mutants that no test can find, and why")
	flag.Parse()
	if err := run(os.Stdout, *list, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, list string, results []string) error {
	file, err := os.Open(list)
	if err != nil {
		return err
	}
	defer file.Close()
	equivalent, err := parseList(file)
	if err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	var all []mutant
	for i := 0; i+1 < len(results); i += 2 {
		found, err := read(results[i], results[i+1])
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	return judge(out, all, equivalent)
}

// mutant is one change that was tried.
type mutant struct {
	file, place string
	// key says which it is without line numbers, which move.
	key    string
	status string
}

// The statuses of gremlins that are judged by. The tests noticed a mutant that was
// killed, that never ended, or that did not compile.
const (
	statusLived      = "LIVED"
	statusNotCovered = "NOT COVERED"
	statusKilled     = "KILLED"
	statusTimedOut   = "TIMED OUT"
	statusNotViable  = "NOT VIABLE"
)

func (m *mutant) lives() bool { return m.status == statusLived || m.status == statusNotCovered }

// result is what gremlins writes.
type result struct {
	Files []struct {
		Name      string `json:"file_name"`
		Mutations []struct {
			Type, Status string
			Line, Column int
		}
	}
}

// read reads gremlins' result for a folder, and the sources that it names.
func read(folder, name string) ([]mutant, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var r result
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var all []mutant
	for _, f := range r.Files {
		file := path.Join(folder, f.Name)
		src, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		describe, err := describer(file, src)
		if err != nil {
			return nil, err
		}
		for _, m := range f.Mutations {
			switch m.Status {
			case statusLived, statusNotCovered, statusKilled, statusTimedOut, statusNotViable:
			default:
				return nil, fmt.Errorf("%s:%d:%d: gremlins says %q of a mutant", file, m.Line, m.Column, m.Status)
			}
			what, err := describe(m.Line, m.Column)
			if err != nil {
				return nil, err
			}
			all = append(all, mutant{
				file: file, place: fmt.Sprintf("%s:%d:%d", file, m.Line, m.Column), status: m.Status,
				key: strings.Join([]string{file, m.Type, what}, " "),
			})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no mutants", name)
	}
	return all, nil
}

// describer describes places in a source file: the function, and the line with the
// token marked.
func describer(name string, src []byte) (func(line, column int) (string, error), error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(src), "\n")
	return func(line, column int) (string, error) {
		if line < 1 || line > len(lines) || column < 1 || column > len(lines[line-1]) {
			return "", fmt.Errorf("%s:%d:%d: not in this file, which has changed", name, line, column)
		}
		text := lines[line-1]
		end := column - 1
		for end < len(text) && !strings.ContainsRune(" \t(){}[]", rune(text[end])) && isOperator(text[end]) == isOperator(text[column-1]) {
			end++
		}
		text = strings.TrimSpace(text[:column-1] + "«" + text[column-1:end] + "»" + text[end:])
		return function(set, file, line) + ": " + text, nil
	}, nil
}

func isOperator(c byte) bool { return strings.IndexByte("+-*/%&|^<>=!", c) >= 0 }

// function is the name of the function that a line is in, with its receiver's type.
func function(set *token.FileSet, file *ast.File, line int) string {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || line < set.Position(f.Pos()).Line || line > set.Position(f.End()).Line {
			continue
		}
		if f.Recv == nil || len(f.Recv.List) == 0 {
			return f.Name.Name
		}
		return receiver(f.Recv.List[0].Type) + "." + f.Name.Name
	}
	return "declaration"
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	default:
		return ""
	}
}

// parseList reads the list of mutants that are equivalent: lines that name them, and
// under them, indented, the reason. Lines that begin with # are comments.
func parseList(r io.Reader) (map[string]string, error) {
	reasons := map[string]string{}
	var keys []string
	reason := ""
	end := func() error {
		if len(keys) > 0 && reason == "" {
			return fmt.Errorf("no reason: %s", keys[0])
		}
		for _, key := range keys {
			reasons[key] = reason
		}
		keys, reason = nil, ""
		return nil
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		text := strings.TrimSpace(line)
		switch {
		case text == "" || strings.HasPrefix(line, "#"):
		case line[0] != ' ' && line[0] != '\t':
			if reason != "" {
				if err := end(); err != nil {
					return nil, err
				}
			}
			if _, again := reasons[text]; again || slices.Contains(keys, text) {
				return nil, fmt.Errorf("listed twice: %s", text)
			}
			keys = append(keys, text)
		case len(keys) == 0:
			return nil, fmt.Errorf("a reason without a mutant: %s", text)
		default:
			reason = strings.TrimSpace(reason + " " + text)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return reasons, end()
}

// judge reports the mutants that live and are not listed, and those that are listed
// and do not live.
func judge(out io.Writer, all []mutant, equivalent map[string]string) error {
	counts := map[string]int{}
	files, alive := map[string]bool{}, map[string]bool{}
	unlisted := 0
	for i := range all {
		m := &all[i]
		files[m.file] = true
		counts[m.status]++
		if !m.lives() {
			continue
		}
		if !alive[m.key] && equivalent[m.key] == "" {
			fmt.Fprintf(out, "%s: the tests do not notice\n%s\n", m.place, m.key)
			unlisted++
		}
		alive[m.key] = true
	}
	stale := 0
	for _, key := range slices.Sorted(maps.Keys(equivalent)) {
		file, _, _ := strings.Cut(key, " ")
		if files[file] && !alive[key] {
			fmt.Fprintf(out, "listed as equivalent, and is not there or was noticed:\n%s\n", key)
			stale++
		}
	}
	fmt.Fprintf(out, "%d mutants: %d noticed by a test, %d by a test that never ended, %d equivalent\n",
		len(all), counts[statusKilled]+counts[statusNotViable], counts[statusTimedOut], len(alive)-unlisted)
	if unlisted+stale > 0 {
		return errors.New("write a test for each, or say in the list why none can notice")
	}
	return nil
}
