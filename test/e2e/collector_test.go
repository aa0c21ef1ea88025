package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/processor/llmclassify"
	"github.com/otelllm/otelllm-go/test/internal/process"
)

// maxHold is the Collector's max_hold. It is short, so that a run can last longer.
const maxHold = time.Second

// patience is the timeout for the Collector. A healthy one needs a few seconds.
const patience = 30 * time.Second

// pipeline is a Collector with llm_classify in this process, and an SDK that exports to it.
type pipeline struct {
	sink     *sink
	logs     *logs
	endpoint string // host:port of OTLP over HTTP
	provider *sdktrace.TracerProvider
	gateway  *sdktrace.TracerProvider // of another process, according to its resource
	ended    *tracetest.SpanRecorder  // what the SDKs exported

	collector *otelcol.Collector
	ran       chan error
	stopOnce  sync.Once
}

func start(t *testing.T) *pipeline {
	t.Helper()
	return startFor(t, time.Hour)
}

// startFor is like start, with a run_timeout.
func startFor(t *testing.T, runTimeout time.Duration) *pipeline {
	t.Helper()
	p := &pipeline{sink: &sink{}, logs: &logs{}, ended: tracetest.NewSpanRecorder(), ran: make(chan error, 1)}
	endpoint := freeAddress(t)
	p.endpoint = endpoint
	col, err := otelcol.NewCollector(otelcol.CollectorSettings{
		BuildInfo:               component.NewDefaultBuildInfo(),
		Factories:               p.factories,
		DisableGracefulShutdown: true,
		SkipSettingGRPCLogger:   true,
		LoggingOptions:          []zap.Option{zap.WrapCore(func(zapcore.Core) zapcore.Core { return p.logs.core() })},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{"yaml:" + config(endpoint, runTimeout)},
			ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	})
	require.NoError(t, err)
	p.collector = col
	go func() { p.ran <- col.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() { p.stop(t) })
	require.Eventually(t, func() bool { return col.GetState() == otelcol.StateRunning }, patience, 5*time.Millisecond,
		"the Collector did not start:\n%s", p.logs)
	time.Sleep(process.NewCollector)

	of := func(service string) *sdktrace.TracerProvider {
		exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpoint(endpoint), otlptracehttp.WithInsecure())
		require.NoError(t, err)
		return sdktrace.NewTracerProvider(
			sdktrace.WithResource(resource.NewSchemaless(otelsemconv.ServiceName(service))),
			sdktrace.WithSpanProcessor(p.ended),
			sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(50*time.Millisecond), sdktrace.WithMaxQueueSize(1<<14)),
		)
	}
	p.provider, p.gateway = of("agent"), of("gateway")
	return p
}

// stop flushes the SDK, then stops the Collector.
func (p *pipeline) stop(t *testing.T) {
	t.Helper()
	p.stopOnce.Do(func() {
		for _, provider := range []*sdktrace.TracerProvider{p.gateway, p.provider} {
			if provider != nil {
				require.NoError(t, provider.Shutdown(context.WithoutCancel(t.Context())))
			}
		}
		p.collector.Shutdown()
		select {
		case err := <-p.ran:
			require.NoError(t, err)
		case <-time.After(patience):
			t.Errorf("the Collector did not stop:\n%s", p.logs)
		}
	})
}

func config(endpoint string, runTimeout time.Duration) string {
	return fmt.Sprintf(`
receivers:
  otlp:
    protocols:
      http:
        endpoint: %s
processors:
  llm_classify:
    max_hold: %s
    settle: 500ms
    run_timeout: %s
exporters:
  sink:
service:
  pipelines:
    traces:
      receivers: [otlp]
      processors: [llm_classify]
      exporters: [sink]
  telemetry:
    metrics:
      level: none
    logs:
      level: debug
`, endpoint, maxHold, runTimeout)
}

// factories returns the few components that these tests need: the contrib set takes minutes
// to compile.
func (p *pipeline) factories() (otelcol.Factories, error) {
	classify, otlp, out := llmclassify.NewFactory(), otlpreceiver.NewFactory(), p.sink.factory()
	return otelcol.Factories{
		Receivers:  map[component.Type]receiver.Factory{otlp.Type(): otlp},
		Processors: map[component.Type]processor.Factory{classify.Type(): classify},
		Exporters:  map[component.Type]exporter.Factory{out.Type(): out},
		Telemetry:  otelconftelemetry.NewFactory(),
	}, nil
}

// sink is an exporter that keeps what it receives: as spans, and as the bytes that an
// exporter would send.
type sink struct {
	mu    sync.Mutex
	spans report.Spans // guarded by mu
	bytes bytes.Buffer // guarded by mu: OTLP, in protobuf and in JSON
}

func (s *sink) factory() exporter.Factory {
	return exporter.NewFactory(component.MustNewType("sink"), func() component.Config { return &struct{}{} },
		exporter.WithTraces(func(context.Context, exporter.Settings, component.Config) (exporter.Traces, error) {
			c, err := consumer.NewTraces(s.consume)
			return sinkExporter{Traces: c}, err
		}, component.StabilityLevelDevelopment))
}

type sinkExporter struct {
	consumer.Traces
	component.StartFunc
	component.ShutdownFunc
}

func (s *sink) consume(_ context.Context, td ptrace.Traces) error {
	var proto ptrace.ProtoMarshaler
	var json ptrace.JSONMarshaler
	p, err := proto.MarshalTraces(td)
	if err != nil {
		return err
	}
	j, err := json.MarshalTraces(td)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spans.Add(td)
	s.bytes.Write(p)
	s.bytes.Write(j)
	return nil
}

func (s *sink) runs(id pcommon.TraceID) []report.Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spans.Runs(id)
}

func (s *sink) trace(id pcommon.TraceID) []report.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spans.Trace(id)
}

func (s *sink) exported() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.bytes.Bytes())
}

// logs keeps everything that the Collector logs, debug level included.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (l *logs) core() zapcore.Core {
	return zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(l), zapcore.DebugLevel)
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns everything that was logged.
func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	return ln.Addr().String()
}
