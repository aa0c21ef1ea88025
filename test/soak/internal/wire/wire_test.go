package wire

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/otelllm/otelllm-go/test/soak/internal/ledger"
	"github.com/otelllm/otelllm-go/test/soak/internal/load"
)

// planned returns traces in which llm_classify has nothing to judge, so that unchanged spans
// are correct.
func planned(t *testing.T, books *ledger.Ledger, n int) (spans []load.Span) {
	t.Helper()
	pace := load.Pace{Turn: time.Second, MaxHold: time.Second, SpanLimit: 20}
	for number := uint64(0); len(spans) < n; number++ {
		if tr := load.New(5, number, pace); len(tr.Runs) == 0 {
			books.Plan(&tr)
			spans = append(spans, tr.Spans...)
		}
	}
	return spans
}

// Senders send to a backend that fails half of the calls and refuses connections for a
// while: everything arrives exactly once, and the repeated calls are counted.
func TestAgainstAFailingBackend(t *testing.T) {
	books := ledger.New()
	backend, err := NewBackend(books, 1, 0.5)
	require.NoError(t, err)
	defer backend.Close()
	spans := planned(t, books, 1500)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sender, err := NewGRPC(ctx, books, backend.Address())
	require.NoError(t, err)
	for i, s := range spans {
		if i == len(spans)/2 {
			backend.Refuse()
			require.NoError(t, backend.Listen())
		}
		require.True(t, sender.Send(t.Context(), s))
	}
	sender.Close()
	figures, problems := books.Check(ledger.Rules{MaxHold: time.Second, RunTimeout: time.Second})
	assert.Empty(t, problems)
	assert.Equal(t, len(spans), figures.Delivered)
	assert.Equal(t, len(spans), figures.Acknowledged)
	assert.Zero(t, figures.Duplicates)
	assert.Positive(t, figures.Refused)
	assert.Positive(t, backend.Counts().Failed)
	require.Error(t, sender.LastError())
}

// A backend that refuses connections keeps its address: no other process gets it.
func TestARefusingBackendKeepsItsAddress(t *testing.T) {
	backend, err := NewBackend(ledger.New(), 1, 0)
	require.NoError(t, err)
	defer backend.Close()
	backend.Refuse()
	_, err = net.Dial("tcp", backend.Address())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	elsewhere, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer elsewhere.Close()
	its, err := net.ResolveTCPAddr("tcp", backend.Address())
	require.NoError(t, err)
	taker := net.Dialer{LocalAddr: its}
	_, err = taker.Dial("tcp", elsewhere.Addr().String())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.NoError(t, backend.Listen())
}

func TestSendEndsWithItsContext(t *testing.T) {
	books := ledger.New()
	ctx, cancel := context.WithCancel(t.Context())
	sender, err := NewGRPC(ctx, books, "127.0.0.1:1") // no server listens
	require.NoError(t, err)
	spans := planned(t, books, 1000)
	sent := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sender.Send(ctx, spans[sent%len(spans)]) {
			sent++
		}
	}()
	require.Eventually(t, func() bool { return sender.LastError() != nil }, 20*time.Second, time.Millisecond)
	cancel()
	<-done
	sender.Close()
	figures, problems := books.Check(ledger.Rules{})
	assert.Zero(t, figures.Acknowledged)
	require.NotEmpty(t, problems)
	assert.Equal(t, ledger.NeverTaken, problems[0].What)
}

func oneSpan(t *testing.T) ptrace.Traces {
	t.Helper()
	return Pack(planned(t, ledger.New(), 1)[:1])
}

func TestAnswersOverHTTP(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(http.ResponseWriter)
		want   ledger.Answer
	}{
		"taken": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }, ledger.Acknowledged},
		"taken in part": {func(w http.ResponseWriter) {
			resp := ptraceotlp.NewExportResponse()
			resp.PartialSuccess().SetRejectedSpans(1)
			data, _ := resp.MarshalProto()
			_, _ = w.Write(data)
		}, ledger.Rejected},
		"refused":          {func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, ledger.Refused},
		"too many":         {func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, ledger.Refused},
		"refused for good": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) }, ledger.Rejected},
		"the connection breaks": {func(w http.ResponseWriter) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_ = conn.Close()
		}, ledger.Unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				assert.NoError(t, ptraceotlp.NewExportRequest().UnmarshalProto(body))
				tt.answer(w)
			}))
			defer srv.Close()
			got, err := overHTTP(srv.Client(), srv.URL)(t.Context(), oneSpan(t))
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.want == ledger.Acknowledged, err == nil)
		})
	}
	t.Run("nothing listens", func(t *testing.T) {
		got, err := overHTTP(http.DefaultClient, "http://127.0.0.1:1/v1/traces")(t.Context(), oneSpan(t))
		require.Error(t, err)
		assert.Equal(t, ledger.Refused, got)
	})
}

