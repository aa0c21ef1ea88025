package llmagentlogs

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify"
)

// BenchmarkRecords is the cost of records of Codex: a turn of 200 of them, with two
// requests and a tool, from the call that brings them to the spans.
func BenchmarkRecords(b *testing.B) {
	logs := benchLogs(b)
	cfg := defaultConfig()
	h := newHarness(b, cfg, consumertest.NewNop())
	b.ReportAllocs()
	records := 0
	for b.Loop() {
		for _, ld := range logs {
			if err := h.ConsumeLogs(b.Context(), ld); err != nil {
				b.Fatal(err)
			}
			records += ld.LogRecordCount()
		}
		h.clock.advance(time.Hour)
		h.tick(b.Context())
	}
	b.ReportMetric(float64(records)/b.Elapsed().Seconds(), "records/s")
}

// benchLogs are turns of 16 conversations.
func benchLogs(b *testing.B) []plog.Logs {
	b.Helper()
	entries := []entry{unattended, prompt, headers}
	for range 180 {
		entries = append(entries, sse("output_text.delta"))
	}
	entries = append(entries, completed, ranTool("call_1", true))
	entries = slices.Concat(entries, answer(), answer(), answer(), []entry{prompt})[:200]
	const conversations = 16
	logs := make([]plog.Logs, conversations)
	for i := range logs {
		logs[i] = codexLogs(b, fmt.Sprint("c", i), at(0, entries...)...)
	}
	return logs
}

// BenchmarkPipeline compares a pipeline of logs with and without the connector: calls over
// OTLP in, calls over OTLP out; with it also spans out of the connector, through
// llm_classify, and over OTLP. Both run in turn, so that what else goes on concerns both.
func BenchmarkPipeline(b *testing.B) {
	var calls [][]byte
	records := 0
	for _, ld := range benchLogs(b) {
		data, err := (&plog.ProtoMarshaler{}).MarshalLogs(ld)
		require.NoError(b, err)
		calls, records = append(calls, data), records+ld.LogRecordCount()
	}
	pass := func(connector func(plog.Logs)) time.Duration {
		begun := time.Now()
		for _, data := range calls {
			ld, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(data)
			require.NoError(b, err)
			connector(ld)
			_, err = (&plog.ProtoMarshaler{}).MarshalLogs(ld)
			require.NoError(b, err)
		}
		return time.Since(begun)
	}
	var without, with time.Duration
	n, spans := 0, 0
	for b.Loop() {
		n++
		without += pass(func(plog.Logs) {})
		// A processor of its own for each pass, so that a pass has the cost of its own spans:
		// its shutdown judges all of them.
		p, sink := newProcessor(b, func(*llmclassify.Config) {})
		h := newHarness(b, defaultConfig(), p)
		with += pass(func(ld plog.Logs) { require.NoError(b, h.ConsumeLogs(b.Context(), ld)) })
		begun := time.Now()
		require.NoError(b, h.Shutdown(b.Context()))
		require.NoError(b, p.Shutdown(b.Context()))
		for _, td := range sink.AllTraces() {
			_, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
			require.NoError(b, err)
		}
		with += time.Since(begun)
		spans += sink.SpanCount()
	}
	require.Positive(b, spans)
	total := float64(n * records)
	b.ReportMetric(float64(without.Nanoseconds())/total, "ns/record-without")
	b.ReportMetric(float64(with.Nanoseconds())/total, "ns/record-with")
	b.ReportMetric(float64(with)/float64(without), "ratio")
}
