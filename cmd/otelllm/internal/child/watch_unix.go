//go:build unix

package child

import (
	"os/exec"
	"strconv"
	"syscall"
)

// watch is a shell that ends a process when its input ends without a line. It is in a session of
// its own: the keys of the terminal are not for it.
func watch(pid int) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", "read line || kill -TERM "+strconv.Itoa(pid))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}
