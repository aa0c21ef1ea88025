package llmclassify

import (
	"context"
	"fmt"
	"sync"

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

// instances counts the processors of each name that one factory made: a processor that several pipelines
// name has an instance in each. It is safe for concurrent use.
type instances struct {
	mu   sync.Mutex
	made map[component.ID]int
}

func newInstances() *instances { return &instances{made: map[component.ID]int{}} }

func (i *instances) add(p *classifier) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made[p.id]++
	p.instances = i
}

func (i *instances) remove(p *classifier) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made[p.id]--
}

// openJournal opens the journal of a processor in the storage extension of its configuration. The spans of
// one pipeline must not go out by another, and no API of the Collector tells an instance its pipeline: of
// several instances of one name none starts.
func (i *instances) openJournal(ctx context.Context, p *classifier, host component.Host) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.made[p.id] > 1 {
		return fmt.Errorf("%q is in several pipelines and has a storage: name it differently in each pipeline, as in %[1]s/a and %[1]s/b", p.id)
	}
	return p.Store.Open(ctx, host, *p.cfg.Storage, p.id)
}
