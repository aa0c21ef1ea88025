package main

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal.
func terminal(t *testing.T) (keyboard, tty *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("LEFT OUT: no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tty.Close() })
	return keyboard, tty
}

// The keys of the terminal reach the command as they would without the program: once. The
// command has the terminal, and is in its foreground.
func TestRunInTerminal(t *testing.T) {
	t.Parallel()
	keyboard, tty := terminal(t)
	p := otelllm(t, nil, "run", "--", "sh", "-c",
		`n=0; trap 'n=$((n+1)); echo got $n' INT; trap 'echo quit; exit 9' QUIT
		test -t 0 && test -t 1 && test -t 2 && echo terminal; : </dev/tty && echo ready
		while :; do sleep 0.05; done`)
	p.Stdin, p.Stdout, p.Stderr = tty, tty, tty
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	require.NoError(t, p.Start())
	go func() { _, _ = io.Copy(&p.stdout, keyboard) }()

	press := func(key string) {
		_, err := io.WriteString(keyboard, key)
		require.NoError(t, err)
	}
	await(t, &p.stdout, "ready")
	press("\x03")
	await(t, &p.stdout, "got 1")
	press("\x03")
	await(t, &p.stdout, "got 2")
	press("\x1c")
	await(t, &p.stdout, "quit")
	assert.Equal(t, 9, p.exit(t))
	await(t, &p.stdout, "no model call")
	assert.Contains(t, p.stdout.String(), "terminal")
	assert.NotContains(t, p.stdout.String(), "got 3")
}
