package otelllm

import (
	"net/http"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/client"
	"github.com/otelllm/otelllm-go/otelllm/internal/watchdog"
	"github.com/otelllm/otelllm-go/semconv"
)

// Transport is an http.RoundTripper that records model calls. It passes every other
// request through untouched. It does the same with model calls while nothing would be
// recorded: no TracerProvider is set, no run is open, no metrics are kept, and no option
// asks for more than recording. It is safe for concurrent use.
//
// Every attempt becomes one span of kind CLIENT, `chat {model}`. The span ends when the
// response's body has been read to its end, has failed or is closed. If a body is never
// read to its end or closed, its span ends when the body is garbage collected. If one
// Transport wraps another, the outer one records, and only its options count.
//
// # Inferred runs
//
// Outside of a run of [StartRun] the Transport infers the runs of the agent that uses it.
// Consecutive requests of a conversation prove that they belong together: by ids that the
// client sends, by the ids of earlier responses and calls, or by a history that repeats or
// extends the one before. Where the bytes may be read in two ways, nothing is joined. The
// first request opens a span `invoke_agent {agent}` with llm.run.inferred, which is the
// parent of the requests. Agent is the product that the User-Agent names, or "agent".
// Further attempts are numbered. A tool whose output a request has becomes a span
// `execute_tool {tool}` with llm.tool.observed "history".
//
// A run ends with an answer that has no tool calls. After a failure it waits for a further
// attempt, and after an answer with calls for their outputs: see [InferredRuns]. So its span
// may be exported later than those of its requests; [Shutdown] ends what waits. The sampler
// decides about the run, and so about the requests beneath it.
//
// A request whose body is not in memory, see [NewTransport], has no parent in the run: it
// names the run (llm.run.id) and has a link to it. A request under a span that the run did
// not begin under stays there, and names the run. No run is inferred for a request whose
// body is too long to be read (32 MiB in memory, otherwise 8 MiB, as well if it is
// compressed), or compressed in another way than gzip, deflate, br or zstd, that
// continues a conversation of Mistral's or asks for a compaction of OpenAI's, whose
// context is that of a request that [NewHandler] serves, whose parent is not sampled, or
// whose parent in this process is the span of an agent's run already.
//
// For this the Transport keeps hashes of messages, with a random key of the process, and
// the ids and names of calls, in memory only: of at most 10,000 conversations and 16 MiB
// for all Transports and handlers of an [Instrumentation]. Those that were quiet for
// longest go first. [WithoutInferredRuns] switches it off.
type Transport struct{ transport client.Transport }

// NewTransport wraps base, or http.DefaultTransport if base is nil.
//
// It reads the request's body for the model, for the ids in the history, and for what says
// which run it belongs to. A body in memory of a kind that http.NewRequest knows is read in
// place, before it is sent, so that samplers see the model. Those of the SDKs of OpenAI,
// Anthropic and Google are of such a kind. Any other body is read while it is sent, up to
// 8 MiB. NewTransport never calls GetBody. It reads the response's body as the consumer
// reads it.
func NewTransport(base http.RoundTripper, opts ...TransportOption) *Transport {
	return global.NewTransport(base, opts...)
}

// NewTransport is [NewTransport] with the options of i.
func (i *Instrumentation) NewTransport(base http.RoundTripper, opts ...TransportOption) *Transport {
	if base == nil {
		base = http.DefaultTransport
	}
	c := configure(i, opts, TransportOption.applyTransport)
	t := &Transport{client.Transport{Base: base, Config: client.Config{
		Record:         c.recorder(i),
		Recogniser:     c.recogniser,
		Propagator:     c.propagator,
		TracerProvider: c.tracerProvider,
		Inferred:       c.source(i),
		Watchdog:       watchdog.Limits(c.watchdog),
		WatchdogError: func(kind semconv.WatchdogKind, limit time.Duration) error {
			return &WatchdogError{Kind: kind, Limit: limit}
		},
	}}}
	if c.streamErrors {
		t.transport.Config.StreamError = func(d classify.Diagnosis, err error) error {
			return &StreamError{Diagnosis: d, err: err}
		}
	}
	return t
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper. It neither changes nor keeps req.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.transport.RoundTrip(req)
}

// CloseIdleConnections closes the idle connections of the transport below, if
// it has them: http.Client.CloseIdleConnections finds it here.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.transport.Base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}
