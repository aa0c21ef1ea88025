package faultyllm

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// FullPort is a port to which a connection is never made and never refused: its
// listener accepts nothing and its backlog is full, so that Linux drops what would
// open another one.
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
	const most = 8 // Linux takes one or two
	for range most {
		conn, err := net.DialTimeout("tcp", p.addr, 300*time.Millisecond)
		if err != nil {
			return p, nil // this one hangs, and so will all that follow
		}
		held = append(held, conn)
	}
	return nil, errors.Join(errors.New("faultyllm: the backlog does not fill"), p.Close())
}
