//go:build unix

package sessionfiles

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
)

// endedProcess returns the id of a process that has ended.
func endedProcess(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "true")
	require.NoError(t, cmd.Run())
	return cmd.Process.Pid
}

// TestLock knows a writer of Codex by the lock that it holds.
func TestLock(t *testing.T) {
	home := t.TempDir()
	lock := filepath.Join(home, "thread-writer-locks", "abc.lock")
	file, log := &File{Agent: Find(Codex), Home: home, Changed: time.Now()}, &event.Log{Session: "abc"}
	writer := func() turns.Writer {
		w, _ := LookAround().WriterOf(file, log, time.Now())
		return w
	}
	assert.Equal(t, turns.WriterUnknown, writer(), "versions without locks")
	write(t, lock, nil)
	assert.Equal(t, turns.WriterDead, writer())
	f, err := os.Open(lock)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	assert.Equal(t, turns.WriterAlive, writer())
	require.NoError(t, f.Close())
	assert.Equal(t, turns.WriterDead, writer())
	require.NoError(t, os.Remove(lock))
	assert.Equal(t, turns.WriterUnknown, writer(), "of an older version, which has none")
	log.Version = "0.169.0"
	assert.Equal(t, turns.WriterDead, writer(), "another process has removed it")
	log.Session = "../../x"
	assert.Equal(t, turns.WriterUnknown, writer(), "an id that leads elsewhere")
}

// TestClaudeProcesses knows a writer of Claude Code by the file of its process.
func TestClaudeProcesses(t *testing.T) {
	home := t.TempDir()
	file, log := &File{Agent: Find(Claude), Home: home, Changed: time.Now()}, &event.Log{Session: "abc"}
	dead, self := endedProcess(t), os.Getpid()
	tests := map[string]struct {
		files []string
		w     turns.Writer
		idle  bool
	}{
		"none":                 {w: turns.WriterUnknown},
		"gone":                 {files: []string{fmt.Sprintf(`{"pid":%d,"sessionId":"abc"}`, dead)}, w: turns.WriterDead},
		"at work":              {files: []string{fmt.Sprintf(`{"pid":%d,"sessionId":"abc","status":"busy"}`, self)}, w: turns.WriterAlive},
		"waits":                {files: []string{fmt.Sprintf(`{"pid":%d,"sessionId":"abc","status":"idle"}`, self)}, w: turns.WriterAlive, idle: true},
		"another session":      {files: []string{fmt.Sprintf(`{"pid":%d,"sessionId":"x"}`, dead)}, w: turns.WriterUnknown},
		"resumed by another":   {files: []string{fmt.Sprintf(`{"pid":%d,"sessionId":"abc"}`, dead), fmt.Sprintf(`{"pid":%d,"sessionId":"abc"}`, self)}, w: turns.WriterAlive},
		"in another container": {files: []string{fmt.Sprintf(`{"pid":%d,"sessionId":"abc","pidDomain":"linux:x:pid:[1]"}`, dead)}, w: turns.WriterUnknown},
		"not JSON":             {files: []string{"x"}, w: turns.WriterUnknown},
	}
	if runtime.GOOS == "linux" {
		reused := tests["gone"]
		reused.files = []string{fmt.Sprintf(`{"pid":%d,"sessionId":"abc","procStart":"1"}`, self)}
		tests["its id is another's now"] = reused
	} else {
		delete(tests, "in another container")
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(filepath.Join(home, "sessions")))
			for i, raw := range test.files {
				write(t, filepath.Join(home, "sessions", strconv.Itoa(i)+".json"), []byte(raw))
			}
			w, idle := LookAround().WriterOf(file, log, time.Now())
			assert.Equal(t, test.w, w)
			assert.Equal(t, test.idle, idle)
		})
	}
}

// TestOpenFiles knows a writer of opencode by the file that it has open.
func TestOpenFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("open files are known on Linux")
	}
	name := filepath.Join(t.TempDir(), "x.jsonl")
	write(t, name, nil)
	file, log := &File{Agent: Find(OpenCode), Path: name, Changed: time.Now()}, &event.Log{}
	log.Add(event.Event{Time: time.Now()})
	around := LookAround()
	w, _ := around.WriterOf(file, log, time.Now())
	if around.complete {
		assert.Equal(t, turns.WriterDead, w)
	} else {
		assert.Equal(t, turns.WriterUnknown, w)
	}
	reader, err := os.Open(name)
	require.NoError(t, err)
	defer reader.Close()
	w, _ = LookAround().WriterOf(file, log, time.Now())
	assert.NotEqual(t, turns.WriterAlive, w, "one that only reads it")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	w, _ = LookAround().WriterOf(file, log, time.Now())
	assert.Equal(t, turns.WriterAlive, w)
	require.NoError(t, f.Close())
}

// TestSilence takes a writer of which nothing is known for gone after an hour.
func TestSilence(t *testing.T) {
	now := time.Now()
	file := &File{Agent: Find(Pi), Changed: now}
	w, _ := LookAround().WriterOf(file, &event.Log{}, now.Add(silentAfter))
	assert.Equal(t, turns.WriterUnknown, w)
	w, _ = LookAround().WriterOf(file, &event.Log{}, now.Add(silentAfter+1))
	assert.Equal(t, turns.WriterGone, w)
}

// TestProcessID knows a writer of Cline by its process id.
func TestProcessID(t *testing.T) {
	now := time.Now()
	file := &File{Agent: Find(Cline), Changed: now}
	w, _ := LookAround().WriterOf(file, &event.Log{PID: os.Getpid()}, now)
	assert.Equal(t, turns.WriterAlive, w)
	w, _ = LookAround().WriterOf(file, &event.Log{PID: endedProcess(t)}, now)
	assert.Equal(t, turns.WriterDead, w)
}
