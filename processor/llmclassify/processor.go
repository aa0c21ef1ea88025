package llmclassify

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/processor"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// classifier is the processor. Its calls recognise LLM spans and hand them over to the
// shards of their traces, which do the rest.
type classifier struct {
	*shared
	id        component.ID
	instances *instances // this one among them
	registry  *dialect.Registry
	tenants   *tenants
	callers   *origin.Callers
	shards    shards

	calls gate // the calls of ConsumeTraces that hand something over to shards
	stop  context.CancelFunc
	quit  chan struct{}
	done  sync.WaitGroup
	once  sync.Once
}

var _ processor.Traces = (*classifier)(nil)

func newClassifier(set processor.Settings, cfg *Config, next consumer.Traces, c clock) (*classifier, error) {
	t, err := newTelemetry(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	registry, err := dialect.NewSet(cfg.Dialects...)
	if err != nil {
		return nil, fmt.Errorf("dialects: %w", err)
	}
	p := &classifier{
		shared:   newShared(cfg, next, c, set.Logger, t),
		id:       set.ID,
		registry: registry,
		callers:  origin.NewCallers(cfg.MetadataKeys),
		quit:     make(chan struct{}),
	}
	p.tenants = newTenants(cfg, &p.budget)
	shards := cfg.Shards
	if shards == 0 {
		shards = runtime.GOMAXPROCS(0)
	}
	for range shards {
		p.shards = append(p.shards, newShard(p.shared, shards))
	}
	newInstances().add(p) // a factory adds it to its own
	return p, t.observe(set.TelemetrySettings, p.load, p.tables, p.origins.Bytes)
}

// load is what the processor holds now.
func (p *classifier) load() (l load) {
	for _, s := range p.shards {
		for lane := range s.all {
			l.traces += int(lane.traces.Load())
			l.factBytes += int(lane.factBytes.Load())
			l.evidence += int(lane.evidenceBytes.Load())
		}
	}
	l.bytes = int(p.budget.used.Load())
	return l
}

// tables is what is kept of runs that were judged, and of calls that were refused.
func (p *classifier) tables() (sizes tableSizes) {
	for _, s := range p.shards {
		for l := range s.all {
			sizes[judgedTable] += int(l.judgedBytes.Load())
			sizes[historyTable] += int(l.historyBytes.Load())
		}
	}
	return sizes
}

// Capabilities implements consumer.Traces.
func (*classifier) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}
