// Package telemetry has the processor's own telemetry: metrics, log lines and its status.
package telemetry

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

// Telemetry is the processor's own telemetry: metrics, log lines and its status.
type Telemetry struct {
	*zap.Logger
	Health health
	Flow   flow

	builder    *metadata.TelemetryBuilder
	registered metric.Registration
	// Attribute sets are made once: they cost more than the measurements.
	permanent, temporary metric.MeasurementOption
	written, unwritten   metric.MeasurementOption
	tables               [HistoryTable + 1]metric.MeasurementOption
	triggers             [semconv.TriggerClient + 1][]metric.RecordOption
	runs                 sync.Map // options by ending
}

// Ending is the part of a run's verdict that is counted.
type Ending struct {
	Outcome semconv.RunOutcome
	Class   semconv.Class
	Trigger semconv.Trigger
}

// EndingOn reads an ending that the client wrote onto the span of a run.
func EndingOn(span ptrace.Span) (v Ending, ok bool) {
	value := func(key attribute.Key) string {
		if v, ok := span.Attributes().Get(string(key)); ok {
			return v.Str()
		}
		return ""
	}
	if value(semconv.ClassificationTriggerKey) != semconv.TriggerClient.String() {
		return Ending{}, false
	}
	v.Trigger = semconv.TriggerClient
	v.Class, _ = semconv.ParseClass(value(semconv.FailureClassKey))
	v.Outcome, ok = semconv.ParseRunOutcome(value(semconv.RunOutcomeKey))
	return v, ok
}

// New makes the instruments.
func New(set component.TelemetrySettings) (*Telemetry, error) {
	builder, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	with := func(kv attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(kv))
	}
	t := &Telemetry{
		Logger:    set.Logger,
		builder:   builder,
		permanent: with(attribute.Bool("permanent", true)),
		temporary: with(attribute.Bool("permanent", false)),
		written:   with(attribute.Bool("success", true)),
		unwritten: with(attribute.Bool("success", false)),
	}
	for i, name := range [...]string{JudgedTable: "judged", HistoryTable: "history"} {
		t.tables[i] = with(attribute.String("table", name))
	}
	for i := range t.triggers {
		t.triggers[i] = []metric.RecordOption{with(attribute.String("trigger", semconv.Trigger(i).String()))}
	}
	return t, nil
}

// Load is the content of the processor's buffers.
type Load struct{ Traces, Bytes, FactBytes, Evidence int }

// TableSizes are the bytes of the memory of judged runs and refused calls, and of the history.
type TableSizes [HistoryTable + 1]int

// The tables.
const (
	JudgedTable = iota
	HistoryTable
)

// Observe registers the values that are read when metrics are collected: the content of the buffers, the memory of tables
// and of shared resources in bytes, and the fates of spans.
func (t *Telemetry) Observe(set component.TelemetrySettings, loads func() Load, tables func() TableSizes, resources func() int) error {
	b := t.builder
	registered, err := metadata.Meter(set).RegisterCallback(func(_ context.Context, o metric.Observer) error {
		l, n := loads(), t.Flow.Now()
		o.ObserveInt64(b.ProcessorLlmClassifyTracesHeld, int64(l.Traces))
		o.ObserveInt64(b.ProcessorLlmClassifyBytesHeld, int64(l.Bytes))
		o.ObserveInt64(b.ProcessorLlmClassifyEvidenceBytes, int64(l.Evidence))
		o.ObserveInt64(b.ProcessorLlmClassifyFactBytes, int64(l.FactBytes))
		o.ObserveInt64(b.ProcessorLlmClassifyResourceBytes, int64(resources()))
		for i, size := range tables() {
			o.ObserveInt64(b.ProcessorLlmClassifyTableBytes, int64(size), t.tables[i])
		}
		o.ObserveInt64(b.ProcessorLlmClassifySpansIn, int64(n.In))
		o.ObserveInt64(b.ProcessorLlmClassifySpansRefused, int64(n.Refused))
		o.ObserveInt64(b.ProcessorLlmClassifySpansReplayed, int64(n.Replayed))
		o.ObserveInt64(b.ProcessorLlmClassifySpansPassed, int64(n.Passed))
		o.ObserveInt64(b.ProcessorLlmClassifySpansTaken, int64(n.Taken))
		o.ObserveInt64(b.ProcessorLlmClassifySpansHeld, int64(n.Held))
		o.ObserveInt64(b.ProcessorLlmClassifySpansForwarded, int64(n.Forwarded))
		o.ObserveInt64(b.ProcessorLlmClassifySpansAdded, int64(n.Added))
		o.ObserveInt64(b.ProcessorLlmClassifySpansLost, int64(n.Lost))
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

// Shutdown ends the metrics.
func (t *Telemetry) Shutdown() {
	t.builder.Shutdown()
	_ = t.registered.Unregister() // it only fails if it was unregistered before
}

// Cleaned counts spans whose verdict was removed.
func (t *Telemetry) Cleaned(ctx context.Context, spans int) {
	add(ctx, t.builder.ProcessorLlmClassifyVerdictsRemoved, spans)
}

// Contradicted counts late spans that make a verdict more careful.
func (t *Telemetry) Contradicted(ctx context.Context, spans int) {
	add(ctx, t.builder.ProcessorLlmClassifyVerdictsContradicted, spans)
}

// Late counts spans that arrived after their run was judged.
func (t *Telemetry) Late(ctx context.Context, spans int) {
	add(ctx, t.builder.ProcessorLlmClassifySpansLate, spans)
}

// ForwardFailed counts spans that the next consumer refused.
func (t *Telemetry) ForwardFailed(ctx context.Context, spans int, permanent bool) {
	option := t.temporary
	if permanent {
		option = t.permanent
	}
	add(ctx, t.builder.ProcessorLlmClassifyForwardFailures, spans, option)
}

// Forgot counts spans whose facts were forgotten before their run was judged.
func (t *Telemetry) Forgot(ctx context.Context, spans int) {
	add(ctx, t.builder.ProcessorLlmClassifyFactsForgotten, spans)
}

// Wrote counts an access to the storage.
func (t *Telemetry) Wrote(ctx context.Context, err error) {
	option := t.written
	if err != nil {
		option = t.unwritten
	}
	add(ctx, t.builder.ProcessorLlmClassifyStorageWrites, 1, option)
}

// HoldTime records how long the spans of a release were held.
func (t *Telemetry) HoldTime(ctx context.Context, d time.Duration, trigger semconv.Trigger) {
	t.builder.ProcessorLlmClassifyHoldTime.Record(ctx, d.Seconds(), t.triggers[trigger]...)
}

// Run counts n runs that ended alike.
func (t *Telemetry) Run(ctx context.Context, v Ending, n int) {
	options, ok := t.runs.Load(v)
	if !ok { // there are a few hundred at most
		options, _ = t.runs.LoadOrStore(v, []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(
			attribute.String("outcome", v.Outcome.String()),
			attribute.String("class", v.Class.String()),
			attribute.String("trigger", v.Trigger.String()),
		))})
	}
	t.builder.ProcessorLlmClassifyRuns.Add(ctx, int64(n), options.([]metric.AddOption)...)
}

func add(ctx context.Context, counter metric.Int64Counter, n int, options ...metric.AddOption) {
	if n > 0 {
		counter.Add(ctx, int64(n), options...)
	}
}
