package sessionfiles

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
	"github.com/otelllm/otelllm-go/internal/sample"
)

// goldenSession returns a session of testdata.
func goldenSession(tb testing.TB, agent, name string) []byte {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", agent, name+".jsonl"))
	require.NoError(tb, err)
	return raw
}

// write writes a file and the folders above it.
func write(tb testing.TB, name string, raw []byte) {
	tb.Helper()
	require.NoError(tb, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(tb, os.WriteFile(name, raw, 0o600))
}

// scanned reads and judges files whose writers are gone for long.
func scanned(tb testing.TB, files []File) (list []*Session, problems []string) {
	tb.Helper()
	s := Scan{Now: time.Now().Add(2 * silentAfter), Around: &Processes{}, Report: func(p *Problem) { problems = append(problems, p.Error()) }}
	s.Sessions(tb.Context(), files, func(one *Session) { list = append(list, one) })
	return list, problems
}

func noProblem(tb testing.TB) func(*Problem) {
	tb.Helper()
	return func(p *Problem) { tb.Error(p) }
}

// TestHomes finds the sessions of every agent in a home directory, and where its environment
// variables say.
func TestHomes(t *testing.T) {
	tests := map[string]struct {
		env map[string]string // $T is the test's folder
		at  map[string]string // of a session of each agent, below the test's folder
	}{
		"defaults": {at: map[string]string{
			Codex: "home/.codex/sessions/2026/11/20/rollout-x.jsonl", Claude: "home/.claude/projects/-p/x.jsonl",
			Qwen: "home/.qwen/projects/-p/chats/x.jsonl", Pi: "home/.pi/agent/sessions/--p--/x.jsonl",
			Gemini: "home/.gemini/tmp/p/chats/session-x.jsonl", Cline: "home/.cline/data/sessions/x/x.json",
			OpenCode: "home/.local/share/opencode/opencode.db",
		}},
		"environment": {env: map[string]string{
			"CODEX_HOME": "$T/a", "CLAUDE_CONFIG_DIR": "$T/b", "QWEN_HOME": "$T/c", "PI_CODING_AGENT_DIR": "$T/d", "GEMINI_CLI_HOME": "$T/e",
			"CLINE_DIR": "$T/f", "XDG_DATA_HOME": "$T/g",
		}, at: map[string]string{
			Codex: "a/sessions/2026/11/20/rollout-x.jsonl", Claude: "b/projects/-p/x.jsonl", Qwen: "c/projects/-p/chats/x.jsonl",
			Pi: "d/sessions/--p--/x.jsonl", Gemini: "e/.gemini/tmp/p/chats/session-x.jsonl", Cline: "f/data/sessions/x/x.json",
			OpenCode: "g/opencode/opencode-dev.db",
		}},
		"other variables": {env: map[string]string{
			"QWEN_RUNTIME_DIR": "$T/c", "CLINE_DATA_DIR": "$T/f", "OPENCODE_DB": "$T/g/mine.sqlite",
		}, at: map[string]string{Qwen: "c/projects/-p/chats/x.jsonl", Cline: "f/sessions/x/x.json", OpenCode: "g/mine.sqlite"}},
		"more variables": {env: map[string]string{
			"CLINE_SESSION_DATA_DIR": "$T/f", "OPENCODE_DB": "mine.db",
		}, at: map[string]string{Cline: "f/x/x.json", OpenCode: "home/.local/share/opencode/mine.db"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			want := make(map[string]string)
			for agent, at := range test.at {
				want[agent] = filepath.Join(root, filepath.FromSlash(at))
				write(t, want[agent], []byte("x"))
			}
			env := func(key string) string { return strings.ReplaceAll(test.env[key], "$T", root) }
			got := make(map[string]string)
			for _, f := range Discover(Places(filepath.Join(root, "home"), env), time.Time{}, noProblem(t)) {
				assert.Empty(t, got[f.Agent.Name])
				got[f.Agent.Name] = f.Path
			}
			assert.Equal(t, want, got)
		})
	}
}

// TestDiscover leaves out old sessions, links, and what is no session.
func TestDiscover(t *testing.T) {
	home := t.TempDir()
	codex := filepath.Join(home, ".codex", "sessions", "2026")
	write(t, filepath.Join(codex, "11", "rollout-new.jsonl"), []byte("x"))
	write(t, filepath.Join(codex, "11", "notes.txt"), []byte("x"))
	write(t, filepath.Join(codex, "10", "rollout-old.jsonl"), []byte("x"))
	write(t, filepath.Join(home, ".codex", "rollout-elsewhere.jsonl"), []byte("x"))
	write(t, filepath.Join(home, "outside", "rollout-secret.jsonl"), []byte("x"))
	now := time.Now()
	require.NoError(t, os.Chtimes(filepath.Join(codex, "10", "rollout-old.jsonl"), now, now.Add(-48*time.Hour)))
	if os.Symlink(filepath.Join(home, "outside"), filepath.Join(codex, "12")) == nil {
		require.NoError(t, os.Symlink(filepath.Join(home, "outside", "rollout-secret.jsonl"), filepath.Join(codex, "11", "rollout-link.jsonl")))
	}
	places := Places(home, func(string) string { return "" })
	files := Discover(places, now.Add(-24*time.Hour), noProblem(t))
	require.Len(t, files, 1)
	assert.Equal(t, "rollout-new.jsonl", filepath.Base(files[0].Path))
	assert.Len(t, Discover(places, time.Time{}, noProblem(t)), 2)

	if os.Geteuid() > 0 {
		require.NoError(t, os.Chmod(codex, 0))
		t.Cleanup(func() { assert.NoError(t, os.Chmod(codex, 0o700)) }) //nolint:gosec // a folder
		var problems []string
		assert.Empty(t, Discover(places, time.Time{}, func(p *Problem) { problems = append(problems, p.Error()) }))
		assert.Equal(t, []string{"Codex, a folder of its sessions: permission denied"}, problems)
	}
}

// TestNamed recognises files by their content, and folders by what is in them.
func TestNamed(t *testing.T) {
	for _, c := range casesIn(t, "testdata") {
		if c.name != "kill_in_tool" || c.agent.Name == OpenCode || c.agent.Name == Cline { // whose cases are files of the test's own
			continue
		}
		files, err := Named([]string{filepath.Join("testdata", c.agent.Name)}, nil, time.Time{}, noProblem(t))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			assert.Equal(t, c.agent, f.Agent, f.Path)
		}
		list, problems := scanned(t, files)
		assert.Len(t, list, len(files))
		assert.Empty(t, problems)
	}
	_, err := Named([]string{"scan_test.go"}, nil, time.Time{}, noProblem(t))
	require.ErrorIs(t, err, errNotKnown)
	_, err = Named([]string{filepath.Join(t.TempDir(), "none")}, nil, time.Time{}, noProblem(t))
	require.EqualError(t, errors.Unwrap(err), cause(errors.Unwrap(err)).Error())
}

