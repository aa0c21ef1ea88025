package incident

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// Stage holds the servers that stories run against.
type Stage struct {
	server   *faultyllm.Server
	deadPort *faultyllm.Port

	Node *Node  // for acts that need one
	OTLP string // URL of the Collector, for Node's spans
}

// NewStage starts a model server that breaks, on loopback.
func NewStage() (*Stage, error) {
	server, err := faultyllm.Start()
	if err != nil {
		return nil, err
	}
	deadPort, err := faultyllm.RefusingPort()
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return &Stage{server: server, deadPort: deadPort}, nil
}

// Close stops the servers.
func (s *Stage) Close() error { return errors.Join(s.deadPort.Close(), s.server.Close()) }

// Played is the result of an act.
type Played struct {
	TraceID trace.TraceID
	Err     error                // the error that the agent's user saw
	Spans   []tracetest.SpanStub // set by Before only
}

// Before plays an act under the telemetry that the agent had. Its spans are also sent
// to also.
func (s *Stage) Before(ctx context.Context, story *Story, act *Act, also ...sdktrace.SpanProcessor) (Played, error) {
	if act.Node != nil {
		k, err := startKeeper(also)
		if err != nil {
			return Played{}, err
		}
		played, err := s.playNode(ctx, story, act, "before", act.Node.Producer, k.url)
		err = errors.Join(err, k.close())
		played.Spans = k.spans
		return played, err
	}
	kept := tracetest.NewInMemoryExporter()
	of := func(service string) *sdktrace.TracerProvider {
		options := []sdktrace.TracerProviderOption{
			sdktrace.WithSyncer(kept), sdktrace.WithResource(resource.NewSchemaless(otelsemconv.ServiceName(service))),
		}
		for _, p := range also {
			options = append(options, sdktrace.WithSpanProcessor(p))
		}
		return sdktrace.NewTracerProvider(options...)
	}
	// They are not shut down here, because their owner does that for the processors in
	// also.
	agent, gateway := of("agent"), of("gateway")
	played, err := s.play(ctx, story, act, "before", agent, Usual(agent), Usual(gateway))
	played.Spans = kept.GetSpans()
	return played, err
}

// After plays an act under otelllm, with spans that go to the two providers.
func (s *Stage) After(ctx context.Context, story *Story, act *Act, agent, gateway trace.TracerProvider) (Played, error) {
	if act.Node != nil {
		return s.playNode(ctx, story, act, "after", factsProducer, s.OTLP)
	}
	return s.play(ctx, story, act, "after", agent, Otelllm(agent), Otelllm(gateway))
}

func (s *Stage) play(ctx context.Context, story *Story, act *Act, when string, tp trace.TracerProvider, agent, gateway Tracing) (Played, error) {
	key := s.set(story, act, when)
	// The span of an application around its agent.
	ctx, span := tp.Tracer("app").Start(ctx, "handle_task", trace.WithSpanKind(trace.SpanKindServer))
	played := Played{TraceID: span.SpanContext().TraceID()}
	played.Err = act.Run(ctx, &Program{
		BaseURL: s.server.BaseURL(key, act.Wire),
		DeadURL: s.deadPort.BaseURL("http", act.Wire),
		Tracing: agent, Gateway: gateway,
	})
	span.End()
	return played, s.check(story, act, key, &played)
}

// playNode is like play, for an agent in Node.
func (s *Stage) playNode(ctx context.Context, story *Story, act *Act, when, producer, otlp string) (Played, error) {
	if s.Node == nil {
		return Played{}, fmt.Errorf("%s: %w", story.title(act), ErrNoNode)
	}
	key := s.set(story, act, when)
	played, err := s.Node.run(ctx, producer, act.Node.API, s.server.BaseURL(key, act.Wire), otlp)
	if err != nil {
		return played, fmt.Errorf("%s: %w", story.title(act), err)
	}
	return played, s.check(story, act, key, &played)
}

// set sets the act's script on the server, under a key of its own.
func (s *Stage) set(story *Story, act *Act, when string) string {
	key := when + "-" + story.Name
	for i := range story.Acts {
		if &story.Acts[i] == act {
			key = fmt.Sprintf("%s-%d", key, i+1)
		}
	}
	s.server.Play(key, act.Script...)
	return key
}

// check checks that the whole script has been played.
func (s *Stage) check(story *Story, act *Act, key string, played *Played) error {
	records, err := s.server.Records(key)
	if err == nil && len(records) != len(act.Script) {
		err = fmt.Errorf("%d of %d scripted exchanges were played (the agent ended with: %w)", len(records), len(act.Script), orNone(played.Err))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", story.title(act), err)
	}
	return nil
}

var errNone = errors.New("no error")

func orNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}
