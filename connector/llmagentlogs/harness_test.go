package llmagentlogs

import (
	"bufio"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/connector/connectortest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify"
)

var t0 = time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)

// manualClock stands still until it is told. Its ticker ticks when it is advanced.
type manualClock struct {
	mu    sync.Mutex
	now   time.Time
	ticks chan time.Time
}

func newManualClock() *manualClock {
	return &manualClock{now: t0, ticks: make(chan time.Time)}
}

func (c *manualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// After receives at once.
func (c *manualClock) After(time.Duration) <-chan time.Time {
	after := make(chan time.Time, 1)
	after <- c.Now()
	return after
}

func (c *manualClock) NewTicker(time.Duration) (ticks <-chan time.Time, stop func()) {
	return c.ticks, func() {}
}

func (c *manualClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// harness is a connector that is driven by hand: no goroutine, no ticker.
type harness struct {
	*agentLogs
	clock     *manualClock
	sink      *consumertest.TracesSink
	telemetry *componenttest.Telemetry
}

func newHarness(tb testing.TB, cfg *Config, next consumer.Traces) *harness {
	tb.Helper()
	h := &harness{clock: newManualClock(), sink: new(consumertest.TracesSink), telemetry: componenttest.NewTelemetry()}
	tb.Cleanup(func() { require.NoError(tb, h.telemetry.Shutdown(context.Background())) })
	if next == nil {
		next = h.sink
	}
	set := connectortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = h.telemetry.NewTelemetrySettings()
	var err error
	h.agentLogs, err = newAgentLogs(set, cfg, next, h.clock)
	require.NoError(tb, err)
	return h
}

func defaultConfig() *Config { return createDefaultConfig().(*Config) }

// pass lets time pass, and does what is due by then.
func (h *harness) pass(tb testing.TB, d time.Duration) {
	tb.Helper()
	h.clock.advance(d)
	h.tick(tb.Context())
}

func (h *harness) consume(tb testing.TB, logs ...plog.Logs) {
	tb.Helper()
	for _, ld := range logs {
		require.NoError(tb, h.ConsumeLogs(tb.Context(), ld))
	}
}

// spans are all spans that the connector made.
func (h *harness) spans() (all []ptrace.Span) { return spansOf(h.sink.AllTraces()...) }

func spansOf(tds ...ptrace.Traces) (all []ptrace.Span) {
	for _, td := range tds {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					all = append(all, span)
				}
			}
		}
	}
	return all
}

// fixtures is the folder with the recordings of agents.
func fixtures(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv("OTELLLM_AGENT_FIXTURES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "fixtures", "agents")
	}
	if _, err := os.Stat(dir); err != nil {
		tb.Skip("LEFT OUT: the recordings of agents are not here: OTELLLM_AGENT_FIXTURES names their folder")
	}
	return dir
}

// lines are the lines of a recording.
func lines(tb testing.TB, path string) (all [][]byte) {
	tb.Helper()
	f, err := os.Open(path)
	require.NoError(tb, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(tb, err)
	scanner := bufio.NewScanner(z)
	scanner.Buffer(nil, 64<<20)
	for scanner.Scan() {
		all = append(all, append([]byte(nil), scanner.Bytes()...))
	}
	require.NoError(tb, scanner.Err())
	return all
}

func recordedLogs(tb testing.TB, path string) (all []plog.Logs) {
	tb.Helper()
	for _, line := range lines(tb, path) {
		ld, err := (&plog.JSONUnmarshaler{}).UnmarshalLogs(line)
		require.NoError(tb, err)
		all = append(all, ld)
	}
	return all
}

func recordedTraces(tb testing.TB, path string) (all []ptrace.Traces) {
	tb.Helper()
	for _, line := range lines(tb, path) {
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		require.NoError(tb, err)
		all = append(all, td)
	}
	return all
}

// newProcessor starts llm_classify with its default configuration, changed.
func newProcessor(tb testing.TB, change func(*llmclassify.Config)) (processor.Traces, *consumertest.TracesSink) {
	tb.Helper()
	factory, sink := llmclassify.NewFactory(), new(consumertest.TracesSink)
	cfg := factory.CreateDefaultConfig()
	change(cfg.(*llmclassify.Config))
	p, err := factory.CreateTraces(tb.Context(), processortest.NewNopSettings(factory.Type()), cfg, sink)
	require.NoError(tb, err)
	require.NoError(tb, p.Start(tb.Context(), componenttest.NewNopHost()))
	return p, sink
}

// judge has spans judged by llm_classify, in the order in which they come.
func judge(tb testing.TB, tds ...ptrace.Traces) []ptrace.Span {
	tb.Helper()
	p, sink := newProcessor(tb, func(*llmclassify.Config) {})
	for _, td := range tds {
		copied := ptrace.NewTraces()
		td.CopyTo(copied)
		require.NoError(tb, p.ConsumeTraces(tb.Context(), copied))
	}
	require.NoError(tb, p.Shutdown(tb.Context()))
	return spansOf(sink.AllTraces()...)
}
