package llmclassify

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/intake"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"
)

// Defaults of [Config].
const (
	defaultMaxHold        = 30 * time.Second
	defaultSettle         = 2 * time.Second
	defaultRunTimeout     = time.Hour
	defaultMaxHeldBytes   = 256 << 20
	defaultMaxFactBytes   = 64 << 20
	defaultMaxSpansPerRun = 10_000
)

// Config configures the processor llm_classify.
type Config struct {
	// MaxHold bounds how long a span is held. A span whose run is not judged by then goes
	// out with a verdict on the spans received so far; its facts stay for the verdict on
	// the run. Default 30s.
	MaxHold time.Duration `mapstructure:"max_hold"`

	// Settle is how long a run span that does not announce how many requests and tools it
	// has waits for those that arrive after it, and how long a run with an empty response, or
	// a failed request without a parent, waits for spans that explain it. At most MaxHold.
	// Default 2s.
	Settle time.Duration `mapstructure:"settle"`

	// RunTimeout bounds how long the facts of spans that have gone out wait for their run
	// span, from the arrival of the run's last span. Then the run is judged without it, on
	// a span llm.run.abandoned. At least MaxHold. Default 1h.
	RunTimeout time.Duration `mapstructure:"run_timeout"`

	// MaxHeldBytes bounds the memory of held spans, in bytes as this processor estimates
	// them. At the bound the runs with the earliest deadlines are judged on the spans
	// received so far, and forwarded. While the next consumer fails, new spans are refused
	// instead. Default 268435456 (256 MiB).
	MaxHeldBytes int `mapstructure:"max_held_bytes"`

	// MaxFactBytes bounds the memory of the facts of spans that have gone out, in
	// bytes. Past it the oldest are forgotten. Default 67108864 (64 MiB).
	MaxFactBytes int `mapstructure:"max_fact_bytes"`

	// MaxSpansPerRun bounds how many spans of one run are held at a time, and how many of
	// one trace that name no run. At more they all go out early; their facts stay. Default
	// 10000.
	MaxSpansPerRun int `mapstructure:"max_spans_per_run"`

	// Shards is how many goroutines share the traces among them; 0 for as many as
	// GOMAXPROCS. Default 0.
	Shards int `mapstructure:"shards"`

	// IncomingVerdicts says which verdicts stay of those that come with spans; the others are
	// removed, and the spans are judged as if they had come without. "keep_client": those of
	// this project's client, on the spans of its scope, if they are complete and contradict
	// neither themselves nor the facts beside them. "strip": none. "keep": all, also on spans
	// that are no LLM spans; what an earlier llm_classify has judged gets no second verdict.
	// Default "keep_client".
	IncomingVerdicts string `mapstructure:"incoming_verdicts"`

	// MarkStatus says which spans get a status: "failed_runs" sets that of runs, requests and
	// tools that failed to ERROR, with the summary as its message, where their producer left
	// it unset; "unset" leaves all as they came. Default "failed_runs".
	MarkStatus string `mapstructure:"mark_status"`

	// Dialects are the names of the dialects that are read. Default none, which means all.
	Dialects []string `mapstructure:"dialects"`

	// Storage is the storage extension in which held spans and the facts of open runs are
	// kept, so that a crash loses none. Each pipeline that names the processor has its own
	// there. Default none: they are kept in memory only.
	Storage *component.ID `mapstructure:"storage"`

	// MetadataKeys are the keys of client metadata that stay with held spans: spans go out
	// in calls with the metadata of the calls that brought them. Case does not matter.
	// Default none.
	MetadataKeys []string `mapstructure:"metadata_keys"`

	// TenantFrom is what tells tenants apart: "metadata" for the values of MetadataKeys, or
	// the key of a resource attribute after "resource.", as in resource.service.namespace.
	// Spans of different tenants are not judged together, even if they are of one trace.
	// Tenants share memory and work fairly: each may use four fifths of what the others leave,
	// and they take turns. At most 256 tenants are told apart. Default none: all are one.
	TenantFrom string `mapstructure:"tenant_from"`

	// Embedded says that no sender outlives the processor, and that none has sent anything
	// before its start: it is a part of the program whose spans it judges, or judges a
	// recording. What is missing at its shutdown never was. Its next consumer is of the same
	// program, and refuses no spans. Programs set it; it is no option.
	Embedded bool `mapstructure:"-"`

	// OneSource says that all spans come from one process, in the order in which they end, and
	// no instrumentation in it records runs but the library. So an inferred run is no part of
	// another one, and nothing of it comes after its span. Programs set it; it is no option.
	OneSource bool `mapstructure:"-"`
}