// TestBadFiles reads files that are none: a line about each that cannot be read, and no crash.
func TestBadFiles(t *testing.T) {
	golden := goldenSession(t, Codex, "kill_in_tool")
	huge := bytes.Replace(golden, []byte("Canary 4711"), bytes.Repeat([]byte("x"), event.MaxLine), 1)
	tests := map[string]struct {
		raw  []byte
		says turns.State
		none bool // no session
	}{
		"empty":        {none: true},
		"binary":       {raw: bytes.Repeat([]byte{0, 0xff, '\n', 0x80}, 1000), none: true},
		"foreign JSON": {raw: []byte("{\"a\": 1}\n[1]\n\"x\"\n"), none: true},
		"a huge line":  {raw: huge, says: turns.Died},
		"deep JSON":    {raw: append(append([]byte{}, golden...), bytes.Repeat([]byte("["), 100_000)...), says: turns.Died},
		"half a line":  {raw: golden[:len(golden)-40], says: turns.Died},
		"CRLF":         {raw: bytes.ReplaceAll(golden, []byte("\n"), []byte("\r\n")), says: turns.Died},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rollout-x.jsonl")
			write(t, file, test.raw)
			list, problems := scanned(t, []File{{Agent: Find(Codex), Path: file, Size: int64(len(test.raw))}})
			assert.Empty(t, problems)
			if test.none {
				assert.Empty(t, list)
				return
			}
			require.Len(t, list, 1)
			assert.Equal(t, test.says, list[0].Last().State)
		})
	}
	list, problems := scanned(t, []File{{Agent: Find(OpenCode), Path: "scan_test.go"}, {Agent: Find(Codex), Path: "none.jsonl"}, {Agent: Find(Cline), Path: "none.json"}})
	assert.Empty(t, list)
	require.Len(t, problems, 3)
	assert.Equal(t, "opencode, scan_test.go: the database cannot be read, or is not opencode's (SQLite error 26)", problems[0])
}

