//go:build !linux

package proxy

import (
	"context"
	"net"
)

// Listen listens on a port of loopback.
func Listen(ctx context.Context) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
}

// Other systems give the port away, or have no such way.
func stopListening(net.Listener) bool { return false }
func listenAgain(net.Listener) bool   { return false }
