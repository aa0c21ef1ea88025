package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
)

// backend is a backend that accepts OTLP over gRPC.
type backend struct {
	ptraceotlp.UnimplementedGRPCServer

	mu    sync.Mutex
	spans report.Spans
}

func (b *backend) Export(_ context.Context, r ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spans.Add(r.Traces())
	return ptraceotlp.NewExportResponse(), nil
}

// serveGRPC serves until the test ends, and returns the address.
func serveGRPC(t *testing.T, register func(*grpc.Server)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := grpc.NewServer()
	register(srv)
	go func() { _ = srv.Serve(ln) }() // until Stop
	t.Cleanup(srv.Stop)
	return ln.Addr().String()
}

// embed records a run that failed, through the classifier in this process.
func embed(t *testing.T, otlp string) (e *embedded, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "traces.jsonl")
	e, err := startEmbedded(t.Context(), otlp, path)
	require.NoError(t, err)
	provider, err := tracing(t.Context(), e, serviceName)
	require.NoError(t, err)
	_, run := otelllm.StartRun(t.Context(), "coder", otelllm.WithTracerProvider(provider))
	run.End(assert.AnError)
	require.NoError(t, flush(t.Context(), e, provider))
	require.NoError(t, e.Stop(stopPatience))
	return e, path
}

func TestEmbedded(t *testing.T) {
	b := &backend{}
	e, path := embed(t, serveGRPC(t, func(s *grpc.Server) { ptraceotlp.RegisterGRPCServer(s, b) }))
	require.NoError(t, e.forwarded())
	var written report.Spans
	_, err := report.NewTail(path).Read(&written)
	require.NoError(t, err)
	b.mu.Lock()
	defer b.mu.Unlock()
	for where, spans := range map[string]*report.Spans{"file": &written, "backend": &b.spans} {
		runs := spans.All()
		require.Len(t, runs, 1, where)
		assert.Equal(t, semconv.RunOutcomeFailed, runs[0].Verdict.Outcome, where)
		assert.Equal(t, serviceName, runs[0].Service, where)
	}
}

func TestBackendWithoutOTLP(t *testing.T) {
	address := serveGRPC(t, func(*grpc.Server) {})
	e, _ := embed(t, address)
	require.ErrorContains(t, e.forwarded(), "could not be forwarded to "+address+"; does a backend accept OTLP over gRPC there?")
}

// The demo waits as long as its Collector does.
func TestSameWaitsAsTheCollector(t *testing.T) {
	raw, err := os.ReadFile("../../deploy/collector/config-demo.yaml")
	require.NoError(t, err)
	for name, want := range map[string]time.Duration{"max_hold": waits.MaxHold, "settle": waits.Settle, "run_timeout": waits.RunTimeout} {
		_, rest, found := strings.Cut(string(raw), "\n    "+name+": ")
		require.True(t, found, name)
		value, _, _ := strings.Cut(rest, "\n")
		got, err := time.ParseDuration(value)
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
	}
}

// What `make demo` compiles for otelllm it does not compile again for the quickstart: both modules have the same versions.
func TestSameVersionsAsTheProgram(t *testing.T) {
	versions := func(dir, pkg string) map[string]string {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}}{{end}}", pkg)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off")
		out, err := cmd.Output()
		require.NoError(t, err)
		found := make(map[string]string)
		for line := range strings.Lines(string(out)) {
			path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
			found[path] = version
		}
		return found
	}
	program := versions("../../cmd/otelllm", ".")
	shared := 0
	for path, version := range versions(".", ".") {
		if of := program[path]; of != "" { // it has none of itself
			assert.Equal(t, of, version, "%s: go get the newer version in the other module", path)
			shared++
		}
	}
	assert.Greater(t, shared, 20)
}
