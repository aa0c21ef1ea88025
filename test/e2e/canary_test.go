package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/manual"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/acceptance"
	"github.com/otelllm/otelllm-go/test/internal/agent"
)

// The places from which nothing may be exported. Each canary names its place.
var places = []string{
	"prompt", "text", "reasoning", "refusal", "tool-arguments", "tool-result", "tool-error", "delivery-error",
	"api-key", "request-header", "response-header", "url-query", "provider-message", "provider-message-in-band", "provider-code",
	"html-page", "not-json", "own-error", "own-code",
}

func canary(place string) string { return "cAnArY-" + place + "-7f3a" }

// keys are credentials in their usual formats. None was ever valid. A provider that
// repeats the key that it refused may put it anywhere.
var keys = []string{
	"s" + "k-9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0uXoQiBkFzCvMnSr",
	"s" + "k-ant-api03-bN8sWc1YhJ6dGp3TeA0uXoQiBkFzCvMnSr9fKq2LmZx7",
	"AIza" + "SyB3fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3Te",
	"ghp_" + "9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0uXo",
	"eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
	"fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0",
}

// wiretap keeps every byte that crosses the network, so that the test can check that
// every canary was really sent.
type wiretap struct {
	mu   sync.Mutex
	seen bytes.Buffer // guarded by mu
}

// Write appends p.
func (w *wiretap) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.Write(p)
}

func (w *wiretap) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.String()
}

func (w *wiretap) around(base http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		out, err := httputil.DumpRequestOut(req, true)
		if err != nil {
			return nil, err
		}
		_, _ = w.Write(out)
		resp, err := base.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		head, err := httputil.DumpResponse(resp, false)
		if err != nil {
			return nil, err
		}
		_, _ = w.Write(head)
		if resp.StatusCode == http.StatusSwitchingProtocols { // the body is the connection
			return resp, nil
		}
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(resp.Body, w), resp.Body}
		return resp, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// planted returns cases with a canary in every place.
