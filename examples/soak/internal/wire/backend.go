// Package wire holds the two ends of a soak: senders that export OTLP to the Collector
// until it has acknowledged every span, and the backend behind the Collector, which
// fails.
package wire

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // the Collector compresses its exports
	"google.golang.org/grpc/status"

	"github.com/otelllm/otelllm-go/examples/soak/internal/ledger"
)

// Backend receives traces in OTLP over gRPC. It fails a share of the calls before it
// accepts anything, with errors after which a client has to retry.
type Backend struct {
	ptraceotlp.UnimplementedGRPCServer
	books   *ledger.Ledger
	address string
	release func() // releases the address

	// mu guards everything declared below
	mu     sync.Mutex
	rng    *rand.Rand
	share  float64
	server *grpc.Server // nil while connections are refused
	served chan struct{}
	calls  BackendCalls
}

// BackendCalls are the numbers of calls that a backend has received.
type BackendCalls struct{ Taken, Failed int }

// NewBackend starts a backend on a free loopback port.
func NewBackend(books *ledger.Ledger, seed uint64, share float64) (*Backend, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the Collector's export: %w", err)
	}
	release, err := hold(ln)
	if err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("hold the address of the Collector's export: %w", err)
	}
	b := &Backend{books: books, address: ln.Addr().String(), release: release, share: share}
	b.rng = rand.New(rand.NewPCG(seed, 0xbac0e2d)) //nolint:gosec // which calls fail is not secret
	b.serve(ln)
	return b, nil
}

// hold keeps ln's port until release is called, with a connection of its own: while no
// program listens on it, the system could give a free port to another process.
func hold(ln net.Listener) (release func(), err error) {
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return nil, err
	}
	far, err := ln.Accept()
	if err != nil {
		_ = near.Close()
		return nil, err
	}
	return func() {
		_ = near.Close() // first, so that TIME_WAIT is not on the port
		_ = far.Close()
	}, nil
}

// Close finishes the open calls and releases the address.
func (b *Backend) Close() {
	b.Refuse()
	b.release()
}

// Address returns the backend's host:port.
func (b *Backend) Address() string { return b.address }

func (b *Backend) serve(ln net.Listener) {
	server, served := grpc.NewServer(), make(chan struct{})
	ptraceotlp.RegisterGRPCServer(server, b)
	b.mu.Lock()
	b.server, b.served = server, served
	b.mu.Unlock()
	go func() {
		defer close(served)
		_ = server.Serve(ln) // until it is stopped
	}()
}

// Refuse finishes the open calls, and refuses connections from then on.
func (b *Backend) Refuse() {
	b.mu.Lock()
	server, served := b.server, b.served
	b.server = nil
	b.mu.Unlock()
	if server != nil {
		server.GracefulStop()
		<-served
	}
}

// Listen accepts connections again, at the same address.
func (b *Backend) Listen() error {
	ln, err := net.Listen("tcp", b.address)
	if err != nil {
		return fmt.Errorf("listen for the Collector's export again: %w", err)
	}
	b.serve(ln)
	return nil
}

// Counts returns the numbers of calls so far.
func (b *Backend) Counts() BackendCalls {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

// Export implements ptraceotlp.GRPCServer.
func (b *Backend) Export(_ context.Context, req ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	if err := b.fails(); err != nil {
		return ptraceotlp.NewExportResponse(), err
	}
	b.books.Deliver(req.Traces(), time.Now())
	return ptraceotlp.NewExportResponse(), nil
}

func (b *Backend) fails() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rng.Float64() >= b.share {
		b.calls.Taken++
		return nil
	}
	b.calls.Failed++
	switch b.rng.IntN(3) {
	case 0:
		return status.Error(codes.Aborted, "for now")
	case 1:
		return status.Error(codes.DeadlineExceeded, "for now")
	default:
		return status.Error(codes.Unavailable, "for now")
	}
}
