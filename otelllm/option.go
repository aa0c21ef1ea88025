package otelllm

import (
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// Option configures a [Transport], and whatever else records requests: a handler
// ([NewHandler]), a [Realtime] session, a [Request] of another transport. What an
// option does not apply to ignores it.
type Option interface{ applyTransport(*config) }

// RunOption configures a [Run].
type RunOption interface{ applyRun(*agentrun.Config) }

// CommonOption configures a [Transport] or a [Run].
type CommonOption interface {
	Option
	RunOption
}

type config struct {
	tracerProvider trace.TracerProvider // nil: see [WithTracerProvider]
	meterProvider  metric.MeterProvider // nil: the global one
	record         record.Config
	recogniser     httpcall.Recogniser
	streamErrors   bool
	watchdog       Watchdog
	propagator     propagation.TextMapPropagator // nil: nothing is sent
}

// newConfig is the configuration that opts make.
func newConfig(opts []Option) config {
	c := config{record: record.Config{Events: true, Live: &open}}
	for _, o := range opts {
		if o != nil {
			o.applyTransport(&c)
		}
	}
	telemetry.Guard(func() { c.record.Meters = record.NewMeters(c.meterProvider) })
	return c
}

type optionFunc func(*config)

func (f optionFunc) applyTransport(c *config) { f(c) }

type runOptionFunc func(*agentrun.Config)

func (f runOptionFunc) applyRun(c *agentrun.Config) { f(c) }

type tracerProviderOption struct{ provider trace.TracerProvider }

func (o tracerProviderOption) applyTransport(c *config) {
	if o.provider != nil {
		c.tracerProvider = o.provider
	}
}

func (o tracerProviderOption) applyRun(c *agentrun.Config) {
	if o.provider != nil {
		c.TracerProvider = o.provider
	}
}

// WithTracerProvider says where spans go. Without it, or with nil, they go to the
// provider of the span in the context, and without one to the global provider.
func WithTracerProvider(provider trace.TracerProvider) CommonOption {
	return tracerProviderOption{provider}
}

// WithoutEvents leaves the events off the spans, which hold the times at which the facts
// were observed. The facts themselves are attributes.
func WithoutEvents() Option {
	return optionFunc(func(c *config) { c.record.Events = false })
}

type verdictsOption struct{}

func (verdictsOption) applyTransport(c *config) { c.record.Verdicts = true }

func (verdictsOption) applyRun(c *agentrun.Config) { c.Verdicts = true }

// WithVerdicts writes the live diagnosis onto the spans, so that it can be read
// without a Collector: on a run's span always, on the spans of its requests and
// tools where they failed. Given to a transport it is about the transport's
// requests. The verdict on a request rests on what came before it; on every span
// llm.classification.trigger is "client", and the Collector's processor replaces
// what stands beside it by a verdict that saw more.
func WithVerdicts() CommonOption { return verdictsOption{} }

// WithStreamErrors makes a stream that broke off an error, a [*StreamError], where
// its SDK would show a whole answer. It changes what the reader of the stream
// gets: opt-in for applications whose SDK does not look for the protocol's last
// word.
func WithStreamErrors() Option {
	return optionFunc(func(c *config) { c.streamErrors = true })
}

// WithWatchdog ends calls that take too long; see [Watchdog] for what is watched,
// and [DefaultWatchdog] for good limits. It applies to a [Transport] only.
func WithWatchdog(w Watchdog) Option {
	return optionFunc(func(c *config) { c.watchdog = w })
}

// WithPropagators says that trace context is sent with the requests, by p. Without
// it, and with nil, none is: a provider has no use for it. Give it to the client
// of a gateway of one's own, and to the gateway's [NewHandler], which reads trace
// context by the global propagator where it is given none. Nothing is removed from
// a request: a proxy deletes the trace context of its own client itself.
func WithPropagators(p propagation.TextMapPropagator) Option {
	return optionFunc(func(c *config) { c.propagator = p })
}

// WithMeterProvider says where metrics go: the GenAI conventions' client
// instruments, gen_ai.client.operation.duration, .time_to_first_chunk and
// .time_per_output_chunk in seconds, and gen_ai.client.token.usage. Without it, or
// with nil, they go to the global provider. On the duration error.type tells a
// failure, llm.watchdog.kind beside it that a watchdog ended the call, and
// llm.abort.source, without an error.type, that this side did on purpose. Sampling
// leaves nothing out of them.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return optionFunc(func(c *config) { c.meterProvider = provider })
}

// WithProvider is for gateways. Name, where it is not empty, is recorded as
// gen_ai.provider.name instead of what host and protocol tell. Protocol, where it
// is not empty, is the wire protocol of every POST of JSON whose path tells none, or
// one of which it is no proof, as /v1/messages, /v1/responses and /api/chat:
// "openai_chat", "openai_responses", "anthropic_messages", "gemini",
// "bedrock_converse", "ollama" or "openai_completions". What the path tells stands on
// the hosts of providers, where Anthropic's version header proves it, and where the
// body is a call of that protocol and not of the one given here; a path that is proof,
// as /v1/chat/completions, gives way only to a body that is a call of the one given here
// alone. Give a protocol only to a client that makes no other calls. An unknown protocol
// is reported to the OpenTelemetry error handler and otherwise ignored.
func WithProvider(name, protocol string) Option {
	return optionFunc(func(c *config) {
		if name != "" {
			c.recogniser.Provider = spanfacts.Bound(name)
		}
		if protocol == "" {
			return
		}
		p, ok := wire.ByName(protocol)
		if !ok {
			otel.Handle(fmt.Errorf("otelllm: WithProvider: unknown protocol %q; use openai_chat, openai_responses, anthropic_messages, gemini, bedrock_converse, ollama or openai_completions", protocol))
			return
		}
		c.recogniser.Protocol = p
	})
}

// WithConversationID records the conversation that a run belongs to. An id of more
// than 128 bytes of [A-Za-z0-9_.:/-], or one that looks like a credential, is recorded
// as a hash of it, the same wherever it appears.
func WithConversationID(id string) RunOption {
	return runOptionFunc(func(c *agentrun.Config) { c.ConversationID = wire.SafeID(id) })
}

// WithToolsRecorded says that every tool that the run executes is recorded by
// [StartTool], in the runs within it too. Then a call that has no execution is known not
// to have been executed, and may be safe to repeat, also before the first tool of the
// run: from that one on it is taken to be so without this option. A run that records no
// tool, and does not say this, says nothing about its tools.
func WithToolsRecorded() RunOption {
	return runOptionFunc(func(c *agentrun.Config) { c.ToolsRecorded = true })
}
