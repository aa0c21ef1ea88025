package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Endpoint is an OTLP endpoint.
type Endpoint struct {
	// NewClient returns the client, which is not started.
	NewClient func() otlptrace.Client
	// MaxBytes bounds what waits for the endpoint; 0 for 32 MiB.
	MaxBytes int
	// Patience is how long Close waits for the endpoint; 0 for 5s.
	Patience time.Duration
}

// Defaults of [Endpoint].
const (
	defaultMaxBytes = 32 << 20
	defaultPatience = 5 * time.Second
)

// EndpointFromEnv returns the endpoint that OTEL_EXPORTER_OTLP_ENDPOINT, or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, names, or nil without one. The exporter reads all
// other variables of the specification.
func EndpointFromEnv() (*Endpoint, error) {
	if os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" ||
		os.Getenv("OTEL_TRACES_EXPORTER") == "none" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	protocol := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	switch protocol {
	case "", "http/protobuf":
		return &Endpoint{NewClient: func() otlptrace.Client { return otlptracehttp.NewClient() }}, nil
	case "grpc":
		return &Endpoint{NewClient: func() otlptrace.Client { return otlptracegrpc.NewClient() }}, nil
	default:
		return nil, fmt.Errorf("OTLP over %q is not supported: set OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf or grpc", protocol)
	}
}

// exporter sends judged spans to an endpoint, in a goroutine of its own. While the endpoint
// is slow or dead, spans wait up to a bound, and then the newest are dropped: nothing else
// waits for it.
type exporter struct {
	client   otlptrace.Client
	log      *slog.Logger
	maxBytes int
	patience time.Duration
	cancel   context.CancelFunc // of calls to the endpoint
	done     chan struct{}      // closed when the goroutine has ended
	wake     chan struct{}

	mu      sync.Mutex
	queue   []batch
	bytes   int
	lost    int // spans
	closing bool
}

// batch is encoded spans.
type batch struct {
	encoded []byte
	spans   int
}

func startExporter(ctx context.Context, endpoint *Endpoint, log *slog.Logger) (*exporter, error) {
	e := &exporter{
		client: endpoint.NewClient(), log: log, maxBytes: endpoint.MaxBytes, patience: endpoint.Patience,
		done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	if e.maxBytes <= 0 {
		e.maxBytes = defaultMaxBytes
	}
	if e.patience <= 0 {
		e.patience = defaultPatience
	}
	if err := e.client.Start(ctx); err != nil {
		return nil, errors.New("the OTLP exporter does not start with the OTEL_EXPORTER_OTLP_… variables that are set")
	}
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e.cancel = cancel
	go e.run(calls)
	return e, nil
}

// add queues the spans of td.
func (e *exporter) add(td ptrace.Traces) {
	encoded, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil || e.closing || e.bytes+len(encoded) > e.maxBytes {
		if e.lost == 0 {
			e.log.Warn("the OTLP endpoint does not keep up: spans are dropped")
		}
		e.lost += td.SpanCount()
		return
	}
	e.bytes += len(encoded)
	e.queue = append(e.queue, batch{encoded, td.SpanCount()})
	notify(e.wake)
}

func (e *exporter) run(ctx context.Context) {
	defer close(e.done)
	for {
		b, closing, ok := e.next()
		switch {
		case ok:
			e.send(ctx, b)
		case closing:
			return
		default:
			<-e.wake
		}
	}
}

// next returns the first batch, which stays counted until it is sent.
func (e *exporter) next() (b batch, closing, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == 0 {
		return batch{}, e.closing, false
	}
	b = e.queue[0]
	e.queue[0] = batch{}
	e.queue = e.queue[1:]
	return b, e.closing, true
}

// send uploads a batch. The client retries what is worth a retry.
func (e *exporter) send(ctx context.Context, b batch) {
	var data tracepb.TracesData
	err := proto.Unmarshal(b.encoded, &data)
	if err == nil && ctx.Err() == nil {
		err = e.client.UploadTraces(ctx, data.ResourceSpans)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytes -= len(b.encoded)
	if err == nil {
		return
	}
	if e.lost == 0 {
		e.log.Warn("the OTLP endpoint did not take spans") // the error may quote the endpoint's answer
	}
	e.lost += b.spans
}

// close sends what waits, until patience or ctx ends, and reports what did not get there. A
// nil exporter has nothing to close.
func (e *exporter) close(ctx context.Context) error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	e.closing = true
	e.mu.Unlock()
	notify(e.wake)
	patience, stop := context.WithTimeout(ctx, e.patience)
	defer stop()
	select {
	case <-e.done:
	case <-patience.Done():
	}
	e.cancel()
	<-e.done
	stopped, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	_ = e.client.Stop(stopped) // its connections end with the process
	if e.lost > 0 {
		return fmt.Errorf("%d spans did not reach the OTLP endpoint", e.lost)
	}
	return nil
}
