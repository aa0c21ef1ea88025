package proxy

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// Listen listens on a port of loopback that no other process can take while connections to it are
// refused. The system keeps a port in that state only for a socket that has asked for this one.
func Listen(ctx context.Context) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = shared(int(fd), false) })
		return errors.Join(err, failed)
	}}
	var failed error
	for range 10 {
		free, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		if err := free.Close(); err != nil {
			return nil, err
		}
		ln, err := config.Listen(ctx, "tcp", free.Addr().String())
		if err == nil {
			control(ln, func(fd int) error { return shared(fd, true) }) // for its own connections, which have the same port
			return ln, nil
		}
		failed = err // another process was faster
	}
	return nil, failed
}

// shared sets whether a port may be bound by others while nothing listens on it.
func shared(fd int, yes bool) error {
	value := 0
	if yes {
		value = 1
	}
	return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, value)
}

// stopListening makes the system refuse connections to a listener of [Listen], which keeps its
// port. It reports whether it could.
func stopListening(ln net.Listener) bool {
	return control(ln, func(fd int) error {
		if err := shared(fd, false); err != nil {
			return err
		}
		return syscall.Shutdown(fd, syscall.SHUT_RDWR)
	})
}

// listenAgain ends what stopListening began.
func listenAgain(ln net.Listener) bool {
	return control(ln, func(fd int) error {
		if err := shared(fd, true); err != nil {
			return err
		}
		return syscall.Listen(fd, syscall.SOMAXCONN)
	})
}

// control does something with the socket of a listener, and reports whether it succeeded.
func control(ln net.Listener, do func(fd int) error) bool {
	conn, ok := ln.(syscall.Conn)
	if !ok {
		return false // TLS is spoken over it
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	done := false
	err = raw.Control(func(fd uintptr) { done = do(int(fd)) == nil })
	return err == nil && done
}