func planted(tap *wiretap) []acceptance.Case {
	tooling := errors.New(canary("tool-error"))
	plant := func(s *acceptance.Setup) {
		s.Prompt = canary("prompt")
		s.APIKey = "sk-" + canary("api-key")
		s.Headers = map[string]string{"X-Canary": canary("request-header")}
		s.Query = map[string]string{"key": canary("url-query")}
		s.Wrap = tap.around
		// Use every option that writes something derived from the stream.
		s.Options = []otelllm.TransportOption{otelllm.WithStreamErrors(), otelllm.WithVerdicts()}
		s.SessionOptions = []otelllm.Option{otelllm.WithVerdicts()}
		s.Agent.Options = []otelllm.RunOption{otelllm.WithVerdicts()}
		s.Agent.Tools = []agent.Tool{
			{Name: "fetch", Effect: otelllm.EffectNonIdempotent, Do: func(context.Context, string) (string, error) { return canary("tool-result"), nil }},
			{Name: "break", Effect: otelllm.EffectNonIdempotent, Do: func(context.Context, string) (string, error) { return "", tooling }},
		}
	}
	arguments := []string{`{"q":"`, canary("tool-arguments"), `"}`}
	header := func(e faultyllm.Exchange) faultyllm.Exchange { return e.With("X-Answer", canary("response-header")) }
	says := []faultyllm.Step{faultyllm.Reasoning(canary("reasoning")), faultyllm.Text(canary("text"))}
	answer := func(steps ...faultyllm.Step) faultyllm.Exchange {
		return header(faultyllm.Answer(append(slices.Clip(says), steps...)...))
	}
	failure := faultyllm.Failure{Trouble: faultyllm.ServerError, Message: canary("provider-message"), Code: "is " + canary("provider-code")}
	inBand := failure
	inBand.Message = canary("provider-message-in-band")

	var cases []acceptance.Case
	for _, w := range faultyllm.Wires() {
		for _, stream := range []bool{true, false} {
			for i, script := range [][]faultyllm.Exchange{
				{ // complete: tools that succeed and fail, then an answer
					answer(
						faultyllm.ToolCall("call_1", "fetch", arguments...), faultyllm.ToolCall("call_2", "break", arguments...),
						faultyllm.Finish(faultyllm.ToolCalls)),
					answer(faultyllm.Finish(faultyllm.Stop)),
				},
				{answer(faultyllm.ToolInput("call_1", "fetch", arguments...), faultyllm.Reset())},
				{answer(faultyllm.ToolInput("call_1", "break", arguments...), faultyllm.CleanEnd(), faultyllm.Finish(faultyllm.Stop))},
				{answer(faultyllm.InBand(inBand))},
				{header(faultyllm.Refuse(failure))},
				{header(faultyllm.Answer(faultyllm.Refusal(canary("refusal")), faultyllm.Finish(faultyllm.Refused)))},
				{header(faultyllm.Body("text/html", []byte("<html>"+canary("html-page")+"</html>")))},
				{header(faultyllm.Body("application/json", []byte(canary("not-json"))))},
				{header(faultyllm.Body("text/event-stream", []byte("event: "+canary("not-json")+"\ndata: "+canary("not-json")+"\n\n")))},
			} {
				cases = append(cases, acceptance.Case{
					Number: i, Title: "canary", Variant: fmt.Sprintf("%d %t", i, stream), Wire: w, Script: script,
					Prepare: func(_ *acceptance.World, s *acceptance.Setup) {
						plant(s)
						s.Config.Stream = stream
						if i == 2 { // the agent takes the cut for the end; the failure cannot be delivered, and the error contains the address
							s.Options = []otelllm.TransportOption{otelllm.WithVerdicts()}
							s.Agent.Deliver = func(context.Context, string, string) error { return errors.New(canary("delivery-error")) }
						}
					},
				})
			}
		}
	}
	// Through a gateway that forwards or hides errors; stopped by a watchdog; over a
	// WebSocket.
	add := func(number int, variant string, w faultyllm.Wire, script []faultyllm.Exchange, prepare func(*acceptance.World, *acceptance.Setup, string)) {
		c := acceptance.Case{Number: number, Title: "canary", Variant: variant, Wire: w, Script: script}
		c.Prepare = func(world *acceptance.World, s *acceptance.Setup) {
			plant(s)
			prepare(world, s, c.Key())
		}
		cases = append(cases, c)
	}
	through := func(mode acceptance.GatewayMode, w faultyllm.Wire) func(*acceptance.World, *acceptance.Setup, string) {
		return func(world *acceptance.World, s *acceptance.Setup, key string) {
			s.BaseURL = world.Gateway.BaseURL(mode, key, w)
			s.Options = append(s.Options, otelllm.WithPropagators(propagation.TraceContext{}))
		}
	}
	reset := answer(faultyllm.ToolInput("call_1", "fetch", arguments...), faultyllm.Reset())
	for _, w := range faultyllm.Wires() {
		add(50, "passed on", w, []faultyllm.Exchange{reset}, through(acceptance.PassesOn, w))
		add(51, "swallowed", w, []faultyllm.Exchange{header(faultyllm.Refuse(failure))}, through(acceptance.Swallows, w))
		add(52, "tried again", w, []faultyllm.Exchange{reset, answer(faultyllm.Finish(faultyllm.Stop))}, through(acceptance.Retries, w))
		add(53, "watched", w, []faultyllm.Exchange{answer(faultyllm.Stall())}, func(_ *acceptance.World, s *acceptance.Setup, _ string) {
			s.Options = append(s.Options, otelllm.WithWatchdog(otelllm.Watchdog{Idle: 200 * time.Millisecond}))
		})
	}
	for i, script := range [][]faultyllm.Exchange{
		{
			answer(faultyllm.ToolCall("call_1", "fetch", arguments...), faultyllm.ToolCall("call_2", "break", arguments...), faultyllm.Finish(faultyllm.ToolCalls)),
			answer(faultyllm.Finish(faultyllm.Stop)),
		},
		{reset},
		{answer(faultyllm.ToolCall("call_2", "break", arguments...), faultyllm.Finish(faultyllm.ToolCalls), faultyllm.Reset())},
		{answer(faultyllm.InBand(inBand))},
		{faultyllm.Refuse(failure)},
	} {
		add(60+i, "session", faultyllm.Realtime, script, func(*acceptance.World, *acceptance.Setup, string) {})
	}
	// Keys in codes and types, in ids and names, and in request ids.
	for i, key := range keys {
		call := func(id, name string) []faultyllm.Exchange {
			return []faultyllm.Exchange{
				faultyllm.Answer(faultyllm.ToolCall(id, name, arguments...), faultyllm.Finish(faultyllm.ToolCalls)).With("X-Request-Id", key),
				faultyllm.Answer(faultyllm.ToolInput(id, name, arguments...), faultyllm.Reset()).With("Request-Id", key),
			}
		}
		refusal := faultyllm.Failure{Trouble: faultyllm.ServerError, Message: key, Code: key}
		for _, w := range faultyllm.Wires() {
			for j, script := range [][]faultyllm.Exchange{
				{faultyllm.Refuse(refusal).With("X-Request-Id", key).With("X-Amzn-Errortype", key)},
				{faultyllm.Answer(faultyllm.InBand(refusal)).With("X-Request-Id", key)},
				call(key, "fetch"),
				call("call_1", key),
			} {
				add(100+10*i+j, "key", w, script, func(*acceptance.World, *acceptance.Setup, string) {})
			}
		}
	}
	// Errors that contain the URL with its query.
	for _, w := range faultyllm.Wires() {
		cases = append(cases, acceptance.Case{
			Number: 90, Title: "canary", Variant: "refused", Wire: w,
			Prepare: func(world *acceptance.World, s *acceptance.Setup) {
				plant(s)
				s.BaseURL = world.Refusing.BaseURL("http", w)
			},
		})
	}
	return cases
}

