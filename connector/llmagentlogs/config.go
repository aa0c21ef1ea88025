package llmagentlogs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/otelllm/otelllm-go/connector/llmagentlogs/internal/agentlog"
)

// Defaults of [Config].
const (
	defaultSettle   = time.Second
	defaultQuiet    = 2 * time.Minute
	defaultMaxAge   = 30 * time.Minute
	defaultMaxBytes = 64 << 20
)

// minBytes is the least that MaxBytes may be.
const minBytes = 64 << 10

// Config configures the connector llm_agent_logs.
type Config struct {
	// Agents are the agents whose records are read: codex, claude_code, gemini_cli. Default none, which means all.
	Agents []string `mapstructure:"agents"`

	// Settle is how long records wait for others of the same conversation that happened before them and arrive later.
	// Default 1s.
	Settle time.Duration `mapstructure:"settle"`

	// Quiet is how long after its last record a turn counts as over, if nothing is known to go on: its last request failed,
	// or its response is known to be the answer, in a session that asks for no approval. It must be longer than the agents
	// wait between their attempts. At least Settle. Default 2m.
	Quiet time.Duration `mapstructure:"quiet"`

	// MaxAge is how long after its last record a conversation is forgotten. An open turn ends then. At least Quiet. Default
	// 30m.
	MaxAge time.Duration `mapstructure:"max_age"`

	// MaxBytes bounds the memory of open conversations, in bytes as this connector estimates them. Spans that wait to be
	// forwarded have as much again, at most. At the bound, the service with the most memory loses the conversations that
	// were silent for longest. One conversation may use a sixteenth of the bound. Default 67108864 (64 MiB).
	MaxBytes int `mapstructure:"max_bytes"`

	// JoinTraces puts the spans of a turn into the trace that the record of its prompt names, beneath the agent's own
	// spans. A processor that reads the agent's spans takes both for one run. If it is false, each turn has a trace of its
	// own. Default true.
	JoinTraces bool `mapstructure:"join_traces"`
}

var _ component.Config = (*Config)(nil)

func createDefaultConfig() component.Config {
	return &Config{
		Settle:     defaultSettle,
		Quiet:      defaultQuiet,
		MaxAge:     defaultMaxAge,
		MaxBytes:   defaultMaxBytes,
		JoinTraces: true,
	}
}

// Validate checks each option, and that they fit together. It reports all errors.
func (c *Config) Validate() error {
	var errs []error
	for i, name := range c.Agents {
		switch {
		case !slices.Contains(agentlog.Names(), name):
			errs = append(errs, fmt.Errorf("agents must be of %q, is %q", agentlog.Names(), name))
		case slices.Contains(c.Agents[:i], name):
			errs = append(errs, fmt.Errorf("agents must be distinct: %q is not", name))
		}
	}
	if c.Settle <= 0 {
		errs = append(errs, fmt.Errorf("settle must be greater than 0, is %v", c.Settle))
	}
	if c.Quiet < c.Settle {
		errs = append(errs, fmt.Errorf("quiet (%v) must not be less than settle (%v): records still wait for others then", c.Quiet, c.Settle))
	}
	if c.MaxAge < c.Quiet {
		errs = append(errs, fmt.Errorf("max_age (%v) must not be less than quiet (%v): turns end before they are forgotten", c.MaxAge, c.Quiet))
	}
	if c.MaxBytes < minBytes {
		errs = append(errs, fmt.Errorf("max_bytes must be at least %d, is %d", minBytes, c.MaxBytes))
	}
	return errors.Join(errs...)
}

// maxMade bounds the spans that wait to be forwarded, in bytes: beyond that no more are made.
func (c *Config) maxMade() int { return c.MaxBytes / 8 }

// maxUnsent bounds the spans that wait because the next consumer refused them, in bytes.
func (c *Config) maxUnsent() int { return c.MaxBytes / 8 }
