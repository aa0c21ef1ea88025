package llmagentlogs

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/metadata"
)

// NewFactory makes the factory of the connector llm_agent_logs.
func NewFactory() connector.Factory {
	return connector.NewFactory(
		metadata.Type,
		createDefaultConfig,
		connector.WithLogsToTraces(createLogsToTraces, metadata.LogsToTracesStability),
	)
}

func createLogsToTraces(
	_ context.Context,
	set connector.Settings,
	cfg component.Config,
	next consumer.Traces,
) (connector.Logs, error) {
	return newAgentLogs(set, cfg.(*Config), next, systemClock{})
}
