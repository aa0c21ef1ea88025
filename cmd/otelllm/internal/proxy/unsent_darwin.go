package proxy

import (
	"net"

	"golang.org/x/sys/unix"
)

// unsent returns how many bytes the peer of conn has not acknowledged. It reports false if
// conn is closed.
func unsent(conn *net.TCPConn) (n int, ok bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false
	}
	var failed error
	err = raw.Control(func(fd uintptr) { n, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NWRITE) })
	return n, err == nil && failed == nil
}
