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

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // the Collector compresses its exports
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/otelllm/otelllm-go/test/soak/internal/ledger"
)

// Backend receives traces in OTLP over gRPC. It fails a share of the calls before it
// accepts anything, with errors after which a client has to retry.
type Backend struct {
	ptraceotlp.UnimplementedGRPCServer
	books   *ledger.Ledger
	others  func(ptrace.Traces) // takes from a call what is not for books; may be nil
	address string
	release func() // releases the address

	// mu guards everything declared below
	mu     sync.Mutex
	rng    *rand.Rand
	share  float64
	server *grpc.Server // nil while connections are refused
	served chan struct{}
	calls  BackendCalls
	mood   Mood
	moved  chan struct{} // closed when the mood changes
}

// Mood is how a backend answers all calls for some time. It accepts nothing while it is
// not Well.
type Mood uint8

// The moods.
const (
	Well       Mood = iota // its share of the calls fails
	Stalled                // no call is answered, until the mood changes
	Throttling             // RESOURCE_EXHAUSTED with a delay, which is 429 with Retry-After over HTTP
	Overloaded             // UNAVAILABLE with a delay, which is 503 with Retry-After over HTTP
)

// retryAfter is the delay that a backend asks for.
const retryAfter = time.Second

// Feel sets the backend's mood.
func (b *Backend) Feel(m Mood) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mood = m
	close(b.moved)
	b.moved = make(chan struct{})
}

// Reset breaks all connections, with the calls on them. It is for a backend that is
// Stalled: else a call may break that was accepted.
func (b *Backend) Reset() error {
	b.mu.Lock()
	server, served := b.server, b.served
	b.server = nil
	b.mu.Unlock()
	if server != nil {
		server.Stop()
		<-served
	}
	return b.Listen()
}

// Divert sets a function that takes spans from each accepted call before they are
// recorded. It must be called before the first call.
func (b *Backend) Divert(others func(ptrace.Traces)) { b.others = others }

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
	b := &Backend{books: books, address: ln.Addr().String(), release: release, share: share, moved: make(chan struct{})}
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
	server, served := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage)), make(chan struct{})
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
func (b *Backend) Export(ctx context.Context, req ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	if err := b.sulks(ctx); err != nil {
		return ptraceotlp.NewExportResponse(), err
	}
	if err := b.fails(); err != nil {
		return ptraceotlp.NewExportResponse(), err
	}
	if b.others != nil {
		b.others(req.Traces())
	}
	b.books.Deliver(req.Traces(), time.Now())
	return ptraceotlp.NewExportResponse(), nil
}

// maxMessage is the largest message that a backend accepts, in bytes: what an attacker
// sends must not be lost behind the Collector.
const maxMessage = 64 << 20

// sulks returns an error if the backend is not well.
func (b *Backend) sulks(ctx context.Context) error {
	b.mu.Lock()
	mood, moved := b.mood, b.moved
	if mood != Well {
		b.calls.Failed++
	}
	b.mu.Unlock()
	switch mood {
	case Stalled:
		select {
		case <-moved:
		case <-ctx.Done():
		}
		return status.Error(codes.Unavailable, "stalled")
	case Throttling:
		return later(codes.ResourceExhausted)
	case Overloaded:
		return later(codes.Unavailable)
	default:
		return nil
	}
}

func later(code codes.Code) error {
	s, err := status.New(code, "later").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)})
	if err != nil {
		return status.Error(code, "later")
	}
	return s.Err()
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
