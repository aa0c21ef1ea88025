package llmclassify

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// errShutdown is returned for spans that arrive after the shutdown began.
var errShutdown = errors.New("llm_classify is shut down and does not accept spans")

// ConsumeTraces implements consumer.Traces. It returns once the LLM spans of the call
// are the processor's and the other spans are the next consumer's; after an error none
// of the LLM spans were taken over.
//
// The way of a call, one file for each step:
//
//	ConsumeTraces
//	  │
//	recognise ─ which spans are LLM spans, by their dialect
//	  │
//	partition ─ what need not wait: other spans, and runs that are complete in this call
//	  │         what has to wait: the rest, by the shard of its trace
//	  │
//	hand over ─ other spans ──────────────────────────────────────────────► next consumer
//	  │         complete runs ─► judge ─► stamp ─► with them, or else ─┐
//	  │ delivery                                                       │
//	  ▼                                                                ▼
//	shard ───── hold, until a run is complete or its time is over    forward ─► next consumer
//	  │                                                                ▲
//	release ─── assemble ─► judge ─► stamp ────────────────────────────┘
func (p *classifier) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	caller := p.callers.Of(ctx)
	b := p.recognise(p.clock.Now(), caller, td)
	defer putBatch(b)
	p.telemetry.cleaned(ctx, b.cleaned)
	err := p.consume(ctx, caller, b)
	if err != nil {
		p.telemetry.flow.add(spanCounts{in: b.spans, refused: b.spans})
	}
	return err
}

func (p *classifier) consume(ctx context.Context, caller *origin.Caller, b *batch) error {
	q := newPartition(b, p.shards)
	defer putPartition(q)
	if len(b.found) == 0 {
		return p.pass(ctx, q)
	}
	if !p.calls.enter() {
		return errShutdown
	}
	defer p.calls.leave()
	p.interest.addAll(b.traces, 1)
	q.expect()
	p.partition(q)
	if err := p.handOver(ctx, caller, q); err != nil {
		p.disclaim(q)
		p.noteRefused(q, err)
		p.interest.addAll(b.traces, -1)
		return err
	}
	q.noteComplete()
	p.interest.addAll(q.complete.traces, -1) // their shards know them as judged
	return nil
}
