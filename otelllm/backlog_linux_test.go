package otelllm

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestConnectWatchdogFullBacklog dials a listener that accepts nothing and whose
// backlog is full: Linux drops the SYN, and the dial hangs as on a real network.
func TestConnectWatchdogFullBacklog(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer syscall.Close(fd)
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, syscall.Listen(fd, 0))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	bound, ok := name.(*syscall.SockaddrInet4)
	require.True(t, ok)
	addr := "127.0.0.1:" + strconv.Itoa(bound.Port)

	for full := false; !full; { // a dial that hangs shows that the backlog is full
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		cancel()
		if full = err != nil; !full {
			defer conn.Close()
		}
	}
	b := &http.Transport{}
	defer b.CloseIdleConnections()
	for within := limit; !connectWatched(t, b, "http://"+addr, within, "connect"); within *= 2 {
		require.Less(t, within, testTimeout)
	}
}
