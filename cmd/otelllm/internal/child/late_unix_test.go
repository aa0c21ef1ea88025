//go:build unix

package child

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A command that was told to end did not crash, also if this process learns of both at once.
func TestSignalAtTheEnd(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "true")
	require.NoError(t, cmd.Run())
	ended := make(chan struct{})
	close(ended)
	for range 100 {
		signals := make(chan os.Signal, 2)
		signals <- syscall.SIGWINCH
		signals <- syscall.SIGINT
		var how Ended
		passOn(signals, cmd.Process, ended, &how)
		assert.True(t, how.Deliberate())
	}
}
