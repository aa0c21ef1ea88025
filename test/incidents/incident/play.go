package incident

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/test/internal/process"
)

// PlayedStory is a story that has been played, with what its traces contain.
type PlayedStory struct {
	Story *Story
	Acts  []PlayedAct
}

// PlayedAct is an act that has been played, before and after.
type PlayedAct struct {
	Act    *Act
	Before Played
	After  Played
	Alone  *report.Run // llm_classify's verdict on the spans of before; nil if they were not judged
	Judged *report.Run // the verdict on those of after; nil without a verdict
}

const (
	stopPatience    = 10 * time.Second
	verdictPatience = 15 * time.Second
)

// Play plays stories with a Collector of this binary and configuration
// (config-demo.yaml). The Collector's output goes to dir. node may be nil if no story
// needs it.
func Play(ctx context.Context, stories []Story, node *Node, binary, config, dir string) (results []PlayedStory, err error) {
	if err := process.Need(binary, "build it with `make collector`, or name it with -collector"); err != nil {
		return nil, err
	}
	if err := process.Need(config, "-root names the folder of the repository"); err != nil {
		return nil, err
	}
	traces := filepath.Join(dir, "traces.jsonl")
	var endpoint string
	col, err := process.StartOnFreePorts(ctx, 3, func(free []string) process.Spec {
		endpoint = free[0]
		return process.Spec{
			Name: "the Collector", Path: binary, Args: []string{"--config", "file:" + config},
			Env: []string{
				"OTLP_HTTP_ENDPOINT=" + free[0], "OTLP_GRPC_ENDPOINT=" + free[1], "HEALTH_ENDPOINT=" + free[2],
				"OUT_FILE=" + traces,
			},
			Log: filepath.Join(dir, "collector.log"), Health: "http://" + free[2], Wait: process.NewCollector,
		}
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, col.Stop(stopPatience)) }()
	if results, err = playAll(ctx, stories, node, endpoint); err != nil {
		return nil, err
	}
	return results, judged(ctx, results, report.NewTail(traces))
}

// playAll plays each act before and after; all spans go to the endpoint.
func playAll(ctx context.Context, stories []Story, node *Node, endpoint string) (results []PlayedStory, err error) {
	stage, err := NewStage()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	stage.Node, stage.OTLP = node, "http://"+endpoint
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpoint(endpoint), otlptracehttp.WithInsecure())
	if err != nil {
		return nil, fmt.Errorf("create the exporter: %w", err)
	}
	batches := sdktrace.NewBatchSpanProcessor(exporter)
	defer func() { // the gateway's run waits for a further attempt of its client
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, otelllm.Shutdown(ctx), batches.Shutdown(ctx))
	}()
	of := func(service string) *sdktrace.TracerProvider {
		return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(batches), sdktrace.WithResource(resource.NewSchemaless(otelsemconv.ServiceName(service))))
	}
	agent, gateway := of("agent"), of("gateway")
	for i := range stories {
		t := PlayedStory{Story: &stories[i]}
		for j := range t.Story.Acts {
			act := PlayedAct{Act: &t.Story.Acts[j]}
			if act.Before, err = stage.Before(ctx, t.Story, act.Act, batches); err != nil {
				return nil, err
			}
			if act.After, err = stage.After(ctx, t.Story, act.Act, agent, gateway); err != nil {
				return nil, err
			}
			t.Acts = append(t.Acts, act)
		}
		results = append(results, t)
	}
	return results, nil
}

// judged reads verdicts until every act has one, or until no more can arrive.
func judged(ctx context.Context, results []PlayedStory, tail *report.Tail) error {
	ctx, cancel := context.WithTimeout(ctx, verdictPatience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var spans report.Spans
	for {
		if _, err := tail.Read(&spans); err != nil {
			return err
		}
		missing := 0
		for i := range results {
			for j := range results[i].Acts {
				a := &results[i].Acts[j]
				a.Alone, a.Judged = First(&spans, &a.Before), First(&spans, &a.After)
				if a.Alone == nil || a.Judged == nil {
					missing++
				}
			}
		}
		if missing == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				return nil // Wrong reports what is missing
			}
			return context.Cause(ctx)
		}
	}
}

// First returns the judged run of p, or nil if it has not arrived. A lone request or tool
// has the verdict itself.
func First(spans *report.Spans, p *Played) *report.Run {
	id := pcommon.TraceID(p.TraceID)
	if runs := spans.Runs(id); len(runs) > 0 {
		return &runs[0]
	}
	for _, s := range spans.Trace(id) {
		if s.Verdict.Failed() {
			return &report.Run{Span: s}
		}
	}
	return nil
}

// VerdictOf returns the parts of a run's verdict that the stories compare.
func VerdictOf(r *report.Run) Verdict {
	v := &r.Verdict
	return Verdict{v.Outcome, v.Class, v.Cause, v.Phase, v.Origin, v.Safety, v.Reason}
}
