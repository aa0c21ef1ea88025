package llmclassify

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/testhook"
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
	ctx context.Context,
	set processor.Settings,
	cfg component.Config,
	next consumer.Traces,
) (processor.Traces, error) {
	c, made := testhook.From(ctx)
	p, err := newClassifier(set, cfg.(*Config), next, c)
	if err != nil {
		return nil, err
	}
	i.add(p)
	made(testhook.Inside{Pool: p.Pool, Reader: p.reader, Callers: p.callers})
	return p, nil
}
