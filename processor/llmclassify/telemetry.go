package llmclassify

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/semconv"
)

// telemetry is what the processor tells of itself: metrics, log lines and its status.
type telemetry struct {
	*zap.Logger
	health health
	flow   flow

	builder    *metadata.TelemetryBuilder
	registered metric.Registration
	// Attribute sets are made once: they cost more than the measurements.
	permanent, temporary metric.MeasurementOption
	written, unwritten   metric.MeasurementOption
	tables               [historyTable + 1]metric.MeasurementOption
	triggers             [semconv.TriggerClient + 1][]metric.RecordOption
	runs                 sync.Map // options by ending
}

// ending is what is counted of a run.
type ending struct {
	outcome semconv.RunOutcome
	class   semconv.Class
	trigger semconv.Trigger
}

// endingOn reads an ending that the client wrote onto the span of a run.
func endingOn(span ptrace.Span) (v ending, ok bool) {
	value := func(key attribute.Key) string {
		if v, ok := span.Attributes().Get(string(key)); ok {
			return v.Str()
		}
		return ""
	}
	if value(semconv.ClassificationTriggerKey) != semconv.TriggerClient.String() {
		return ending{}, false
	}
	v.trigger = semconv.TriggerClient
	v.class, _ = semconv.ParseClass(value(semconv.FailureClassKey))
	v.outcome, ok = semconv.ParseRunOutcome(value(semconv.RunOutcomeKey))
	return v, ok
}

func newTelemetry(set component.TelemetrySettings) (*telemetry, error) {
	builder, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	with := func(kv attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(kv))
	}
	t := &telemetry{
		Logger:    set.Logger,
		builder:   builder,
		permanent: with(attribute.Bool("permanent", true)),
		temporary: with(attribute.Bool("permanent", false)),
		written:   with(attribute.Bool("success", true)),
		unwritten: with(attribute.Bool("success", false)),
	}
	for i, name := range [...]string{judgedTable: "judged", historyTable: "history"} {
		t.tables[i] = with(attribute.String("table", name))
	}
	for i := range t.triggers {
		t.triggers[i] = []metric.RecordOption{with(attribute.String("trigger", semconv.Trigger(i).String()))}
	}
	return t, nil
}

// load is what the processor holds.
type load struct{ traces, bytes, factBytes, evidence int }

// tableSizes are the bytes of what is kept of runs that were judged, and of calls that were
// refused.
type tableSizes [historyTable + 1]int

const (
	judgedTable = iota
	historyTable
)

// observe registers what is read when metrics are collected: what the processor holds, in
// bytes, the memory of tables and of shared resources, and what became of spans.
func (t *telemetry) observe(set component.TelemetrySettings, loads func() load, tables func() tableSizes, resources func() int) error {
	b := t.builder
	registered, err := metadata.Meter(set).RegisterCallback(func(_ context.Context, o metric.Observer) error {
		l, n := loads(), t.flow.now()
		o.ObserveInt64(b.ProcessorLlmClassifyTracesHeld, int64(l.traces))
		o.ObserveInt64(b.ProcessorLlmClassifyBytesHeld, int64(l.bytes))
		o.ObserveInt64(b.ProcessorLlmClassifyEvidenceBytes, int64(l.evidence))
		o.ObserveInt64(b.ProcessorLlmClassifyFactBytes, int64(l.factBytes))
		o.ObserveInt64(b.ProcessorLlmClassifyResourceBytes, int64(resources()))
		for i, size := range tables() {
			o.ObserveInt64(b.ProcessorLlmClassifyTableBytes, int64(size), t.tables[i])
		}
		o.ObserveInt64(b.ProcessorLlmClassifySpansIn, int64(n.in))
		o.ObserveInt64(b.ProcessorLlmClassifySpansRefused, int64(n.refused))
		o.ObserveInt64(b.ProcessorLlmClassifySpansReplayed, int64(n.replayed))
		o.ObserveInt64(b.ProcessorLlmClassifySpansPassed, int64(n.passed))
		o.ObserveInt64(b.ProcessorLlmClassifySpansTaken, int64(n.taken))
		o.ObserveInt64(b.ProcessorLlmClassifySpansHeld, int64(n.held))
		o.ObserveInt64(b.ProcessorLlmClassifySpansForwarded, int64(n.forwarded))
		o.ObserveInt64(b.ProcessorLlmClassifySpansAdded, int64(n.added))
		o.ObserveInt64(b.ProcessorLlmClassifySpansLost, int64(n.lost))
		return nil
	},
		b.ProcessorLlmClassifyTracesHeld, b.ProcessorLlmClassifyBytesHeld, b.ProcessorLlmClassifyEvidenceBytes,
		b.ProcessorLlmClassifyFactBytes, b.ProcessorLlmClassifyTableBytes, b.ProcessorLlmClassifyResourceBytes,
		b.ProcessorLlmClassifySpansIn, b.ProcessorLlmClassifySpansRefused, b.ProcessorLlmClassifySpansReplayed,
		b.ProcessorLlmClassifySpansPassed, b.ProcessorLlmClassifySpansTaken, b.ProcessorLlmClassifySpansHeld,
		b.ProcessorLlmClassifySpansForwarded, b.ProcessorLlmClassifySpansAdded, b.ProcessorLlmClassifySpansLost,
	)
	t.registered = registered
	return err
}

func (t *telemetry) shutdown() {
	t.builder.Shutdown()
	_ = t.registered.Unregister() // it fails only where it was unregistered
}

func (t *telemetry) cleaned(ctx context.Context, spans int) {
	add(ctx, t.builder.ProcessorLlmClassifyVerdictsRemoved, spans)
}

func (t *telemetry) contradicted(ctx context.Context, spans int) {
	add(ctx, t.builder.ProcessorLlmClassifyVerdictsContradicted, spans)
}

func (t *telemetry) late(ctx context.Context, spans int) {
	add(ctx, t.builder.ProcessorLlmClassifySpansLate, spans)
}

func (t *telemetry) forwardFailed(ctx context.Context, spans int, permanent bool) {
	option := t.temporary
	if permanent {
		option = t.permanent
	}
	add(ctx, t.builder.ProcessorLlmClassifyForwardFailures, spans, option)
}

func (t *telemetry) forgot(ctx context.Context, spans int) {
	add(ctx, t.builder.ProcessorLlmClassifyFactsForgotten, spans)
}

func (t *telemetry) wrote(ctx context.Context, err error) {
	option := t.written
	if err != nil {
		option = t.unwritten
	}
	add(ctx, t.builder.ProcessorLlmClassifyStorageWrites, 1, option)
}

func (t *telemetry) holdTime(ctx context.Context, d time.Duration, trigger semconv.Trigger) {
	t.builder.ProcessorLlmClassifyHoldTime.Record(ctx, d.Seconds(), t.triggers[trigger]...)
}

// run counts n runs that ended alike.
func (t *telemetry) run(ctx context.Context, v ending, n int) {
	options, ok := t.runs.Load(v)
	if !ok { // there are a few hundred at most
		options, _ = t.runs.LoadOrStore(v, []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(
			attribute.String("outcome", v.outcome.String()),
			attribute.String("class", v.class.String()),
			attribute.String("trigger", v.trigger.String()),
		))})
	}
	t.builder.ProcessorLlmClassifyRuns.Add(ctx, int64(n), options.([]metric.AddOption)...)
}

func add(ctx context.Context, counter metric.Int64Counter, n int, options ...metric.AddOption) {
	if n > 0 {
		counter.Add(ctx, int64(n), options...)
	}
}
