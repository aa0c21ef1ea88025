package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"time"

	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	openaioption "github.com/openai/openai-go/v3/option"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/realtime"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/agent"
)

// World holds the servers that the cases run against. Cases may run in it concurrently.
type World struct {
	Server    *faultyllm.Server
	Refusing  *faultyllm.Port
	Untrusted *faultyllm.Port
	Garbage   *faultyllm.Port
	Silent    *faultyllm.Port
	DNS       *faultyllm.DNS
	Gateway   *Gateway
}

// NewWorld starts the servers on loopback. The spans of its gateway go to tp.
func NewWorld(tp trace.TracerProvider) (*World, error) {
	w := &World{}
	var err error
	start := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	start(func() (err error) { w.Server, err = faultyllm.Start(); return })
	start(func() (err error) { w.Refusing, err = faultyllm.RefusingPort(); return })
	start(func() (err error) { w.Untrusted, err = faultyllm.UntrustedTLS(); return })
	start(func() (err error) { w.Garbage, err = faultyllm.GarbageTLS(); return })
	start(func() (err error) { w.Silent, err = faultyllm.SilentPort(); return })
	start(func() (err error) { w.DNS, err = faultyllm.StartDNS(); return })
	start(func() (err error) { w.Gateway, err = StartGateway(w.Server, tp); return })
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Close stops every server that was started.
func (w *World) Close() error {
	var errs []error
	if w.Gateway != nil {
		errs = append(errs, w.Gateway.Close())
	}
	if w.DNS != nil {
		errs = append(errs, w.DNS.Close())
	}
	for _, p := range []*faultyllm.Port{w.Silent, w.Garbage, w.Untrusted, w.Refusing} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	if w.Server != nil {
		errs = append(errs, w.Server.Close())
	}
	return errors.Join(errs...)
}

// Result is what the agent's side knows after a case has run.
type Result struct {
	TraceID  trace.TraceID
	Observed bool               // there is a run with a diagnosis
	Live     classify.Diagnosis // the run's own diagnosis, after its end
	Err      error              // what the agent returned
	Sent     []faultyllm.Record // what the server sent
}

// tracerName is the scope of the spans that represent the application around the agent.
const tracerName = "github.com/otelllm/otelllm-go/examples"

// Run runs the case's agent to its end, with spans that go to tp. The error is about
// the case itself, not about the faults that it scripts.
func (w *World) Run(ctx context.Context, c *Case, tp trace.TracerProvider) (Result, error) {
	w.Server.Play(c.Key(), c.Script...)
	// The span of an application around its agent.
	ctx, span := tp.Tracer(tracerName).Start(ctx, "handle_task", trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	result := Result{TraceID: span.SpanContext().TraceID()}

	s := w.setup(c)
	if s.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Deadline)
		defer cancel()
	}
	ctx, s.Abort = otelllm.WithAbort(ctx)
	defer s.Transport.CloseIdleConnections()
	var base http.RoundTripper = s.Transport
	if s.Wrap != nil {
		base = s.Wrap(base)
	}
	options := append(s.Options, otelllm.WithTracerProvider(tp))
	if c.Wire == faultyllm.Realtime {
		session := s.session(&http.Client{Transport: base}, otelllm.New(append(s.SessionOptions, otelllm.WithTracerProvider(tp))...))
		defer session.Close()
		s.Agent.Model = session
	} else {
		s.Agent.Model = s.model(c.Wire, &http.Client{Transport: otelllm.NewTransport(base, options...)})
	}

	var run *otelllm.Run
	switch {
	case s.Killed:
		// The spans that have ended are exported; the run's span never is.
		runCtx, _ := otelllm.StartRun(ctx, s.Agent.Name, otelllm.WithTracerProvider(tp), otelllm.WithToolsRecorded())
		s.Agent.Model.User(s.Prompt)
		_, result.Err = s.Agent.Model.Ask(runCtx, s.Agent.Tools, func(string) {})
	case s.NoTools:
		var runCtx context.Context
		runCtx, run = otelllm.StartRun(ctx, s.Agent.Name, otelllm.WithTracerProvider(tp))
		s.Agent.Model.User(s.Prompt)
		_, result.Err = s.Agent.Model.Ask(runCtx, s.Agent.Tools, func(string) {})
		run.End(result.Err)
	default:
		s.Agent.Started = func(r *otelllm.Run) { run = r }
		s.Agent.Options = append(s.Agent.Options, otelllm.WithTracerProvider(tp), otelllm.WithConversationID("conversation-"+c.Key()))
		_, result.Err = s.Agent.Run(ctx, s.Prompt)
	}
	if s.Forgets {
		if err := collected(ctx, run); err != nil {
			return result, fmt.Errorf("case %s: %w", c.Key(), err)
		}
	}
	if run != nil {
		result.Observed, result.Live = true, run.Diagnosis()
	}

	var err error
	if result.Sent, err = w.Server.Records(c.Key()); err != nil {
		return result, err
	}
	if len(result.Sent) != len(c.Script) {
		return result, fmt.Errorf("case %s: %d of %d scripted exchanges were asked for (the agent ended with: %w)",
			c.Key(), len(result.Sent), len(c.Script), orNone(result.Err))
	}
	return result, nil
}

