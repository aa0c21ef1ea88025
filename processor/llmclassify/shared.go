package llmclassify

import (
	"go.opentelemetry.io/collector/consumer"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
)

// shared is what the calls of ConsumeTraces and the shards have in common. It is safe
// for concurrent use.
type shared struct {
	cfg       *Config
	next      consumer.Traces
	clock     clock
	logger    *zap.Logger
	telemetry *telemetry
	health    *health
	store     *store
	budget    budget
	live      liveTraces
	origins   *origin.Table
	lifetime  trace.Lifetime
	limits    trace.Limits // zero but in tests
}

func newShared(cfg *Config, next consumer.Traces, c clock, logger *zap.Logger, t *telemetry) *shared {
	h := new(health)
	return &shared{
		cfg: cfg, next: next, clock: c, logger: logger, telemetry: t, health: h,
		store:    &store{health: h, telemetry: t, logger: logger},
		origins:  origin.NewTable(cfg.MaxHold, cfg.MaxHeldBytes/16),
		lifetime: trace.Lifetime{Embedded: cfg.Embedded, Period: cfg.RunTimeout},
		budget:   budget{limit: int64(cfg.MaxHeldBytes), tenants: cfg.hasTenants()},
	}
}
