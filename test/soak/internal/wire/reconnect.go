package wire

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// reconnect makes clients find a restarted Collector quickly.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: 5 * time.Second,
}
