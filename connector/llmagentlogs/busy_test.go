package llmagentlogs

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/metadatatest"
	"github.com/otelllm/otelllm-go/semconv"
)

// Beside the connector a pipeline has the backend of the logs, which gets them whatever the
// connector does with them: an error would have them sent again. While the next consumer
// does not return, records are dropped, and nothing is claimed of their turns.
func TestBusy(t *testing.T) {
	cfg := defaultConfig()
	cfg.MaxBytes = 128 << 10
	called, release, sink := make(chan struct{}, 1), make(chan struct{}), new(consumertest.TracesSink)
	next, err := consumer.NewTraces(func(ctx context.Context, td ptrace.Traces) error {
		select {
		case called <- struct{}{}:
		default:
		}
		<-release
		return sink.ConsumeTraces(ctx, td)
	})
	require.NoError(t, err)
	h := newHarness(t, cfg, next)
	require.NoError(t, h.Start(t.Context(), componenttest.NewNopHost()))
	backend := new(consumertest.LogsSink)
	fanOut := func(ld plog.Logs) {
		require.NoError(t, errors.Join(h.ConsumeLogs(t.Context(), ld), backend.ConsumeLogs(t.Context(), ld)))
	}

	mine := func(at time.Duration, entries ...entry) plog.Logs {
		for i := range entries {
			entries[i].at = at + time.Duration(i)*time.Millisecond
		}
		ld := codexLogs(t, "mine", entries...)
		ld.ResourceLogs().At(0).Resource().Attributes().PutStr("service.name", "mine")
		return ld
	}
	fanOut(mine(0, slices.Concat([]entry{unattended, prompt}, calls())...))
	h.clock.advance(cfg.Settle)
	h.clock.ticks <- h.clock.Now()
	<-called
	const flood = 2000
	most := 0
	for i := range flood {
		fanOut(codexLogs(t, strconv.Itoa(i), at(0, slices.Concat([]entry{unattended, prompt}, answer())...)...))
		_, held := h.load()
		most = max(most, int(held))
	}
	assert.LessOrEqual(t, most, 2*cfg.MaxBytes)
	fanOut(mine(time.Minute, decided("approved"), ranTool("call_1", true)))
	assert.Len(t, backend.AllLogs(), flood+2, "each of them once")
	close(release)
	h.clock.ticks <- h.clock.Now()
	h.clock.ticks <- h.clock.Now() // the first one is done
	fanOut(mine(2*time.Minute, answer()...))
	h.clock.advance(cfg.Quiet)
	h.clock.ticks <- h.clock.Now()
	require.NoError(t, h.Shutdown(t.Context()))

	busy := metadatatest.AssertEqualConnectorLlmAgentLogsRecordsDropped
	metric, err := h.telemetry.GetMetric("otelcol_connector_llm_agent_logs_records_dropped")
	require.NoError(t, err)
	points := metric.Data.(metricdata.Sum[int64]).DataPoints
	require.Len(t, points, 1)
	assert.Greater(t, points[0].Value, int64(flood))
	busy(t, h.telemetry, []metricdata.DataPoint[int64]{{
		Attributes: attribute.NewSet(attribute.String("reason", "busy")), Value: points[0].Value,
	}}, metricdatatest.IgnoreTimestamp())

	var ends []string
	for _, run := range runsOf(spansOf(sink.AllTraces()...)) {
		if value(run, "gen_ai.conversation.id") == "mine" {
			ends = append(ends, value(run, semconv.RunEndKey))
		}
	}
	assert.Equal(t, []string{"evicted"}, ends)
}