// TestTail reads a very long file by its end.
func TestTail(t *testing.T) {
	golden := goldenSession(t, Codex, "kill_in_tool")
	file := filepath.Join(t.TempDir(), "rollout-x.jsonl")
	f, err := os.Create(file)
	require.NoError(t, err)
	head, _, _ := bytes.Cut(golden, []byte("\n"))
	_, err = f.Write(append(head, '\n'))
	require.NoError(t, err)
	const size = 4 << 30
	if err := f.Truncate(size); err != nil { // most of it is a hole
		t.Skip("the file system does not take a file of 4 GB: ", err)
	}
	_, err = f.WriteAt(append([]byte("\n"), golden...), size)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	list, problems := scanned(t, []File{{Agent: Find(Codex), Path: file}})
	assert.Empty(t, problems)
	require.Len(t, list, 1)
	assert.Equal(t, turns.Died, list[0].Last().State)
	assert.Equal(t, "0.169.0", list[0].Version, "from the beginning")
}

// TestTailWithinTurn reads the end of a file in which no turn begins: nothing is safe.
func TestTailWithinTurn(t *testing.T) {
	lines := bytes.SplitAfter(goldenSession(t, Codex, "r429"), []byte("\n"))
	filler := []byte(`{"timestamp":"2026-11-20T09:32:44.480Z","type":"world_state","payload":{"x":"` + strings.Repeat("y", 1<<20) + `"}}` + "\n")
	var raw []byte
	for _, line := range lines[:len(lines)-2] {
		raw = append(raw, line...)
	}
	for range 36 { // more than is read
		raw = append(raw, filler...)
	}
	raw = append(raw, lines[len(lines)-2]...)
	file := filepath.Join(t.TempDir(), "rollout-x.jsonl")
	write(t, file, raw)
	list, _ := scanned(t, []File{{Agent: Find(Codex), Path: file}})
	require.Len(t, list, 1)
	last := list[0].Last()
	assert.True(t, last.Partial)
	assert.Equal(t, turns.Unwell, last.State)
	assert.False(t, saidOf(last).safe, "a tool may have run before")
}

// TestCompressed reads a rollout that Codex has compressed.
func TestCompressed(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "rollout-x.jsonl.zst")
	write(t, file, w.EncodeAll(goldenSession(t, Codex, "kill_in_tool"), nil))
	list, problems := scanned(t, []File{{Agent: Find(Codex), Path: file}})
	assert.Empty(t, problems)
	require.Len(t, list, 1)
	assert.Equal(t, turns.Died, list[0].Last().State)

	write(t, file, w.EncodeAll(make([]byte, maxExpanded+1), nil)) // a few hundred bytes
	list, problems = scanned(t, []File{{Agent: Find(Codex), Path: file}})
	assert.Empty(t, list)
	assert.Equal(t, []string{"Codex, rollout-x.jsonl.zst: the file is too large to be read"}, problems)
}

