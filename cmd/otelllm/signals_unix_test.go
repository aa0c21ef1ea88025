//go:build unix

package main

import (
	"syscall"
	"testing"

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
