//go:build unix && !linux

package child

import "os/exec"

// startBound starts a command that a shell ends if this process dies: the shell reads a pipe of
// which this process has the other end. Where there is no shell the command runs without it.
func startBound(cmd *exec.Cmd) (release func(), err error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	watcher := watch(cmd.Process.Pid)
	pipe, err := watcher.StdinPipe()
	if err != nil || watcher.Start() != nil {
		return func() {}, nil //nolint:nilerr // as above
	}
	return func() {
		_, _ = pipe.Write([]byte("ended\n")) // before the pid may be another process's
		_ = pipe.Close()
		_ = watcher.Wait() // its status says nothing
	}, nil
}