// answering is an OTLP server with a scripted response.
type answering struct {
	ptraceotlp.UnimplementedGRPCServer
	answer func(context.Context) error
}

func (a *answering) Export(ctx context.Context, _ ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	return ptraceotlp.NewExportResponse(), a.answer(ctx)
}

// The same status has different meanings if it comes from the server and if it comes from
// the client.
func TestAnswersOverGRPC(t *testing.T) {
	var server atomic.Pointer[grpc.Server]
	for name, tt := range map[string]struct {
		answer func(context.Context) error
		want   ledger.Answer
	}{
		"taken":            {func(context.Context) error { return nil }, ledger.Acknowledged},
		"refused":          {func(context.Context) error { return status.Error(codes.Unavailable, "for now") }, ledger.Refused},
		"refused for good": {func(context.Context) error { return status.Error(codes.InvalidArgument, "never") }, ledger.Rejected},
		"the connection breaks": {func(ctx context.Context) error {
			go server.Load().Stop()
			<-ctx.Done() // the server breaks its connections before it waits for this
			return nil
		}, ledger.Unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			s := grpc.NewServer()
			server.Store(s)
			ptraceotlp.RegisterGRPCServer(s, &answering{answer: tt.answer})
			go func() { _ = s.Serve(ln) }()
			defer s.Stop()
			got, err := exportOnce(t, ln.Addr().String())
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.want == ledger.Acknowledged, err == nil)
		})
	}
	t.Run("nothing listens", func(t *testing.T) {
		got, err := exportOnce(t, "127.0.0.1:1")
		require.Error(t, err)
		assert.Equal(t, ledger.Refused, got)
	})
}

func exportOnce(t *testing.T, address string) (ledger.Answer, error) {
	t.Helper()
	conn, err := dial(address)
	require.NoError(t, err)
	defer conn.Close()
	return overGRPC(ptraceotlp.NewGRPCClient(conn))(t.Context(), oneSpan(t))
}

// Calls that a backend fails are not recorded, and the seed determines which calls fail.
func TestBackendFailsByItsSeed(t *testing.T) {
	fails := func(seed uint64) (list []bool) {
		backend, err := NewBackend(ledger.New(), seed, 0.3)
		require.NoError(t, err)
		defer backend.Close()
		for range 1000 {
			err := backend.fails()
			list = append(list, err != nil)
			require.NotContains(t, []codes.Code{codes.Internal, codes.Unknown, codes.InvalidArgument}, status.Code(err), "clients have to retry")
		}
		counts := backend.Counts()
		assert.InDelta(t, 0.3, float64(counts.Failed)/float64(counts.Failed+counts.Taken), 0.05)
		return list
	}
	a, b, other := fails(1), fails(1), fails(2)
	assert.True(t, slices.Equal(a, b))
	assert.False(t, slices.Equal(a, other))
}

func TestPack(t *testing.T) {
	spans := planned(t, ledger.New(), 300)
	td := Pack(spans)
	assert.Equal(t, len(spans), td.SpanCount())
	assert.LessOrEqual(t, td.ResourceSpans().Len(), len(load.Services))
}

// A backend that is not well accepts nothing, asks for a delay that the Collector
// respects, and ends its calls when it is well again or breaks them.
func TestMoods(t *testing.T) {
	for mood, code := range map[Mood]codes.Code{Throttling: codes.ResourceExhausted, Overloaded: codes.Unavailable} {
		backend, err := NewBackend(ledger.New(), 1, 0)
		require.NoError(t, err)
		defer backend.Close()
		backend.Feel(mood)
		_, err = backend.Export(t.Context(), ptraceotlp.NewExportRequest())
		require.Equal(t, code, status.Code(err))
		require.Len(t, status.Convert(err).Details(), 1)
		backend.Feel(Well)
		_, err = backend.Export(t.Context(), ptraceotlp.NewExportRequest())
		require.NoError(t, err)
	}
	backend, err := NewBackend(ledger.New(), 1, 0)
	require.NoError(t, err)
	defer backend.Close()
	backend.Feel(Stalled)
	for name, ends := range map[string]func(){
		"reset": func() { assert.NoError(t, backend.Reset()) },
		"well":  func() { backend.Feel(Well) },
	} {
		backend.Feel(Stalled)
		failed := backend.Counts().Failed
		conn, err := dial(backend.Address())
		require.NoError(t, err)
		defer conn.Close()
		td := oneSpan(t)
		done := make(chan ledger.Answer, 1)
		go func() {
			got, _ := overGRPC(ptraceotlp.NewGRPCClient(conn))(t.Context(), td)
			done <- got
		}()
		require.Eventually(t, func() bool { return backend.Counts().Failed > failed }, 20*time.Second, time.Millisecond)
		ends()
		assert.Contains(t, []ledger.Answer{ledger.Refused, ledger.Unanswered}, <-done, name)
	}
	assert.Zero(t, backend.Counts().Taken)
}
