package llmclassify

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
)

// What a shard's buffer remembers as judged stands in the journal, too. It is noted
// in one with what becomes of the spans: after a crash they either come again and
// are judged, or it is known that they were.

// passed is a span that was seen in a trace whose runs were judged.
type passed struct {
	trace pcommon.TraceID
	span  pcommon.SpanID
}

// recall tells the shards what earlier processes judged.
func (p *classifier) recall(ctx context.Context) error {
	now := p.clock.Now()
	keep := 2 * max(p.cfg.RunTimeout, 2*p.cfg.MaxHold) // as long as a shard may
	err := p.journal.Recall(ctx, now, keep, p.cfg.MaxFactBytes/8, func(r *journal.Judged) {
		judged := p.shards[p.shardOf(r.Trace)].buffer.Judged()
		judged.Recall(now, r.At, r.Trace, r.Counts, r.Runs, r.Spans)
	})
	for _, s := range p.shards {
		s.buffer.Judged().Recalled()
	}
	return err
}

// remember keeps what is to be noted with the next verdicts.
func (s *shard) remember(trace pcommon.TraceID, span pcommon.SpanID) {
	if s.p.journal != nil {
		s.passed = append(s.passed, passed{trace, span})
	}
}

// noteJudged has it noted with a parcel what a release makes the buffer remember.
func (s *shard) noteJudged(release *assemble.Release, with *opened) {
	r := journal.Judged{At: s.p.clock.Now(), Trace: release.Trace, Counts: release.Counts}
	if release.Final || release.Again {
		r.Runs = append(r.Runs, release.RunID)
	}
	if release.Final || release.Reason == hold.Late || release.Reason == hold.RunExpired {
		for i := range release.Members {
			if m := &release.Members[i]; !m.Foreign {
				r.Spans = append(r.Spans, m.ID)
			}
		}
	}
	if len(r.Runs)+len(r.Spans) == 0 {
		return
	}
	with.parcel.judged = r.Append(with.parcel.judged)
	if len(s.passed) > 0 {
		with.last = append(with.last, release.Trace)
	}
}

// notePassed has the spans that passed noted after the verdicts of their trace.
func (s *shard) notePassed(k *packer) {
	for len(s.passed) > 0 {
		r := journal.Judged{At: s.p.clock.Now(), Trace: s.passed[0].trace}
		for len(s.passed) > 0 && s.passed[0].trace == r.Trace {
			r.Spans = append(r.Spans, s.passed[0].span)
			s.passed = s.passed[1:]
		}
		with := k.withLast(r.Trace)
		with.parcel.judged = r.Append(with.parcel.judged)
	}
	s.passed = nil
}

// withLast is where the last release of a trace was packed.
func (k *packer) withLast(trace pcommon.TraceID) *opened {
	for _, o := range k.open {
		if len(k.open) == 1 || slices.Contains(o.last, trace) {
			return o
		}
	}
	return k.of(nil)
}

// judgedWhole encodes what is remembered of the runs that are whole.
func (p *classifier) judgedWhole(now time.Time, b *batch) (records []byte) {
	if p.journal == nil {
		return nil
	}
	rows, releases := b.rows, b.releases
	for _, trace := range b.claimed {
		r := journal.Judged{At: now, Trace: trace, Counts: true}
		for ; len(releases) > 0 && releases[0].Trace == trace; releases = releases[1:] {
			r.Runs = append(r.Runs, releases[0].RunID)
		}
		if len(rows) > 0 && rows[0].trace == trace { // they are mostly in the same order
			r.Spans = b.ids[rows[0].from:rows[0].to]
			rows = rows[1:]
		}
		records = r.Append(records)
	}
	for _, row := range rows {
		r := journal.Judged{At: now, Trace: row.trace, Spans: b.ids[row.from:row.to]}
		records = r.Append(records)
	}
	return records
}
