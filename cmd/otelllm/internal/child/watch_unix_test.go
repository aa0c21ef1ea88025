//go:build unix

package child

import (
	"io"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The watcher ends a process when the pipe closes without a word, as it does when the process that
// holds it is killed, and leaves it alone after one.
func TestWatch(t *testing.T) {
	for word, ends := range map[string]bool{"": true, "ended\n": false} {
		sleep := exec.Command("cat")
		in, err := sleep.StdinPipe() // it ends with its input, or by the signal
		require.NoError(t, err)
		require.NoError(t, sleep.Start())
		w := watch(sleep.Process.Pid)
		pipe, err := w.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, w.Start())
		_, err = io.WriteString(pipe, word)
		require.NoError(t, err)
		require.NoError(t, pipe.Close())
		_ = w.Wait()
		require.NoError(t, in.Close())
		err = sleep.Wait()
		if ends {
			assert.ErrorContains(t, err, "terminated")
		} else {
			assert.NoError(t, err)
		}
	}
}