// collected waits until the garbage collector has found the stream that the run's agent
// forgot.
func collected(ctx context.Context, run *otelllm.Run) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("the dropped stream was not found"))
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		runtime.GC()
		// Until then the run lacks a request that it has counted.
		if run.Diagnosis().Class != semconv.ClassRunAbandoned {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var errNone = errors.New("no error")

func orNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

func (w *World) setup(c *Case) *Setup {
	s := &Setup{
		Config:    agent.Config{Model: model(c.Wire), Stream: true},
		Agent:     agent.Agent{Name: "coder", Tools: toolbox()},
		BaseURL:   w.Server.BaseURL(c.Key(), c.Wire),
		Transport: &http.Transport{TLSHandshakeTimeout: 5 * time.Second},
		APIKey:    "sk-none",
		Prompt:    "Make the failing test pass.",
	}
	if c.Prepare != nil {
		c.Prepare(w, s)
	}
	return s
}

func model(w faultyllm.Wire) string {
	switch w {
	case faultyllm.Anthropic:
		return "claude-sonnet-5-5"
	case faultyllm.Realtime:
		return "gpt-realtime"
	default:
		return "gpt-5.5"
	}
}

// session returns the conversation over a WebSocket.
func (s *Setup) session(client *http.Client, llm *otelllm.Instrumentation) *agent.Realtime {
	server := agent.Server{BaseURL: s.BaseURL, Client: client, Header: http.Header{"Authorization": {"Bearer " + s.APIKey}}, Query: url.Values{}}
	for k, v := range s.Headers {
		server.Header.Set(k, v)
	}
	for k, v := range s.Query {
		server.Query.Set(k, v)
	}
	return agent.NewRealtime(s.Config, server, realtime.Config{Instrumentation: llm})
}

// model returns the conversation with the wire protocol's SDK.
func (s *Setup) model(w faultyllm.Wire, client *http.Client) agent.Model {
	if w == faultyllm.Anthropic {
		opts := []anthropicoption.RequestOption{
			anthropicoption.WithBaseURL(s.BaseURL), anthropicoption.WithAPIKey(s.APIKey), anthropicoption.WithHTTPClient(client),
		}
		for k, v := range s.Headers {
			opts = append(opts, anthropicoption.WithHeader(k, v))
		}
		for k, v := range s.Query {
			opts = append(opts, anthropicoption.WithQuery(k, v))
		}
		return agent.NewAnthropic(s.Config, opts...)
	}
	opts := []openaioption.RequestOption{
		openaioption.WithBaseURL(s.BaseURL), openaioption.WithAPIKey(s.APIKey), openaioption.WithHTTPClient(client),
	}
	for k, v := range s.Headers {
		opts = append(opts, openaioption.WithHeader(k, v))
	}
	for k, v := range s.Query {
		opts = append(opts, openaioption.WithQuery(k, v))
	}
	if w == faultyllm.Responses {
		return agent.NewResponses(s.Config, opts...)
	}
	return agent.NewChat(s.Config, opts...)
}
