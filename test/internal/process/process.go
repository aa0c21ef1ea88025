// Package process runs the programs that an agent works with, such as a Collector or a
// Jaeger, for the demos and the end-to-end tests.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Spec describes a program to run.
type Spec struct {
	Name   string        // for messages, such as "the Collector"
	Path   string        // path of the program
	Args   []string      // without the program itself
	Env    []string      // key=value, added to the environment of this process
	Log    string        // file for the program's output; it is truncated
	Piped  bool          // the program writes its output to a pipe, so that limits of its own files do not end it
	Health string        // URL that responds with 200 when the program is ready
	Wait   time.Duration // between that and the return of Start
}

// NewCollector is how long llm_classify calls no run safe to repeat that begins after its start: by another clock an earlier
// process may have had parts of it.
const NewCollector = time.Second

// Process is a running program.
type Process struct {
	spec   Spec
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
	err    error         // valid after exited is closed
}

// Start starts a program and waits until it is ready. The program has its own process
// group, so that an interrupt from the terminal reaches it only through Stop. If ctx
// ends before the program is ready, Start stops the program; later, ctx has no effect.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	log, err := os.Create(spec.Log)
	if err != nil {
		return nil, fmt.Errorf("make the log of %s: %w", spec.Name, err)
	}
	p := &Process{spec: spec, cmd: exec.Command(spec.Path, spec.Args...), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), spec.Env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if spec.Piped {
		output := struct{ io.Writer }{log} // not a file for os/exec
		p.cmd.Stdout, p.cmd.Stderr = output, output
	}
	p.cmd.SysProcAttr = ownGroup()
	if err := p.cmd.Start(); err != nil {
		_ = log.Close()
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		_ = log.Close() // the program has its own, or has closed the pipe
		close(p.exited)
	}()
	if err := p.ready(ctx); err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s did not get ready: %w%s", spec.Name, err, p.Tail())
	}
	return p, nil
}

// StartOnFreePorts starts the program that spec describes, with n free loopback
// addresses. Another process may take an address before the program does, so it tries
// three times.
func StartOnFreePorts(ctx context.Context, n int, spec func(addresses []string) Spec) (*Process, error) {
	for attempt := 1; ; attempt++ {
		addresses, err := FreeAddresses(n)
		if err != nil {
			return nil, err
		}
		s := spec(addresses)
		p, err := Start(ctx, s)
		if err == nil || attempt == 3 || ctx.Err() != nil || !strings.Contains(LogTail(s.Log, 1000), "address already in use") {
			return p, err
		}
	}
}

// wait waits while the program runs.
func (p *Process) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-p.exited:
		return fmt.Errorf("it has ended: %w", orEnded(p.err))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ready polls the health URL until the program is ready.
func (p *Process) ready(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.spec.Health, nil); err == nil {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					return p.wait(ctx, p.spec.Wait)
				}
			}
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return fmt.Errorf("it has ended: %w", orEnded(p.err))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var errEnded = errors.New("without an error")

func orEnded(err error) error {
	if err == nil {
		return errEnded
	}
	return err
}

// PID returns the program's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the program has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Log returns the file with the program's output.
func (p *Process) Log() string { return p.spec.Log }

// Stop interrupts the program and waits until it has ended. After patience it kills the
// program. An error reports a bad end, with the last lines of the log.
func (p *Process) Stop(patience time.Duration) error {
	return p.StopBy(os.Interrupt, patience)
}

// StopBy is like Stop, with another signal.
func (p *Process) StopBy(signal os.Signal, patience time.Duration) error {
	select {
	case <-p.exited: // before the signal
		return fmt.Errorf("%s has ended early: %w%s", p.spec.Name, orEnded(p.err), p.Tail())
	default:
	}
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.Kill()
		return fmt.Errorf("send %s to %s: %w", signal, p.spec.Name, err)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		p.Kill()
		return fmt.Errorf("%s did not end within %s and was killed%s", p.spec.Name, patience, p.Tail())
	}
	if p.err != nil {
		return fmt.Errorf("%s ended with: %w%s", p.spec.Name, p.err, p.Tail())
	}
	return nil
}

// Kill kills the program, as in a crash, and returns when it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// Tail returns the last lines of the log, to be added to an error.
func (p *Process) Tail() string {
	if text := LogTail(p.spec.Log, 20); text != "" {
		return "\nthe end of its log:\n" + text
	}
	return ""
}

// LogTail returns the last lines of a file, or "" if there are none.
func LogTail(path string, lines int) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	all := strings.Split(string(bytes.TrimSpace(raw)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// FreeAddresses returns different loopback addresses with ports that are free at the moment. They are below those that
// Linux gives to connections and to listeners on port 0: one of them could take a port before the program that it is for.
func FreeAddresses(n int) ([]string, error) {
	addresses := make([]string, 0, n)
	for tries := 0; len(addresses) < n; tries++ {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))) //nolint:gosec // no secret
		if err != nil {
			if tries >= 100 {
				return nil, fmt.Errorf("find a free port on loopback: %w", err)
			}
			continue
		}
		defer ln.Close()
		addresses = append(addresses, ln.Addr().String())
	}
	return addresses, nil
}

// Need returns an error with the remedy if a required file is missing.
func Need(path, remedy string) error {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no %s: %s", path, remedy)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder: %s", path, remedy)
	default:
		return nil
	}
}
