package otelllm

import (
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/agentrun"
	"github.com/otelllm/otelllm-go/otelllm/internal/httpcall"
	"github.com/otelllm/otelllm-go/otelllm/internal/inferred"
	"github.com/otelllm/otelllm-go/otelllm/internal/kinship"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// The type of an option says what it applies to: code that passes an option to something
// that it has no effect on does not compile.
type (
	// Option configures an [Instrumentation]: what it records everywhere.
	Option interface{ applyInstrumentation(*config) }
	// TransportOption configures a [Transport].
	TransportOption interface{ applyTransport(*config) }
	// HandlerOption configures the handler of [NewHandler].
	HandlerOption interface{ applyHandler(*config) }
	// RunOption configures a [Run].
	RunOption interface{ applyRun(*config) }

	// CommonOption applies to everything that is recorded.
	CommonOption interface {
		Option
		TransportOption
		HandlerOption
		RunOption
	}
	// CallOption applies to model calls, not to runs.
	CallOption interface {
		Option
		TransportOption
		HandlerOption
	}
)

// option implements all option types. The type that a function returns says where the
// option has an effect.
type option func(*config)

func (o option) applyInstrumentation(c *config) { o(c) }
func (o option) applyTransport(c *config)       { o(c) }
func (o option) applyHandler(c *config)         { o(c) }
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
	inferred       bool           // runs are inferred
	limits         kinship.Config // of the runs that are inferred
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
	r := record.Config{Events: c.events, Verdicts: c.verdicts, Live: &i.open, Histories: &i.histories, Latest: telemetry.LatestConventions()}
	telemetry.Guard(func() { r.Meters = record.NewMeters(c.meterProvider, r.Latest) })
	return r
}

// source returns what infers the runs of requests, or nil.
func (c *config) source(i *Instrumentation) *inferred.Source {
	if !c.inferred {
		return nil
	}
	return &inferred.Source{
		Runs: &i.inferred, Limits: c.limits,
		Run: agentrun.Config{TracerProvider: c.tracerProvider, Verdicts: c.verdicts, Live: &i.open},
	}
}

// WithTracerProvider sets the provider that spans are created with. Without it, or with
// nil, it is the provider of the span in the context, or the global one if the context has
// no span.
func WithTracerProvider(provider trace.TracerProvider) CommonOption {
	return option(func(c *config) {
		if provider != nil {
			c.tracerProvider = provider
		}
	})
}

// WithoutEvents leaves out the span events, which record when each fact was observed. The
// facts themselves are attributes.
func WithoutEvents() CallOption {
	return option(func(c *config) { c.events = false })
}

// WithVerdicts writes the live diagnosis onto the spans, so that it can be read without a
// Collector: on every run's span, and on the spans of requests and tools that failed. The
// verdict on a request rests on what came before it. Given to a transport or a handler, it
// applies to the runs of its requests too. llm.classification.trigger is
// "client" on these spans; the Collector's processor replaces the verdict by one that has
// seen more.
func WithVerdicts() CommonOption {
	return option(func(c *config) { c.verdicts = true })
}

// WithStreamErrors returns a [*StreamError] to the reader of a stream that broke off,
// where the SDK would show a whole answer. It changes what the reader gets. Use it if the
// SDK does not look for the protocol's terminal event.
func WithStreamErrors() TransportOption {
	return option(func(c *config) { c.streamErrors = true })
}

// WithWatchdog ends calls that take too long. See [Watchdog] for what is watched, and
// [DefaultWatchdog] for good limits.
func WithWatchdog(w Watchdog) TransportOption {
	return option(func(c *config) { c.watchdog = w })
}

// WithPropagators sets how trace context travels with requests. A [Transport] sends it
// with every request; without this option, or with nil, it sends none, since a provider
// has no use for it. Use it for the client of your own gateway. [NewHandler] reads it from
// the requests that it serves, by the global propagator without this option. Nothing is
// removed from a request: a proxy has to delete the trace context of its own client
// itself.
func WithPropagators(p propagation.TextMapPropagator) interface {
	TransportOption
	HandlerOption
} {
	return option(func(c *config) { c.propagator = p })
}

