// Package child runs a command in the foreground as if this process were not there: with its
// terminal, and with its signals.
package child

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Exit statuses of a shell for a command that does not start.
const (
	StatusNotExecutable = 126
	StatusNotFound      = 127
)

// ignored are the signals that this process was started to ignore, as by nohup, or in the
// background of a shell script. The command inherits that.
var ignored = func() (list []os.Signal) {
	for _, s := range passedOn {
		if signal.Ignored(s) {
			list = append(list, s)
		}
	}
	return list
}()

// Run runs a command with this process's standard input, output and error, and returns its
// exit status: 128 and the signal's number if a signal ended it. Signals that are sent to
// this process are passed on to the command. The error is set if the command did not start.
func Run(args, env []string) (int, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn...)
	defer signal.Reset(passedOn...)
	if len(ignored) > 0 {
		signal.Ignore(ignored...)
	}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return StatusNotFound, err
		}
		return StatusNotExecutable, err
	}
	ended := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		passOn(signals, cmd.Process, ended)
	}()
	err := cmd.Wait()
	close(ended)
	<-stopped
	return status(cmd.ProcessState, err), nil
}

// passOn sends the command the signals that come, until it has ended. What the terminal
// sends has reached the command already.
func passOn(signals <-chan os.Signal, p *os.Process, ended <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			if !fromTerminal(s) {
				_ = p.Signal(s) // fails only if the command has ended
			}
		case <-ended:
			return
		}
	}
}

// status returns the exit status as a shell reports it.
func status(state *os.ProcessState, err error) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	if code := state.ExitCode(); code >= 0 {
		return code
	}
	if err != nil {
		return 1
	}
	return 0
}
