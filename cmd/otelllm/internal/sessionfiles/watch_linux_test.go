package sessionfiles

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
)

// standIn starts a process with the name of an agent in a folder, and returns what kills it. Nothing asks for its exit status
// before the end of the test: it is a zombie until then.
func standIn(t *testing.T, name, folder string) (kill func()) {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	cmd := &exec.Cmd{Path: sleep, Args: []string{name, "60"}, Dir: folder}
	require.NoError(t, cmd.Start())
	file := func(name string) string {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", cmd.Process.Pid, name))
		require.NoError(t, err)
		return string(raw)
	}
	kill = func() {
		require.NoError(t, cmd.Process.Kill())
		assert.Eventually(t, func() bool { return strings.Contains(file("stat"), ") Z ") }, 5*time.Second, time.Millisecond)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	require.Eventually(t, func() bool { return file("cmdline") == name+"\x0060\x00" }, 5*time.Second, time.Millisecond)
	return kill
}

// TestWatch knows that the writer of a session is gone by the process that it has seen.
func TestWatch(t *testing.T) {
	t.Parallel()
	folder, elsewhere := t.TempDir(), t.TempDir()
	type followed struct {
		watch *Watch
		file  *File
		log   *event.Log
	}
	begin := func(folder string) *followed {
		log := &event.Log{Session: "abc"}
		log.SetFolder(folder)
		log.Add(event.Event{Kind: event.Turn, Time: time.Now().Add(2 * clockError)})
		return &followed{&Watch{}, &File{Agent: Find(Pi), Path: "x.jsonl", Changed: time.Now()}, log}
	}
	// look returns what so many looks say.
	look := func(f *followed, times int) (said []turns.Writer) {
		for range times {
			w, _ := f.watch.LookAround().WriterOf(f.file, f.log, time.Now())
			said = append(said, w)
		}
		return said
	}
	const unknown, alive, gone = turns.WriterUnknown, turns.WriterAlive, turns.WriterGone

	t.Run("it was seen", func(t *testing.T) {
		kill, f := standIn(t, "pi", folder), begin(folder)
		assert.Equal(t, []turns.Writer{alive, alive}, look(f, 2))
		w, _ := f.watch.LookAround().WriterOf(f.file, f.log, time.Now().Add(2*silentAfter))
		assert.Equal(t, unknown, w, "it runs, and has written nothing for long")
		kill()
		assert.Equal(t, []turns.Writer{unknown, gone, gone}, look(f, 3))
		f.file.Size++
		assert.Equal(t, []turns.Writer{unknown, unknown}, look(f, 2), "another process writes the file")
	})
	t.Run("its folder is another", func(t *testing.T) {
		kill, f := standIn(t, "pi", elsewhere), begin(folder)
		look(f, 1)
		kill()
		assert.Equal(t, []turns.Writer{unknown, unknown, unknown}, look(f, 3))
	})
	t.Run("it is another agent", func(t *testing.T) {
		kill, f := standIn(t, "gemini", folder), begin(folder)
		look(f, 1)
		kill()
		assert.Equal(t, []turns.Writer{unknown, unknown, unknown}, look(f, 3))
	})
	t.Run("it began after the turn", func(t *testing.T) {
		f := begin(folder)
		f.log.Events[0].Time = time.Now().Add(-2 * clockError)
		kill := standIn(t, "pi", folder)
		look(f, 1)
		kill()
		assert.Equal(t, []turns.Writer{unknown, unknown, unknown}, look(f, 3))
	})
	t.Run("it was gone before the turn", func(t *testing.T) {
		kill, f := standIn(t, "pi", folder), begin(folder)
		look(f, 1)
		kill()
		f.log.Add(event.Event{Kind: event.Turn, Time: f.log.TurnBegan().Add(time.Second)})
		assert.Equal(t, []turns.Writer{unknown, unknown, unknown}, look(f, 3))
	})
	t.Run("one of two is left", func(t *testing.T) {
		first, second, f := standIn(t, "pi", folder), standIn(t, "pi", folder), begin(folder)
		look(f, 1)
		first()
		assert.Equal(t, []turns.Writer{alive, alive, alive}, look(f, 3))
		second()
		assert.Equal(t, []turns.Writer{unknown, gone}, look(f, 2))
	})
	t.Run("nobody watches", func(t *testing.T) {
		standIn(t, "pi", folder)
		f := begin(folder)
		w, _ := LookAround().WriterOf(f.file, f.log, time.Now())
		assert.Equal(t, unknown, w)
	})
}

// TestEnded: a process that the caller has waited for is gone, unless its child goes on.
func TestEnded(t *testing.T) {
	folder := t.TempDir()
	log := &event.Log{Session: "abc"}
	log.SetFolder(folder)
	writer := func(agent, in string) turns.Writer {
		around := LookAround()
		around.complete = true // as it is unless other tests have processes of other users
		around.Ended(agent, in)
		w, _ := around.WriterOf(&File{Agent: Find(Qwen), Path: "x.jsonl", Changed: time.Now()}, log, time.Now())
		return w
	}
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(folder, link))
	assert.Equal(t, turns.WriterGone, writer(Qwen, folder))
	assert.Equal(t, turns.WriterGone, writer(Qwen, link))
	assert.Equal(t, turns.WriterUnknown, writer(Qwen, t.TempDir()))
	assert.Equal(t, turns.WriterUnknown, writer(Pi, folder))
	kill := standIn(t, "qwen", folder)
	assert.Equal(t, turns.WriterUnknown, writer(Qwen, folder), "a launcher ended")
	kill()
	assert.Equal(t, turns.WriterGone, writer(Qwen, folder))
}

func TestAgentOf(t *testing.T) {
	for line, want := range map[string]string{
		"pi":                        Pi, // which writes this in the place of its command line
		"/usr/bin/pi -p x":          Pi,
		"node /usr/bin/gemini -p x": Gemini,
		"node --a /x/node_modules/@qwen-code/qwen-code/cli.js": Qwen,
		"node /x/node_modules/.bin/qwen":                       Qwen,
		"node /x/node_modules/pi-hole/pi.js":                   "",
		"/opt/node --a=b /x/bundle/gemini.js":                  Gemini,
		"node":                                                 "",
		"node --version":                                       "",
		"node server.js gemini":                                "",
		"vim gemini":                                           "",
		"sh -c gemini":                                         "",
		"":                                                     "",
		"claude":                                               Claude,
	} {
		assert.Equal(t, want, agentOf(strings.Split(line, " ")), line)
	}
}

// TestZombies: a process that was killed, and whose parent does not ask for its exit status, has ended.
func TestZombies(t *testing.T) {
	cmd := exec.Command("true")
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	assert.Eventually(t, func() bool { return ofPID(cmd.Process.Pid) == turns.WriterDead }, 5*time.Second, time.Millisecond)
}

// TestFolders reads the working folder of a session.
func TestFolders(t *testing.T) {
	for _, agent := range []string{Codex, Claude, Qwen, Pi} {
		assert.Equal(t, event.FolderOf("/home/anna/secret/invoices"), logOf(t, Find(agent), goldenSession(t, agent, "ok_tool")).Folder, agent)
	}
	log := logOf(t, Find(Gemini), goldenSession(t, Gemini, "ok_tool"))
	assert.Contains(t, string(goldenSession(t, Gemini, "ok_tool")), fmt.Sprintf(`"projectHash":"%x"`, log.Folder))
}