// A dropped record may be of any turn whose records come together with those after it, and
// of one whose prompt it is.
func TestDroppedRecords(t *testing.T) {
	cfg := defaultConfig()
	h := newHarness(t, cfg, nil)
	miss := func() {
		bound := cfg.MaxBytes
		cfg.MaxBytes = 0 // nothing has room, and no room is made
		h.made.bytes++
		h.consume(t, codexLogs(t, "c1", entry{at: time.Hour, name: prompt.name}))
		h.made.bytes--
		cfg.MaxBytes = bound
	}
	turn := func(from time.Duration) []entry { return at(from, slices.Concat([]entry{prompt}, answer())...) }
	h.consume(t, codexLogs(t, "c1", at(0, unattended)...), codexLogs(t, "c1", turn(time.Second)...))
	miss()
	h.consume(t, codexLogs(t, "c1", turn(2*time.Second)...))
	h.pass(t, cfg.Settle)
	h.pass(t, cfg.Quiet)
	h.consume(t, codexLogs(t, "c1", turn(3*time.Second)...))
	h.pass(t, cfg.Quiet)
	miss()
	h.consume(t, codexLogs(t, "c1", at(4*time.Second, answer()...)...))
	h.pass(t, cfg.Quiet)
	var ends []string
	for _, run := range runsOf(h.spans()) {
		ends = append(ends, value(run, semconv.RunEndKey))
	}
	assert.Equal(t, []string{"evicted", "evicted", "answer"}, ends)
}

// Spans that the next consumer refuses are kept within their bound, the oldest are lost, and
// the memory that all is said to have is that of all.
func TestUnsentIsBounded(t *testing.T) {
	cfg := defaultConfig()
	cfg.MaxBytes = 256 << 10
	refuse, most := true, int64(0)
	var h *harness
	sink := new(consumertest.TracesSink)
	next, err := consumer.NewTraces(func(ctx context.Context, td ptrace.Traces) error {
		_, held := h.load()
		most = max(most, held)
		if refuse {
			return errors.New("busy")
		}
		return sink.ConsumeTraces(ctx, td)
	})
	require.NoError(t, err)
	h = newHarness(t, cfg, next)
	const turns = 300
	for i := range turns {
		h.consume(t, codexLogs(t, strconv.Itoa(i), at(0, slices.Concat([]entry{unattended, prompt}, answer())...)...))
		h.pass(t, cfg.Settle)
	}
	assert.Greater(t, most, int64(cfg.maxUnsent()))
	assert.LessOrEqual(t, most, int64(2*cfg.MaxBytes))
	assert.LessOrEqual(t, h.sending, cfg.maxUnsent())
	assert.Positive(t, h.sending)
	refuse = false
	h.pass(t, cfg.MaxAge)
	_, held := h.load()
	assert.Zero(t, held)
	lost, err := h.telemetry.GetMetric("otelcol_connector_llm_agent_logs_spans_lost")
	require.NoError(t, err)
	n := lost.Data.(metricdata.Sum[int64]).DataPoints[0].Value
	assert.Positive(t, n)
	assert.Equal(t, 2*turns, sink.SpanCount()+int(n))
}

// Very many turns that end at the same time are forwarded a part at a time.
func TestManyEndAtOnce(t *testing.T) {
	cfg := defaultConfig()
	cfg.MaxBytes = 1 << 20
	for name, end := range map[string]func(*testing.T, *harness){
		"quiet":    func(t *testing.T, h *harness) { h.pass(t, cfg.Quiet) },
		"shutdown": func(t *testing.T, h *harness) { require.NoError(t, h.Shutdown(t.Context())) },
	} {
		t.Run(name, func(t *testing.T) {
			most, sink := 0, new(consumertest.TracesSink)
			next, err := consumer.NewTraces(func(ctx context.Context, td ptrace.Traces) error {
				most = max(most, td.SpanCount())
				return sink.ConsumeTraces(ctx, td)
			})
			require.NoError(t, err)
			h := newHarness(t, cfg, next)
			const turns = 150
			for i := range turns {
				h.consume(t, codexLogs(t, strconv.Itoa(i), at(0, slices.Concat([]entry{unattended, prompt}, answer())...)...))
			}
			end(t, h)
			assert.Equal(t, 2*turns, sink.SpanCount())
			assert.Less(t, most, turns)
		})
	}
}
