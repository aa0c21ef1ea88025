package llmclassify

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// errShutdown is returned for spans that arrive after the shutdown began.
var errShutdown = errors.New("llm_classify is shut down and does not accept spans")

// ConsumeTraces implements consumer.Traces. It judges the runs that come whole in the call, owns the
// LLM spans that are to be held, and forwards the others with the whole runs. What the next consumer
// refuses of these waits with the held spans. After an error the sender repeats the call. Nothing of it is held
// then, unless the next consumer mutates spans, or refuses for good, or there is no memory for what it
// refused: held spans that come again are forwarded twice, and count once.
//
// The way of a call, one file for each step:
//
//	ConsumeTraces
//	  │
//	recognise ─ which spans are LLM spans, by their dialect
//	  │
//	partition ─ by the lanes of their traces
//	  │
//	whole ───── runs that come whole: judge ─► stamp, where they are
//	  │
//	hand over ─ other spans, whole runs ────────────────────────────► next consumer
//	  │ delivery
//	  ▼
//	lane ────── hold, until a run is complete or its time is over    forward ─► next consumer
//	  │                                                                ▲
//	release ─── assemble ─► judge ─► stamp ────────────────────────────┘
func (p *classifier) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	caller := p.callers.Of(ctx)
	b := p.recognise(p.clock.Now(), caller, td)
	defer putBatch(b)
	p.telemetry.cleaned(ctx, b.cleaned)
	q := newPartition(b, p.shards)
	defer putPartition(q)
	if len(q.found) == 0 {
		return p.pass(ctx, caller, q)
	}
	err := errShutdown
	if p.calls.enter() {
		defer p.calls.leave()
		if err = p.own(ctx, caller, q); err == nil {
			err = p.forwardRest(ctx, caller, q)
			if err == nil && p.calls.leftBehind() { // what it handed over may have come after the last turn
				return errShutdown
			}
			return err
		}
		p.refuse(q)
	}
	p.telemetry.flow.add(spanCounts{in: b.spans, refused: b.spans})
	return err
}

// pass lets the lanes know of the spans of a call without LLM spans, and forwards it.
func (p *classifier) pass(ctx context.Context, caller *origin.Caller, q *partition) error {
	if p.calls.enter() {
		p.addLinks(q)
		p.addExchanges(q)
		p.tell(q)
		p.calls.leave()
	}
	return p.forwardRest(ctx, caller, q)
}
