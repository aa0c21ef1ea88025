package otelllm

import (
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// What each option applies to is its type: an option that would have no effect on what it
// is given to does not compile.
type (
	// Option configures an [Instrumentation]: what it records everywhere.
	Option interface{ applyInstrumentation(*config) }
	// TransportOption configures a [Transport].
	TransportOption interface{ applyTransport(*config) }
	// HandlerOption configures the handler of [NewHandler].
	HandlerOption interface{ applyHandler(*config) }
	// RequestOption configures a [Request] or a [Realtime] session.
	RequestOption interface{ applyRequest(*config) }
	// RunOption configures a [Run].
	RunOption interface{ applyRun(*config) }

	// CommonOption applies to everything that is recorded.
	CommonOption interface {
		Option
		TransportOption
		HandlerOption
		RequestOption
		RunOption
	}
	// CallOption applies to model calls, not to runs.
	CallOption interface {
		Option
		TransportOption
		HandlerOption
		RequestOption
	}
	// ClientOption applies to model calls that this process makes.
	ClientOption interface {
		Option
		TransportOption
		RequestOption
	}
	// HTTPOption applies to model calls over HTTP.
	HTTPOption interface {
		TransportOption
		HandlerOption
	}
)

// option is what all of them are. The type that a function returns says where the option
// has an effect.
type option func(*config)

func (o option) applyInstrumentation(c *config) { o(c) }
func (o option) applyTransport(c *config)       { o(c) }
func (o option) applyHandler(c *config)         { o(c) }
func (o option) applyRequest(c *config)         { o(c) }
func (o option) applyRun(c *config)             { o(c) }

type config struct {
	tracerProvider trace.TracerProvider // nil: see [WithTracerProvider]
	meterProvider  metric.MeterProvider // nil: the global one
	events         bool
	verdicts       bool
	recogniser     httpcall.Recogniser
	propagator     propagation.TextMapPropagator // nil: nothing is sent
	streamErrors   bool
	watchdog       Watchdog
	conversationID string
	toolsRecorded  bool
}

// configure returns the configuration of i, with opts applied. Nil options are left out.
func configure[O any](i *Instrumentation, opts []O, apply func(O, *config)) *config {
	c := i.config
	for _, o := range opts {
		if any(o) != nil {
			apply(o, &c)
		}
	}
	return &c
}

// recorder returns the configuration of the recorders of i.
func (c *config) recorder(i *Instrumentation) record.Config {
	r := record.Config{Events: c.events, Verdicts: c.verdicts, Live: &i.open}
	telemetry.Guard(func() { r.Meters = record.NewMeters(c.meterProvider) })
	return r
}

// WithTracerProvider says where spans go. Without it, or with nil, they go to the
// provider of the span in the context, and without one to the global provider.
func WithTracerProvider(provider trace.TracerProvider) CommonOption {
	return option(func(c *config) {
		if provider != nil {
			c.tracerProvider = provider
		}
	})
}

// WithoutEvents leaves the events off the spans, which hold the times at which the facts
// were observed. The facts themselves are attributes.
func WithoutEvents() CallOption {
	return option(func(c *config) { c.events = false })
}

// WithVerdicts writes the live diagnosis onto the spans, so that it can be read
// without a Collector: on a run's span always, on the spans of its requests and
// tools where they failed. Given to a transport it is about the transport's
// requests, given to an [Instrumentation] about everything. The verdict on a request rests on what came before it; on every span
// llm.classification.trigger is "client", and the Collector's processor replaces
// what stands beside it by a verdict that saw more.
func WithVerdicts() CommonOption {
	return option(func(c *config) { c.verdicts = true })
}

// WithStreamErrors makes a stream that broke off an error, a [*StreamError], where
// its SDK would show a whole answer. It changes what the reader of the stream
// gets: opt-in for applications whose SDK does not look for the protocol's last
// word.
func WithStreamErrors() TransportOption {
	return option(func(c *config) { c.streamErrors = true })
}

// WithWatchdog ends calls that take too long; see [Watchdog] for what is watched,
// and [DefaultWatchdog] for good limits.
func WithWatchdog(w Watchdog) TransportOption {
	return option(func(c *config) { c.watchdog = w })
}

// WithPropagators says that trace context is sent with the requests, by p. Without
// it, and with nil, none is: a provider has no use for it. Give it to the client
// of a gateway of one's own, and to the gateway's [NewHandler], which reads trace
// context by the global propagator where it is given none. Nothing is removed from
// a request: a proxy deletes the trace context of its own client itself.
func WithPropagators(p propagation.TextMapPropagator) HTTPOption {
	return option(func(c *config) { c.propagator = p })
}

// WithMeterProvider says where metrics go: the GenAI conventions' client
// instruments, gen_ai.client.operation.duration, .time_to_first_chunk and
// .time_per_output_chunk in seconds, and gen_ai.client.token.usage. Without it, or
// with nil, they go to the global provider. On the duration error.type tells a
// failure, llm.watchdog.kind beside it that a watchdog ended the call, and
// llm.abort.source, without an error.type, that this side did on purpose. Sampling
// leaves nothing out of them.
func WithMeterProvider(provider metric.MeterProvider) ClientOption {
	return option(func(c *config) { c.meterProvider = provider })
}

// WithProviderName sets gen_ai.provider.name, in place of what the host and the protocol
// say: for clients of a gateway. An empty name changes nothing.
func WithProviderName(name string) CallOption {
	return option(func(c *config) {
		if name != "" {
			c.recogniser.Provider = spanfacts.Bound(name)
		}
	})
}

// Protocol is a wire protocol of model calls over HTTP.
type Protocol string

// Protocols.
const (
	ProtocolOpenAIChat        Protocol = "openai_chat"        // Chat Completions
	ProtocolOpenAIResponses   Protocol = "openai_responses"   // Responses
	ProtocolOpenAICompletions Protocol = "openai_completions" // the legacy Completions
	ProtocolAnthropicMessages Protocol = "anthropic_messages"
	ProtocolGemini            Protocol = "gemini"
	ProtocolBedrockConverse   Protocol = "bedrock_converse"
	ProtocolOllama            Protocol = "ollama" // its own API, not that of OpenAI
)

// WithProtocol sets the protocol of every POST of JSON whose path does not prove one: for
// gateways with paths of their own. Paths such as /v1/messages, /v1/responses and /api/chat
// suggest a protocol and prove none. What such a path suggests still counts on the hosts of
// providers, where Anthropic's version header proves it, and where the body is a call of
// that protocol and not of p. A path that proves its protocol, such as
// /v1/chat/completions, gives way only to a body that is a call of p alone.
//
// Use it only for a client, or a gateway, that handles no other calls. A protocol that is
// not one of the constants is reported to the OpenTelemetry error handler and ignored.
func WithProtocol(p Protocol) HTTPOption {
	return option(func(c *config) {
		known, ok := wire.ByName(string(p))
		if !ok {
			otel.Handle(fmt.Errorf("otelllm: WithProtocol: unknown protocol %q; use one of the Protocol constants, such as ProtocolOpenAIChat", p))
			return
		}
		c.recogniser.Protocol = known
	})
}

// WithConversationID records the conversation that a run belongs to. An id of more
// than 128 bytes of [A-Za-z0-9_.:/-], or one that looks like a credential, is recorded
// as a hash of it, the same wherever it appears.
func WithConversationID(id string) RunOption {
	return option(func(c *config) { c.conversationID = wire.SafeID(id) })
}

// WithToolsRecorded says that every tool that the run executes is recorded by
// [StartTool], in the runs within it too. Then a call that has no execution is known not
// to have been executed, and may be safe to repeat, also before the first tool of the
// run: from that one on it is taken to be so without this option. A run that records no
// tool, and does not say this, says nothing about its tools.
func WithToolsRecorded() RunOption {
	return option(func(c *config) { c.toolsRecorded = true })
}
