package child

import (
	"os/exec"
	"syscall"
)

// startBound starts a command that the kernel ends if this process dies. The thread that calls it
// must not end before the command.
func startBound(cmd *exec.Cmd) (release func(), err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return func() {}, cmd.Start()
}
