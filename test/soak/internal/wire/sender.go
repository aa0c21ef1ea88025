package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/otelllm/otelllm-go/test/soak/internal/ledger"
	"github.com/otelllm/otelllm-go/test/soak/internal/load"
)

// export sends spans once and returns the result. The error has the details.
type export func(context.Context, ptrace.Traces) (ledger.Answer, error)

const (
	// maxBatch is the maximum number of spans in a batch.
	maxBatch = 256
	// batchTimeout is how long a sender collects a batch.
	batchTimeout = 100 * time.Millisecond
	// callTimeout is the timeout of a call: longer than any stop takes, so that few
	// responses are lost.
	callTimeout = 45 * time.Second

	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 250 * time.Millisecond
)

// Sender exports spans in batches, and repeats each batch until it is acknowledged.
type Sender struct {
	books  *ledger.Ledger
	export export
	in     chan load.Span
	done   chan struct{}
	last   atomic.Pointer[error] // error of the last call that was not acknowledged
}

// NewGRPC returns a sender over OTLP/gRPC.
func NewGRPC(ctx context.Context, books *ledger.Ledger, address string) (*Sender, error) {
	conn, err := dial(address)
	if err != nil {
		return nil, fmt.Errorf("create an OTLP client of %s: %w", address, err)
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return newSender(ctx, books, overGRPC(ptraceotlp.NewGRPCClient(conn))), nil
}

func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStatsHandler(watcher{}), grpc.WithConnectParams(reconnect))
}

