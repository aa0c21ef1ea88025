package nettest

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// DNS response codes (RFC 1035, section 4.1.1).
const (
	ServFail = 2
	NXDomain = 3
)

// Resolver returns a resolver for a DNS server on loopback that answers every query with
// rcode.
func Resolver(tb testing.TB, rcode byte) *net.Resolver {
	tb.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(tb, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if n < 12 {
				continue
			}
			buf[2] |= 0x80          // a response
			buf[3] = 0x80 | rcode   // recursion available
			buf[10], buf[11] = 0, 0 // no additional records,
			end := 12               // so cut after the question
			for end < n && buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			_, _ = conn.WriteTo(buf[:min(n, end+5)], from)
		}
	}()
	tb.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}