// manySessions writes sessions of 1 MB each, of which each ends with a death.
func manySessions(tb testing.TB, n int) (files []File) {
	tb.Helper()
	golden := goldenSession(tb, Codex, "kill_in_tool")
	lines := bytes.SplitAfter(golden, []byte("\n"))
	filler := []byte(`{"timestamp":"2026-11-20T09:32:36.411Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"` +
		strings.Repeat("y", 10_000) + `"}]},"metadata":{"sampled_through_sequence":0}}` + "\n")
	raw := append(append([]byte{}, lines[0]...), bytes.Repeat(filler, 100)...)
	for _, line := range lines[1:] {
		raw = append(raw, line...)
	}
	dir := tb.TempDir()
	for i := range n {
		file := filepath.Join(dir, fmt.Sprintf("rollout-%d.jsonl", i))
		write(tb, file, raw)
		files = append(files, File{Agent: Find(Codex), Path: file, Size: int64(len(raw))})
	}
	return files
}

// TestManySessions reads 1,000 sessions with 1 GB in at most 200 MB.
func TestManySessions(t *testing.T) {
	if sample.Only() {
		t.Skip("it writes and reads 1 GB")
	}
	const n = 1000
	files := manySessions(t, n)
	runtime.GC()
	peak := uint64(0)
	s := Scan{Now: time.Now().Add(2 * silentAfter), Around: &Processes{}, Report: noProblem(t)}
	died := 0
	s.Sessions(t.Context(), files, func(one *Session) {
		if one.Last().State == turns.Died {
			died++
		}
		if died%50 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
		}
	})
	assert.Equal(t, n, died)
	assert.Less(t, peak, uint64(200<<20))
}

// BenchmarkSessions compares a scan with the time that encoding/json takes to check the same lines.
func BenchmarkSessions(b *testing.B) {
	files := manySessions(b, 50)
	bytesOf := files[0].Size * int64(len(files))
	b.Run("scan", func(b *testing.B) {
		b.SetBytes(bytesOf)
		for b.Loop() {
			s := Scan{Now: time.Now().Add(2 * silentAfter), Around: &Processes{}, Report: noProblem(b)}
			s.Sessions(b.Context(), files, func(*Session) {})
		}
	})
	b.Run("json.Valid", func(b *testing.B) {
		b.SetBytes(bytesOf)
		for b.Loop() {
			for _, f := range files {
				raw, err := os.ReadFile(f.Path)
				require.NoError(b, err)
				for line := range bytes.Lines(raw) {
					if !json.Valid(line) {
						b.Fatal("not JSON")
					}
				}
			}
		}
	})
}

// TestGrowing reads a file while it grows.
func TestGrowing(t *testing.T) {
	golden := goldenSession(t, Codex, "ok_tool")
	file := filepath.Join(t.TempDir(), "rollout-x.jsonl")
	write(t, file, nil)
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		defer close(done)
		for _, line := range bytes.SplitAfter(golden, []byte("\n")) {
			if _, err := io.Copy(f, bytes.NewReader(line)); err != nil {
				done <- err
			}
		}
		cancel()
	}()
	for ctx.Err() == nil {
		list, problems := scanned(t, []File{{Agent: Find(Codex), Path: file}})
		assert.Empty(t, problems)
		for _, one := range list {
			if last := one.Last(); last != nil {
				assert.Contains(t, []turns.State{turns.Died, turns.Well}, last.State)
			}
		}
	}
	require.NoError(t, <-done)
	require.NoError(t, f.Close())
	list, _ := scanned(t, []File{{Agent: Find(Codex), Path: file}})
	require.Len(t, list, 1)
	assert.Equal(t, turns.Well, list[0].Last().State)
}
