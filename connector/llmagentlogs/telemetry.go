package llmagentlogs

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/agentlog"
	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/metadata"
)

// telemetry is the connector's own metrics.
type telemetry struct {
	builder *metadata.TelemetryBuilder
}

func newTelemetry(set component.TelemetrySettings) (*telemetry, error) {
	builder, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	return &telemetry{builder}, nil
}

// observe registers the values that are read when metrics are collected.
func (t *telemetry) observe(load func() (conversations, bytes int64)) error {
	err := t.builder.RegisterConnectorLlmAgentLogsConversationsCallback(func(_ context.Context, o metric.Int64Observer) error {
		n, _ := load()
		o.Observe(n)
		return nil
	})
	if err != nil {
		return err
	}
	return t.builder.RegisterConnectorLlmAgentLogsBytesHeldCallback(func(_ context.Context, o metric.Int64Observer) error {
		_, n := load()
		o.Observe(n)
		return nil
	})
}

func (t *telemetry) shutdown() { t.builder.Shutdown() }

func (t *telemetry) read(ctx context.Context, byAgent [3]int64) {
	for agent, n := range byAgent {
		add(ctx, t.builder.ConnectorLlmAgentLogsRecords, n, "agent", agentlog.Agent(agent).String())
	}
}

// count adds the counts to the metrics, and resets them.
func (t *telemetry) count(ctx context.Context, c *counts) {
	b := t.builder
	add(ctx, b.ConnectorLlmAgentLogsRecordsDropped, c.duplicates, "reason", "duplicate")
	add(ctx, b.ConnectorLlmAgentLogsRecordsDropped, c.strays, "reason", "no_turn")
	add(ctx, b.ConnectorLlmAgentLogsRecordsDropped, c.tooLarge, "reason", "too_large")
	add(ctx, b.ConnectorLlmAgentLogsRecordsDropped, c.busy, "reason", "busy")
	if c.forgotten > 0 {
		b.ConnectorLlmAgentLogsForgotten.Add(ctx, c.forgotten)
	}
	for kind, n := range c.made {
		add(ctx, b.ConnectorLlmAgentLogsSpans, n, "kind", madeKinds[kind])
	}
	*c = counts{}
}

func (t *telemetry) lost(ctx context.Context, spans int) {
	t.builder.ConnectorLlmAgentLogsSpansLost.Add(ctx, int64(spans))
}

func add(ctx context.Context, counter metric.Int64Counter, n int64, name, value string) {
	if n > 0 {
		counter.Add(ctx, n, metric.WithAttributeSet(attribute.NewSet(attribute.String(name, value))))
	}
}
