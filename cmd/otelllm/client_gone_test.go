//go:build unix

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"golang.org/x/net/http2"

	"github.com/otelllm/otelllm-go/semconv"
)

// leavesOver returns a client that asks over a connection of its own, and leaves it as end says.
func leavesOver(end func(t *testing.T, conn *net.TCPConn)) func(t *testing.T, base string, read *output) func() {
	return func(t *testing.T, base string, read *output) func() {
		t.Helper()
		address := strings.TrimPrefix(base, "http://")
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		body := `{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"` + canaryPrompt + `"}]}`
		req, err := http.NewRequest(http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		require.NoError(t, req.Write(conn))
		go func() { _, _ = io.Copy(read, conn) }()
		return func() { end(t, conn.(*net.TCPConn)) }
	}
}

// leavesStream asks over HTTP/2, and cancels the stream.
func leavesStream(t *testing.T, base string, read *output) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	tr := &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	body := `{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"` + canaryPrompt + `"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	go func() {
		resp, err := tr.RoundTrip(req)
		if err == nil {
			_, _ = io.Copy(read, resp.Body)
			_ = resp.Body.Close()
		}
	}()
	return cancel // which leaves the connection open
}

// leavesByKill asks from a process that is killed.
func leavesByKill(t *testing.T, base string, read *output) func() {
	t.Helper()
	argv := asking(t, "ask")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(cmd.Environ(), "OPENAI_BASE_URL="+base+"/v1")
	cmd.Stdout = read
	require.NoError(t, cmd.Start())
	return func() {
		assert.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
		_ = cmd.Wait()
	}
}

// Of a client whose connection goes away it is not known whether that is on purpose: the system closes those of a process
// that is killed. So the proxy says the same of each, and no more than it knows.
func TestProxyDoesNotKnowWhyAClientLeft(t *testing.T) {
	t.Parallel()
	ways := map[string]func(t *testing.T, base string, read *output) (leave func()){
		"FIN": leavesOver(func(t *testing.T, conn *net.TCPConn) {
			t.Helper()
			assert.NoError(t, conn.CloseWrite())
		}),
		"RST": leavesOver(func(t *testing.T, conn *net.TCPConn) {
			t.Helper()
			assert.NoError(t, conn.SetLinger(0))
			assert.NoError(t, conn.Close())
		}),
		"RST_STREAM": leavesStream,
		"SIGKILL":    leavesByKill,
	}
	for name, tt := range map[string]struct {
		answer     http.HandlerFunc
		gets, says string
	}{
		"before the answer": {
			func(http.ResponseWriter, *http.Request) {}, "",
			"The client side stopped reading (it did not say why) before the model began to respond. Nothing had been shown yet. Do not retry unless asked to.",
		},
		"within the answer": {
			func(w http.ResponseWriter, _ *http.Request) { begin(w) }, canaryAnswer,
			"The client side stopped reading (it did not say why) while the assistant was still writing. Part of the answer had already been shown. Do not retry unless asked to.",
		},
	} {
		for way, client := range ways {
			t.Run(way+" "+name, func(t *testing.T) {
				t.Parallel()
				began, gone := make(chan struct{}), make(chan struct{})
				srv := model(t, func(w http.ResponseWriter, r *http.Request) { tt.answer(w, r); close(began); silent(w, r); close(gone) })
				sink := newBackend(t)
				p, base := startProxy(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + sink.URL}, "--upstream", srv.URL)
				read := &output{}
				leave := client(t, base, read)
				<-began
				await(t, read, tt.gets)
				leave()
				<-gone
				require.NoError(t, p.Process.Signal(syscall.SIGTERM))
				assert.Zero(t, p.exit(t), "%s", &p.stderr)
				assert.Contains(t, p.stderr.String(), "outcome=aborted class=local_abort cause=consumer_closed")
				assert.Contains(t, p.stderr.String(), tt.says)
				require.Len(t, sink.spans, 2, "the run's and the request's")
				for _, span := range sink.spans {
					attributes := span.Attributes().AsRaw()
					assert.Equal(t, tt.says, attributes[string(semconv.FailureSummaryKey)])
					assert.Equal(t, semconv.RetrySafetyNoRetry.String(), attributes[string(semconv.RetrySafetyKey)])
					assert.Equal(t, ptrace.StatusCodeUnset, span.Status().Code())
					assert.NotRegexp(t, "deliberate|on purpose", fmt.Sprint(attributes))
				}
			})
		}
	}
}
