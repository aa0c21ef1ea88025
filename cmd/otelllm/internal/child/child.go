// Package child runs a command in the foreground as if this process were not there: with its
// terminal, and with its signals.
package child

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
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

// Ended is how a command ended.
type Ended struct {
	// Code is the exit status as a shell reports it: 128 and the signal's number if a signal
	// ended it.
	Code int
	// Signal is the number of the signal that ended it; 0 for none.
	Signal int
	// At is when it ended.
	At time.Time
	// Interrupted is when the first Ctrl-C came from the terminal; zero if none did.
	Interrupted time.Time
	// Told is when the first signal to end was sent to this process, and passed on; zero if none was.
	Told time.Time
}

// Stopped returns when the command was first made to end; zero if it did so by itself.
func (e *Ended) Stopped() time.Time {
	if e.Told.IsZero() || !e.Interrupted.IsZero() && e.Interrupted.Before(e.Told) {
		return e.Interrupted
	}
	return e.Told
}

// Deliberate reports whether the command was made to end before it did so by itself.
func (e *Ended) Deliberate() bool { return !e.Stopped().IsZero() }

// Run runs a command with this process's standard input, output and error. Signals that are
// sent to this process are passed on to the command, and the command is ended if this process
// is killed. The error is set if the command did not start.
func Run(args, env []string) (Ended, error) {
	// On Linux the command's parent is the thread that starts it: it must not end before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn...)
	defer signal.Reset(passedOn...)
	if len(ignored) > 0 {
		signal.Ignore(ignored...)
	}
	release, err := startBound(cmd)
	if err != nil {
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return Ended{Code: StatusNotFound}, err
		}
		return Ended{Code: StatusNotExecutable}, err
	}
	defer release()
	ended := make(chan struct{})
	stopped := make(chan struct{})
	var how Ended
	go func() {
		defer close(stopped)
		passOn(signals, cmd.Process, ended, &how)
	}()
	err = cmd.Wait()
	close(ended)
	<-stopped
	how.At = time.Now()
	how.Code, how.Signal = status(cmd.ProcessState, err)
	if how.Code != 0 && !how.Deliberate() {
		select {
		case s := <-signals:
			how.note(s)
		case <-time.After(late):
		}
	}
	return how, nil
}

// late is how much later than the command this process may learn of a signal that both got.
const late = 20 * time.Millisecond

// note notes a signal, and reports whether the command has it already: what the terminal sends reaches both.
func (e *Ended) note(s os.Signal) (has bool) {
	has = fromTerminal(s)
	switch {
	case !has && (s == os.Interrupt || s == syscall.SIGTERM) && e.Told.IsZero():
		e.Told = time.Now()
	case has && s == os.Interrupt && e.Interrupted.IsZero():
		e.Interrupted = time.Now()
	}
	return has
}

// passOn sends the command the signals that come, until it has ended and all that came before that are noted.
func passOn(signals <-chan os.Signal, p *os.Process, ended <-chan struct{}, how *Ended) {
	for {
		select {
		case s := <-signals:
			if !how.note(s) {
				_ = p.Signal(s) // fails only if the command has ended
			}
		case <-ended:
			for {
				select {
				case s := <-signals:
					how.note(s)
				default:
					return
				}
			}
		}
	}
}

// status returns the exit status as a shell reports it, and the signal.
func status(state *os.ProcessState, err error) (code, signal int) {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), int(ws.Signal())
	}
	if code := state.ExitCode(); code >= 0 {
		return code, 0
	}
	if err != nil {
		return 1, 0
	}
	return 0, 0
}
