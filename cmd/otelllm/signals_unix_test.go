//go:build unix

package main

import (
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Signals that are sent to the program alone reach the command, once.
func TestRunPassesSignalsOn(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := otelllm(t, nil, "run", "--", "sh", "-c",
				`n=0; trap 'n=$((n+1)); echo got $n' `+name+`; echo ready; while [ $n -lt 2 ]; do sleep 0.05; done; exit 5`)
			p.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal
			require.NoError(t, p.Start())
			await(t, &p.stdout, "ready")
			require.NoError(t, p.Process.Signal(sig))
			await(t, &p.stdout, "got 1")
			require.NoError(t, p.Process.Signal(sig))
			assert.Equal(t, 5, p.exit(t))
			assert.Equal(t, "ready\ngot 1\ngot 2\n", p.stdout.String())
		})
	}
}

// A second Ctrl-C ends a proxy that waits for open requests.
func TestProxySecondInterrupt(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 1)
	srv := model(t, func(w http.ResponseWriter, r *http.Request) { begin(w); began <- struct{}{}; silent(w, r) })
	p, base := startProxy(t, nil, "--upstream", srv.URL, "--grace", "1h")
	go func() { _, _ = ask(base, "/v1/chat/completions") }() // until the proxy has gone
	<-began
	require.NoError(t, p.Process.Signal(os.Interrupt))
	await(t, &p.stderr, "shutting down")
	ended := make(chan struct{})
	go func() { defer close(ended); _ = p.Wait() }() // its status is read below
	for limit := time.After(patience); ; {           // the signal has its old meaning a moment later
		_ = p.Process.Signal(os.Interrupt)
		select {
		case <-ended:
			assert.Equal(t, -1, p.ProcessState.ExitCode(), "by the signal")
			return
		case <-time.After(tick):
		case <-limit:
			require.Fail(t, "the proxy goes on")
		}
	}
}
