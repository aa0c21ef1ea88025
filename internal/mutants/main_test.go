package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const source = `package p

type T[F any] struct{ n int }

func (t *T[F]) more(a int) bool {
	return t.n >= a && a != 0
}

func less(a, b int) bool { return a < b }

const size = 1<<4
`

func TestRun(t *testing.T) {
	const results = `{"files":[{"file_name":"p.go","mutations":[
		{"type":"CONDITIONALS_BOUNDARY","status":"LIVED","line":6,"column":13},
		{"type":"CONDITIONALS_NEGATION","status":"KILLED","line":6,"column":13},
		{"type":"INVERT_LOGICAL","status":"TIMED OUT","line":6,"column":18},
		{"type":"CONDITIONALS_BOUNDARY","status":"KILLED","line":9,"column":37},
		{"type":"INVERT_BITWISE","status":"NOT COVERED","line":11,"column":15}]}]}`
	const boundary = "CONDITIONALS_BOUNDARY T.more: return t.n «>=» a && a != 0"
	const bitwise = "INVERT_BITWISE declaration: const size = 1«<<»4"
	const killed = "CONDITIONALS_BOUNDARY less: func less(a, b int) bool { return a «<» b }"
	for name, tt := range map[string]struct {
		list    string
		fails   bool
		says    []string
		notSays string
	}{
		"all listed":      {"# why\nDIR/p.go " + boundary + "\nDIR/p.go " + bitwise + "\n\tno one asks\n\tfor it\n", false, []string{"5 mutants", "2 equivalent"}, "do not notice"},
		"one not listed":  {"DIR/p.go " + boundary + "\n\treason\n", true, []string{"p.go:11:15: the tests do not notice\nDIR/p.go " + bitwise}, boundary},
		"one was noticed": {"DIR/p.go " + boundary + "\nDIR/p.go " + bitwise + "\nDIR/p.go " + killed + "\n\treason\n", true, []string{"was noticed:\nDIR/p.go " + killed}, boundary},
		"another file's":  {"DIR/p.go " + boundary + "\nDIR/p.go " + bitwise + "\nDIR/q.go " + killed + "\n\treason\n", false, nil, killed},
		"no reason":       {"DIR/p.go " + boundary + "\n", true, nil, boundary},
		"twice":           {"DIR/p.go " + boundary + "\n\treason\n\nDIR/p.go " + boundary + "\n\treason\n", true, nil, "do not notice"},
		"only a reason":   {"\treason\n", true, nil, "do not notice"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.ToSlash(t.TempDir())
			write := func(name, text string) string {
				file := filepath.Join(dir, name)
				require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600))
				return file
			}
			write("p.go", source)
			var out strings.Builder
			err := run(&out, write("list", tt.list), []string{dir, write("results", results)})
			assert.Equal(t, tt.fails, err != nil, "%v\n%s", err, out.String())
			for _, says := range tt.says {
				assert.Contains(t, out.String(), strings.ReplaceAll(says, "DIR", dir))
			}
			assert.NotContains(t, out.String(), tt.notSays)
		})
	}
}

func TestWhatGremlinsDidNotRun(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "p.go"), []byte(source), 0o600))
	for _, mutations := range []string{
		``, `{"type":"X","status":"RUNNABLE","line":6,"column":13}`, `{"type":"X","status":"LIVED","line":60,"column":13}`,
	} {
		name := filepath.Join(dir, "results")
		require.NoError(t, os.WriteFile(name, []byte(`{"files":[{"file_name":"p.go","mutations":[`+mutations+`]}]}`), 0o600))
		_, err := read(dir, name)
		assert.Error(t, err, mutations)
	}
}