func TestNothingPrivateLeaves(t *testing.T) {
	p := start(t)
	tap := &wiretap{}
	cases := planted(tap)
	_, _ = fmt.Fprintln(tap, ownTransport(t.Context(), p))
	results := runAll(t, p, cases)

	// Check that every canary was really sent.
	for i := range results {
		_, _ = fmt.Fprintln(tap, results[i].Err)
	}
	crossed := tap.String()
	for _, place := range places {
		assert.Contains(t, crossed, canary(place), "the canary of %s was never planted", place)
	}

	for _, key := range keys {
		assert.Contains(t, crossed, key, "a key was never planted")
	}

	for what, bytes := range map[string]string{
		"the exported traces": string(p.sink.exported()),
		"the Collector's log": p.logs.String(),
		"the SDK's spans":     fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(p.ended.Ended())),
	} {
		assert.NotEmpty(t, bytes, what)
		for _, place := range places {
			if i := strings.Index(bytes, canary(place)); i >= 0 {
				t.Errorf("%s: contains the canary of %s: …%q…", what, place, bytes[max(0, i-100):min(len(bytes), i+100)])
			}
		}
		assert.NotContains(t, bytes, "cAnArY", what)
		for _, key := range keys {
			if i := strings.Index(bytes, key); i >= 0 {
				t.Errorf("%s: contains a key: …%q…", what, bytes[max(0, i-100):min(len(bytes), i+100)])
			}
		}
	}
	// The exports are not empty: they contain a verdict.
	assert.Contains(t, string(p.sink.exported()), semconv.ClassStreamInterrupted.String())
}

// ownTransport makes a call that does not use HTTP and fails with an error text of its
// own.
func ownTransport(ctx context.Context, p *pipeline) error {
	ctx, run := otelllm.StartRun(ctx, "local", otelllm.WithTracerProvider(p.provider), otelllm.WithVerdicts())
	var errs []error
	for _, fail := range []func(*manual.Request) error{
		func(q *manual.Request) error {
			q.RecordText()
			return errors.New(canary("own-error"))
		},
		func(q *manual.Request) error {
			q.RecordProviderError(http.StatusServiceUnavailable, "is "+canary("own-code"), 0)
			return errors.New("is " + canary("own-code"))
		},
	} {
		_, q := manual.Start(ctx, manual.RequestInfo{Provider: "local", Model: "m"})
		q.RecordSent()
		err := fail(q)
		q.End(err)
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	run.End(err)
	return err
}
