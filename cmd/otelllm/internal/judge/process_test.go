//go:build unix

package judge

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asked is what the programs in testdata print.
const asked = `{"before":"safe_auto_retry","shown":"user_confirmed_retry","ref":"last","outcome":"failed"}`

// interpreter returns the path of an interpreter, and skips the test without it.
func interpreter(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip("LEFT OUT: there is no " + name)
	}
	return path
}

// built compiles the program.
func built(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "otelllm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return bin
}

// A program in Node starts the judge as its child.
func TestNode(t *testing.T) {
	node := interpreter(t, "node")
	out, err := exec.CommandContext(t.Context(), node, filepath.Join("testdata", "retry.mjs"), built(t)).CombinedOutput()
	require.NoError(t, err, string(out))
	assert.JSONEq(t, asked, string(out))
}

// A program in Python connects to the socket of a running judge.
func TestPython(t *testing.T) {
	python := interpreter(t, "python3")
	bin, path := built(t), socketPath(t)
	judge := exec.CommandContext(t.Context(), bin, "judge", "--socket", path)
	messages, err := judge.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, judge.Start())
	line, err := bufio.NewReader(messages).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "otelllm: judging on "+path+"\n", line)

	out, err := exec.CommandContext(t.Context(), python, filepath.Join("testdata", "retry.py"), path).CombinedOutput()
	require.NoError(t, err, string(out))
	assert.JSONEq(t, asked, string(out))
	require.NoError(t, judge.Process.Signal(os.Interrupt))
	require.NoError(t, judge.Wait(), "an interrupt is not a failure")
	assert.NoFileExists(t, path)
}

// socketPath returns a path that is short enough for a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "j") //nolint:usetesting // the name of the test is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// serve serves a socket until the test stops it.
func serve(t *testing.T, path string, j *Judge) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- ListenAndServe(ctx, path, j, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		cancel()
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		cancel()
		t.Fatal("the socket is not ready")
	}
	return func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// talk sends a line to a socket, and returns the answer.
func talk(t *testing.T, conn net.Conn, line string) string {
	t.Helper()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	_, err := conn.Write([]byte(line + "\n"))
	require.NoError(t, err)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	return answer
}

func TestSocket(t *testing.T) {
	path := socketPath(t)
	// What a killed judge leaves behind is replaced.
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	left.SetUnlinkOnClose(false)
	require.NoError(t, left.Close())
	require.FileExists(t, path)

	stop := serve(t, path, New(Options{}))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.ModeSocket|0o600, info.Mode())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing else is left")

	one, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer one.Close()
	two, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer two.Close()
	talk(t, one, `{"run":"r","kind":"run","state":"begun"}`)
	assert.Contains(t, talk(t, two, `{"run":"r","ref":1}`), `"verdict"`, "the runs are shared")
	assert.Contains(t, talk(t, two, `oops`), `"line":2`, "the lines are counted for each connection")

	err = ListenAndServe(t.Context(), path, New(Options{}), func() { t.Error("two judges on one socket") })
	require.ErrorContains(t, err, "another program listens on")
	stop()
	assert.NoFileExists(t, path)
	_, err = one.Write([]byte(fmt.Sprintln("{}")))
	if err == nil {
		_, err = bufio.NewReader(one).ReadString('\n')
	}
	require.Error(t, err, "the connection ends with the judge")

	require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	err = ListenAndServe(t.Context(), path, New(Options{}), func() {})
	require.ErrorContains(t, err, "is not a socket")
	assert.FileExists(t, path)
}
