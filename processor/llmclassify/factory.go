package llmclassify

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/clock"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
)

// NewFactory makes the factory of the processor llm_classify.
func NewFactory() processor.Factory {
	return processor.NewFactory(
		metadata.Type,
		createDefaultConfig,
		processor.WithTraces(newInstances().createTraces, metadata.TracesStability),
	)
}

func (i *instances) createTraces(
	_ context.Context,
	set processor.Settings,
	cfg component.Config,
	next consumer.Traces,
) (processor.Traces, error) {
	p, err := newClassifier(set, cfg.(*Config), next, clock.System{})
	if err != nil {
		return nil, err
	}
	i.add(p)
	return p, nil
}
