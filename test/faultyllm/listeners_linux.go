package faultyllm

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// FullPort returns a port on which a connection is neither accepted nor refused: its
// listener accepts nothing and its backlog is full, so that Linux drops the packets
// that would open another connection.
func FullPort() (*Port, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("faultyllm: make a socket: %w", err)
	}
	p := &Port{}
	var held []net.Conn
	p.close = func() error {
		var errs []error
		for _, conn := range held {
			errs = append(errs, conn.Close())
		}
		return errors.Join(append(errs, syscall.Close(fd))...)
	}
	loopback := [4]byte{127, 0, 0, 1}
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: loopback}), syscall.Listen(fd, 0)); err != nil {
		return nil, errors.Join(fmt.Errorf("faultyllm: listen on loopback: %w", err), p.Close())
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("faultyllm: read the port: %w", err), p.Close())
	}
	p.addr = netip.AddrPortFrom(netip.AddrFrom4(loopback), uint16(name.(*syscall.SockaddrInet4).Port)).String()
	const most = 8 // Linux accepts one or two
	for range most {
		conn, err := net.DialTimeout("tcp", p.addr, 300*time.Millisecond)
		if err != nil {
			return p, nil // this connection hangs, and so will all later ones
		}
		held = append(held, conn)
	}
	return nil, errors.Join(errors.New("faultyllm: the backlog did not fill"), p.Close())
}
