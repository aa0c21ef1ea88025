package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// collector is the running Collector.
type collector struct {
	endpoint string // host:port that takes OTLP over HTTP
	logPath  string
	cmd      *exec.Cmd
	exited   chan struct{} // closed when the process has ended
	err      error         // of the process, once exited is closed
}

// startCollector starts the Collector on free loopback ports and waits until its
// pipelines run.
func startCollector(ctx context.Context, o *options, tracesPath, logPath string) (*collector, error) {
	for _, need := range []struct{ path, remedy string }{
		{o.collector, "build it with `make collector`"},
		{o.config, "-config names it, -root the folder that it is relative to"},
		{o.forwardConfig, "-forward-config names it, -root the folder that it is relative to"},
	} {
		if _, err := os.Stat(o.path(need.path)); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no %s: %s", need.path, need.remedy)
		} else if err != nil {
			return nil, err
		}
	}
	// A free port may be taken by somebody else before the Collector listens on it.
	for attempt := 1; ; attempt++ {
		c, err := launch(ctx, o, tracesPath, logPath)
		if err == nil || attempt == 3 || ctx.Err() != nil || !strings.Contains(logTail(logPath, 1000), "address already in use") {
			return c, err
		}
	}
}

func launch(ctx context.Context, o *options, tracesPath, logPath string) (*collector, error) {
	addresses, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	args := []string{"--config", "file:" + o.path(o.config)}
	env := append(os.Environ(),
		"OTLP_HTTP_ENDPOINT="+addresses[0], "OTLP_GRPC_ENDPOINT="+addresses[1], "HEALTH_ENDPOINT="+addresses[2],
		"OUT_FILE="+tracesPath)
	if o.otlp != "" {
		args = append(args, "--config", "file:"+o.path(o.forwardConfig))
		env = append(env, "FORWARD_ENDPOINT="+o.otlp)
	}
	log, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	c := &collector{
		endpoint: addresses[0], logPath: logPath,
		cmd: exec.Command(o.path(o.collector), args...), exited: make(chan struct{}),
	}
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = env, log, log
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the Collector: %w", err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.exited)
	}()
	if err := c.ready(ctx, "http://"+addresses[2]); err != nil {
		_ = c.stop()
		return nil, fmt.Errorf("the Collector does not get ready: %w%s", err, c.tail())
	}
	return c, nil
}

// ready asks the health check until it says that the pipelines run.
func (c *collector) ready(ctx context.Context, url string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil); err == nil {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					return nil
				}
			}
		}
		select {
		case <-tick.C:
		case <-c.exited:
			return fmt.Errorf("it has ended: %w", orEnded(c.err))
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

// stop lets the Collector flush and end, by force if it does not.
func (c *collector) stop() error {
	select {
	case <-c.exited: // before it was asked to
		return fmt.Errorf("the Collector has ended early: %w%s", orEnded(c.err), c.tail())
	default:
	}
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = c.cmd.Process.Kill()
	}
	patience := time.NewTimer(10 * time.Second)
	defer patience.Stop()
	select {
	case <-c.exited:
	case <-patience.C:
		_ = c.cmd.Process.Kill()
		<-c.exited
		return fmt.Errorf("the Collector did not end within 10s and was killed%s", c.tail())
	}
	if c.err != nil {
		return fmt.Errorf("the Collector ended with: %w%s", c.err, c.tail())
	}
	return nil
}

// tail is the end of the Collector's log, to be added to an error.
func (c *collector) tail() string {
	if text := logTail(c.logPath, 20); text != "" {
		return "\nthe end of its log:\n" + text
	}
	return ""
}

// logTail is the last lines of a file, empty if there are none.
func logTail(path string, lines int) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	all := strings.Split(string(bytes.TrimSpace(raw)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// freeAddresses finds loopback ports that are free now, all different.
func freeAddresses(n int) ([]string, error) {
	var addresses []string
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port on loopback: %w", err)
		}
		defer ln.Close()
		addresses = append(addresses, ln.Addr().String())
	}
	return addresses, nil
}