// WithMeterProvider sets the provider of the metrics: the GenAI conventions' client
// instruments gen_ai.client.operation.duration, .time_to_first_chunk and
// .time_per_output_chunk in seconds, and gen_ai.client.token.usage. If
// OTEL_SEMCONV_STABILITY_OPT_IN has gen_ai_latest_experimental, they are those of 0.1.0:
// gen_ai.client.inference.duration, .time_to_first_chunk and .time_per_output_chunk, and
// counters of tokens, gen_ai.client.inference.usage.*.
//
// Without the option, or with nil, it is the global provider. On the duration, error.type
// names a failure, llm.watchdog.kind says that a watchdog ended the call, and
// llm.abort.source, without an error.type, that this side ended it on purpose. The metrics
// cover calls that are not sampled, too, and none that a gateway serves.
func WithMeterProvider(provider metric.MeterProvider) interface {
	Option
	TransportOption
} {
	return option(func(c *config) { c.meterProvider = provider })
}

// WithProviderName sets gen_ai.provider.name, in place of what the host and the protocol
// say, or what packages otelllm/manual, otelllm/realtime and otelllm/responses are given:
// for clients of a gateway. An empty name changes nothing.
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

	ProtocolGeminiInteractions   Protocol = "gemini_interactions"
	ProtocolCohereChat           Protocol = "cohere_chat"
	ProtocolMistralConversations Protocol = "mistral_conversations"
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
func WithProtocol(p Protocol) interface {
	TransportOption
	HandlerOption
} {
	return option(func(c *config) {
		known, ok := wire.ByName(string(p))
		if !ok {
			otel.Handle(fmt.Errorf("otelllm: WithProtocol: unknown protocol %q; use one of the Protocol constants, such as ProtocolOpenAIChat", p))
			return
		}
		c.recogniser.Protocol = known
	})
}

// InferredRuns says how long an inferred run waits for its next request. A wait that is not
// positive is the default. The run ends at its last request, not at the end of the wait;
// its span is exported at the end of the wait.
type InferredRuns struct {
	// RetryWait is how long a run whose last request failed waits for a further attempt; 2
	// minutes by default. It has to be longer than the pauses between the attempts of the
	// agent. An attempt that comes later begins a run of its own.
	RetryWait time.Duration
	// OutputWait is how long a run whose last answer has tool calls waits for the request
	// with their outputs; 30 minutes by default. It has to be longer than the tools and the
	// people who approve them take. A request that comes later begins a run of its own, and
	// nothing is said of the run that waited, unless an output was lost.
	OutputWait time.Duration
	// RepeatWait is how long a run that has its answer waits for the same request again, which
	// is a further attempt of a client that did not take the answer; 10 seconds by default. Only
	// a run whose client is known to be the same waits: it sends an id of its conversation, or
	// OneAgent is set.
	RepeatWait time.Duration
	// OneAgent declares that one agent makes all model calls. Its requests then need no id of a
	// conversation to be found again after a change of the protocol, of the offered tools or of
	// the instructions.
	OneAgent bool
}

// WithInferredRuns sets how long inferred runs wait. [NewTransport] describes these runs.
// The transports and handlers of an [Instrumentation] share them, so the option applies to
// [New] alone.
func WithInferredRuns(r InferredRuns) Option {
	return option(func(c *config) {
		d := kinship.DefaultConfig()
		c.limits.Settle, c.limits.Idle, c.limits.Repeat, c.limits.Alone = d.Settle, d.Idle, d.Repeat, r.OneAgent
		if r.RetryWait > 0 {
			c.limits.Settle = r.RetryWait
		}
		if r.OutputWait > 0 {
			c.limits.Idle = r.OutputWait
		}
		if r.RepeatWait > 0 {
			c.limits.Repeat = r.RepeatWait
		}
	})
}

// WithoutInferredRuns records requests outside of a run of [StartRun] as they are, without a
// run around them. Their retries are judged one by one, and nothing is said of the agent's
// run. [NewTransport], [NewHandler] and package otelllm/responses infer runs otherwise. Packages
// otelllm/manual and
// otelllm/realtime never do.
func WithoutInferredRuns() CallOption {
	return option(func(c *config) { c.inferred = false })
}

// WithConversationID records the conversation that a run belongs to. An id that is not at
// most 128 bytes of [A-Za-z0-9_.:/-], or that looks like a credential, is recorded as a
// hash, which is the same wherever the id appears.
func WithConversationID(id string) RunOption {
	return option(func(c *config) { c.conversationID = wire.SafeID(id) })
}

// WithToolsRecorded declares that every tool that the run, or a run within it, executes is
// recorded by [StartTool]. Then a call without a recorded execution is known not to have
// been executed, and may be safe to repeat. Without this option the same is assumed from
// the first recorded tool of the run on. A run that records no tool, and does not declare
// this, says nothing about its tools.
func WithToolsRecorded() RunOption {
	return option(func(c *config) { c.toolsRecorded = true })
}