// The values of [Config.MarkStatus].
const (
	markFailedRuns = "failed_runs"
	markUnset      = "unset"
)

// marks reports whether spans that failed get a status.
func (c *Config) marks() bool { return c.MarkStatus == markFailedRuns }

// hasTenants reports whether tenants are told apart.
func (c *Config) hasTenants() bool { return c.TenantFrom != "" }

var _ component.Config = (*Config)(nil)

func createDefaultConfig() component.Config {
	return &Config{
		MaxHold:        defaultMaxHold,
		Settle:         defaultSettle,
		RunTimeout:     defaultRunTimeout,
		MaxHeldBytes:   defaultMaxHeldBytes,
		MaxFactBytes:   defaultMaxFactBytes,
		MaxSpansPerRun: defaultMaxSpansPerRun,

		IncomingVerdicts: intake.KeepClient,
		MarkStatus:       markFailedRuns,
	}
}

// Validate checks each option, and that they fit together. It reports all errors.
func (c *Config) Validate() error {
	var errs []error
	positive := func(ok bool, option string, value any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s must be greater than 0, is %v", option, value))
		}
	}
	positive(c.MaxHold > 0, "max_hold", c.MaxHold)
	positive(c.Settle > 0, "settle", c.Settle)
	positive(c.RunTimeout > 0, "run_timeout", c.RunTimeout)
	positive(c.MaxHeldBytes > 0, "max_held_bytes", c.MaxHeldBytes)
	positive(c.MaxFactBytes > 0, "max_fact_bytes", c.MaxFactBytes)
	positive(c.MaxSpansPerRun > 0, "max_spans_per_run", c.MaxSpansPerRun)
	if c.Shards < 0 {
		errs = append(errs, fmt.Errorf("shards must not be negative, is %d", c.Shards))
	}
	switch c.IncomingVerdicts {
	case intake.KeepClient, intake.Strip, intake.Keep:
	default:
		errs = append(errs, fmt.Errorf("incoming_verdicts must be %s, %s or %s, is %q", intake.KeepClient, intake.Strip, intake.Keep, c.IncomingVerdicts))
	}
	if c.MarkStatus != markFailedRuns && c.MarkStatus != markUnset {
		errs = append(errs, fmt.Errorf("mark_status must be %s or %s, is %q", markFailedRuns, markUnset, c.MarkStatus))
	}
	if _, err := dialect.NewSet(c.Dialects...); err != nil {
		errs = append(errs, fmt.Errorf("dialects: %w", err))
	}
	seen := make(map[string]bool, len(c.MetadataKeys))
	for _, key := range c.MetadataKeys {
		lower := strings.ToLower(key)
		if key == "" || seen[lower] {
			errs = append(errs, fmt.Errorf("metadata_keys must be distinct and not empty: %q is not", key))
		}
		seen[lower] = true
	}
	key, ofResource := strings.CutPrefix(c.TenantFrom, tenant.FromResource)
	switch {
	case c.TenantFrom == "" || ofResource && key != "":
	case c.TenantFrom != tenant.FromMetadata:
		errs = append(errs, fmt.Errorf("tenant_from must be %q, or %q and the key of a resource attribute, is %q",
			tenant.FromMetadata, tenant.FromResource, c.TenantFrom))
	case len(c.MetadataKeys) == 0:
		errs = append(errs, fmt.Errorf("tenant_from %q needs metadata_keys: tenants are told apart by their values", tenant.FromMetadata))
	}
	if c.Settle > c.MaxHold {
		errs = append(errs, fmt.Errorf("settle (%v) must not be greater than max_hold (%v): no span is held longer than that", c.Settle, c.MaxHold))
	}
	if c.RunTimeout < c.MaxHold {
		errs = append(errs, fmt.Errorf("run_timeout (%v) must not be less than max_hold (%v): facts wait after their spans have gone out", c.RunTimeout, c.MaxHold))
	}
	return errors.Join(errs...)
}
