package otelllm

import (
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// Option configures a [Transport].
type Option interface{ applyTransport(*config) }

// RunOption configures a [Run].
type RunOption interface{ applyRun(*runConfig) }

// CommonOption configures a [Transport] or a [Run].
type CommonOption interface {
	Option
	RunOption
}

type config struct {
	provider     trace.TracerProvider // nil: the one of the context's span, else the global one
	events       bool
	providerName string        // "": by host and protocol
	protocol     wire.Protocol // of requests that no path tells; nil: they pass
}

type runConfig struct {
	provider       trace.TracerProvider
	conversationID string
}

type optionFunc func(*config)

func (f optionFunc) applyTransport(c *config) { f(c) }

type runOptionFunc func(*runConfig)

func (f runOptionFunc) applyRun(c *runConfig) { f(c) }

type tracerProviderOption struct{ provider trace.TracerProvider }

func (o tracerProviderOption) applyTransport(c *config) {
	if o.provider != nil {
		c.provider = o.provider
	}
}

func (o tracerProviderOption) applyRun(c *runConfig) {
	if o.provider != nil {
		c.provider = o.provider
	}
}

// WithTracerProvider says where spans go. Without it, or with nil, they go to the
// provider of the span in the context, and without one to the global provider.
func WithTracerProvider(provider trace.TracerProvider) CommonOption {
	return tracerProviderOption{provider}
}

// WithEvents says whether spans carry events, which hold the times at which the
// facts came to be. The facts themselves are attributes. The default is true.
func WithEvents(on bool) Option {
	return optionFunc(func(c *config) { c.events = on })
}

// WithProvider is for gateways. Name, where it is not empty, is recorded as
// gen_ai.provider.name instead of what host and protocol tell. Protocol, where it
// is not empty, is the wire protocol of every POST of JSON whose path tells none:
// "openai_chat", "openai_responses" or "anthropic_messages". Give a protocol only
// to a client that makes no other calls. An unknown protocol is reported to the
// OpenTelemetry error handler and otherwise ignored.
func WithProvider(name, protocol string) Option {
	return optionFunc(func(c *config) {
		if name != "" {
			c.providerName = spanfacts.Bound(name)
		}
		if protocol == "" {
			return
		}
		p, ok := wire.ByName(protocol)
		if !ok {
			otel.Handle(fmt.Errorf("otelllm: WithProvider: unknown protocol %q; use openai_chat, openai_responses or anthropic_messages", protocol))
			return
		}
		c.protocol = p
	})
}

// WithConversationID records the conversation that a run belongs to, at most 256 bytes.
func WithConversationID(id string) RunOption {
	return runOptionFunc(func(c *runConfig) { c.conversationID = spanfacts.Bound(id) })
}