// NewCaller returns a function that sends spans once over OTLP/gRPC.
func NewCaller(ctx context.Context, address string) (func(context.Context, ptrace.Traces) (ledger.Answer, error), error) {
	conn, err := dial(address)
	if err != nil {
		return nil, fmt.Errorf("create an OTLP client of %s: %w", address, err)
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return overGRPC(ptraceotlp.NewGRPCClient(conn)), nil
}

// NewHTTP returns a sender over OTLP/HTTP.
func NewHTTP(ctx context.Context, books *ledger.Ledger, address string) *Sender {
	client := &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	context.AfterFunc(ctx, client.CloseIdleConnections)
	return newSender(ctx, books, overHTTP(client, "http://"+address+"/v1/traces"))
}

func newSender(ctx context.Context, books *ledger.Ledger, e export) *Sender {
	s := &Sender{books: books, export: e, in: make(chan load.Span, 2*maxBatch), done: make(chan struct{})}
	go s.run(ctx)
	return s
}

// Send queues a span, and waits while the queue is full. It returns false if ctx ended
// first.
func (s *Sender) Send(ctx context.Context, span load.Span) bool {
	select {
	case s.in <- span:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close returns when every queued span is acknowledged, or the sender's context has
// ended. Send must not be called after it.
func (s *Sender) Close() {
	close(s.in)
	<-s.done
}

// LastError returns the error of the last call that was not acknowledged, or nil.
func (s *Sender) LastError() error {
	if err := s.last.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *Sender) run(ctx context.Context) {
	defer close(s.done)
	for first := range s.in {
		batch := []load.Span{first}
		timeout := time.NewTimer(batchTimeout)
	gather:
		for len(batch) < maxBatch {
			select {
			case span, ok := <-s.in:
				if !ok {
					break gather
				}
				batch = append(batch, span)
			case <-timeout.C:
				break gather
			}
		}
		timeout.Stop()
		s.deliver(ctx, batch)
		if ctx.Err() != nil {
			return
		}
	}
}

// deliver sends a batch until it is acknowledged.
func (s *Sender) deliver(ctx context.Context, batch []load.Span) {
	keys := make([]ledger.Key, len(batch))
	for i := range batch {
		keys[i] = ledger.Key{Trace: batch[i].TraceID(), Span: batch[i].SpanID()}
	}
	td := Pack(batch)
	for backoff := firstBackoff; ; backoff = min(2*backoff, maxBackoff) {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		s.books.Attempt(keys, time.Now())
		answer, err := s.export(call, td)
		s.books.Answer(keys, answer, time.Now())
		cancel()
		if err != nil {
			s.last.Store(&err)
		}
		if answer == ledger.Acknowledged || answer == ledger.Rejected {
			return
		}
		select {
		case <-time.After(backoff):
		case <-ctx.Done():
			return
		}
	}
}

// Pack returns one request with the spans, with one resource per service.
func Pack(batch []load.Span) ptrace.Traces {
	td := ptrace.NewTraces()
	to := make([]ptrace.SpanSlice, len(load.Services))
	made := make([]bool, len(load.Services))
	for i := range batch {
		n := batch[i].Service
		if !made[n] {
			made[n] = true
			rs := td.ResourceSpans().AppendEmpty()
			ss := rs.ScopeSpans().AppendEmpty()
			load.Services[n].Fill(rs, ss)
			to[n] = ss.Spans()
		}
		batch[i].CopyTo(to[n].AppendEmpty())
	}
	return td
}

// overHTTP exports over HTTP. If no connection was made, nothing was sent; if one broke,
// the result is unknown.
func overHTTP(client *http.Client, url string) export {
	return func(ctx context.Context, td ptrace.Traces) (ledger.Answer, error) {
		body, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
		if err != nil {
			return ledger.Rejected, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return ledger.Rejected, err
		}
		req.Header.Set("Content-Type", "application/x-protobuf")
		resp, err := client.Do(req)
		if err != nil {
			var op *net.OpError
			if errors.As(err, &op) && op.Op == "dial" {
				return ledger.Refused, err
			}
			return ledger.Unanswered, err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		switch {
		case resp.StatusCode == http.StatusOK && err != nil:
			return ledger.Unanswered, err
		case resp.StatusCode == http.StatusOK:
			taken := ptraceotlp.NewExportResponse()
			if err := taken.UnmarshalProto(answer); err != nil {
				return ledger.Rejected, err
			}
			return partial(taken)
		case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusBadGateway && resp.StatusCode <= http.StatusGatewayTimeout:
			return ledger.Refused, fmt.Errorf("status %d: %s", resp.StatusCode, answer)
		default:
			return ledger.Rejected, fmt.Errorf("status %d: %s", resp.StatusCode, answer)
		}
	}
}

// partial handles a response that rejects some spans permanently.
func partial(r ptraceotlp.ExportResponse) (ledger.Answer, error) {
	if n := r.PartialSuccess().RejectedSpans(); n > 0 {
		return ledger.Rejected, fmt.Errorf("%d spans were rejected: %s", n, r.PartialSuccess().ErrorMessage())
	}
	return ledger.Acknowledged, nil
}

// overGRPC exports over gRPC.
func overGRPC(client ptraceotlp.GRPCClient) export {
	return func(ctx context.Context, td ptrace.Traces) (ledger.Answer, error) {
		var seen callState
		resp, err := client.Export(context.WithValue(ctx, callStateKey{}, &seen), ptraceotlp.NewExportRequestFromTraces(td))
		if err == nil {
			return partial(resp)
		}
		switch {
		case !seen.answered.Load() && seen.sent.Load():
			return ledger.Unanswered, err
		case !seen.answered.Load():
			return ledger.Refused, err
		}
		switch status.Code(err) {
		case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss, codes.ResourceExhausted:
			return ledger.Refused, err
		default:
			return ledger.Rejected, err
		}
	}
}

// callState records what happened to a call on the network. The status of a failed call does
// not show whether it came from the server or from the client.
type callState struct{ sent, answered atomic.Bool }

type callStateKey struct{}

// watcher records what happens to calls on the network.
type watcher struct{}

func (watcher) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (watcher) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (watcher) HandleConn(context.Context, stats.ConnStats) {}

func (watcher) HandleRPC(ctx context.Context, s stats.RPCStats) {
	seen, ok := ctx.Value(callStateKey{}).(*callState)
	if !ok {
		return
	}
	switch s.(type) {
	case *stats.OutHeader:
		seen.sent.Store(true)
	case *stats.InTrailer:
		seen.answered.Store(true)
	}
}
