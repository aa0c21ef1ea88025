package llmclassify

import (
	"context"
	"encoding/binary"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/assemble"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/hold"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/packed"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/stamp"
	"github.com/otelllm/otelllm-go/semconv"
)

// triggers are the vocabulary's words for the buffer's reasons.
var triggers = [...]semconv.Trigger{
	hold.Complete:    semconv.TriggerComplete,
	hold.RunEnded:    semconv.TriggerRunEnded,
	hold.HoldExpired: semconv.TriggerHoldExpired,
	hold.RunExpired:  semconv.TriggerRunExpired,
	hold.SpanLimit:   semconv.TriggerSpanLimit,
	hold.Memory:      semconv.TriggerMemory,
	hold.Shutdown:    semconv.TriggerShutdown,
	hold.Late:        semconv.TriggerLate,
}

// maxParcelBytes is when a parcel is full, in bytes of estimated memory. On the
// wire spans are smaller, so that a full one stays well below the 4 MiB that gRPC
// receivers take by default.
const maxParcelBytes = 2 << 20

// verdictSize is about the memory of a verdict, in bytes.
const verdictSize = 2 << 10

// packer packs stamped spans into parcels, one for each caller in whose name they
// came, and sends those that are full.
type packer struct {
	forwarder *forwarder
	open      []*opened
}

type opened struct {
	caller  *origin.Caller
	regroup *origin.Regroup
	parcel  parcel
	last    []pcommon.TraceID // of which releases were packed here, where that is asked for
}

func (k *packer) of(c *origin.Caller) *opened {
	for _, o := range k.open {
		if o.caller == c {
			return o
		}
	}
	o := &opened{caller: c, parcel: parcel{caller: c}, regroup: origin.NewRegroup()}
	k.open = append(k.open, o)
	return o
}

// add packs a span, which it moves, of about this many bytes.
func (k *packer) add(ctx context.Context, span ptrace.Span, known *assemble.Known, size int) {
	o := k.of(known.Caller)
	if o.parcel.bytes >= maxParcelBytes {
		k.send(ctx, o)
	}
	span.MoveTo(o.regroup.Append(known.Origin))
	o.parcel.spans++
	o.parcel.bytes += size
}

func (k *packer) send(ctx context.Context, o *opened) {
	o.parcel.traces = o.regroup.Traces()
	k.forwarder.send(ctx, o.parcel)
	o.parcel, o.regroup = parcel{caller: o.caller}, origin.NewRegroup()
}

func (k *packer) close(ctx context.Context) {
	for _, o := range k.open {
		if o.parcel.spans > 0 || len(o.parcel.done) > 0 || len(o.parcel.judged) > 0 {
			k.send(ctx, o)
		}
	}
}

// deliver judges releases, stamps the verdicts and forwards the spans together; then
// those of the runs that are complete because of these.
func (s *shard) deliver(ctx context.Context, releases []assemble.Release) {
	for s.deliverSome(ctx, releases); ; s.deliverSome(ctx, releases) {
		if releases = s.buffer.Ready(s.p.clock.Now()); len(releases) == 0 {
			return
		}
	}
}

func (s *shard) deliverSome(ctx context.Context, releases []assemble.Release) {
	if n := s.buffer.Forgotten(); n > 0 {
		s.p.telemetry.forgot(ctx, n)
		s.p.update(ctx, nil, s.forgotten, nil)
		clear(s.forgotten)
		s.forgotten = s.forgotten[:0]
	}
	if len(releases) > 0 || len(s.passed) > 0 {
		k := packer{forwarder: s.forwarder}
		for _, i := range judgingOrder(releases) {
			s.release(ctx, &releases[i], &k)
			releases[i] = assemble.Release{} // its spans are on their way
		}
		s.notePassed(&k)
		k.close(ctx)
	}
	s.reader.Close()
}

// release judges one release and packs its spans, stamped.
func (s *shard) release(ctx context.Context, release *assemble.Release, k *packer) {
	trigger := triggers[release.Reason]
	s.open(release)
	d := s.judge.Diagnose(release, s.ended.of(release, s.buffer.Trace(release.Trace)))
	s.ended.add(s.p.clock.Now(), release.Trace, release.Run, &d)
	stampAll(release, &d, trigger)
	var held time.Duration
	unreadable, out, journalled := 0, 0, s.p.journal != nil
	var last *assemble.Known
	var note []*assemble.Member
	for i := range release.Members {
		m := &release.Members[i]
		if m.Foreign {
			continue
		}
		last = &m.Known
		if m.Out {
			out++
			if !readable(m) {
				unreadable++
				continue
			}
			size := int(m.Size)
			if i == d.Carrier || d.Members[i] != nil {
				size += verdictSize
			}
			k.add(ctx, m.Span, &m.Known, size)
			m.Known.Body = packed.Span{}
			held = max(held, m.Held)
		}
		if journalled {
			note = append(note, m)
		}
	}
	if unreadable > 0 {
		s.p.logger.Error("Held spans cannot be read back; they are lost", zap.Int("spans", unreadable))
	}
	if d.Run != nil {
		if d.Carrier < 0 && last != nil {
			k.add(ctx, abandoned(release, &d), last, verdictSize)
		}
		s.p.telemetry.run(ctx, endingOf(d.Run, trigger), 1)
	}
	// After the last of its spans: a run that goes in several parcels is taken up whole
	// after a crash, or not at all.
	for _, m := range note {
		switch parcel := &k.of(m.Known.Caller).parcel; {
		case release.Final || release.Reason == hold.Late || release.Reason == hold.RunExpired:
			parcel.done = append(parcel.done, m.Known.Ticket)
		case m.Out:
			parcel.spent = append(parcel.spent, m.Known.Ticket)
		}
	}
	if journalled && last != nil {
		with := last // whose parcel has the verdict
		if d.Carrier >= 0 {
			with = &release.Members[d.Carrier].Known
		}
		s.noteJudged(release, k.of(with.Caller))
	}
	switch release.Reason {
	case hold.Late:
		s.p.telemetry.late(ctx, out)
	case hold.RunExpired: // nothing was held
	default:
		s.p.telemetry.holdTime(ctx, held, trigger)
	}
}

// readable reports whether the span of a member that is Out is there.
func readable(m *assemble.Member) bool { return !m.Span.SpanID().IsEmpty() }

// stampAll writes the verdicts onto the spans that go out.
func stampAll(release *assemble.Release, d *assemble.Diagnoses, trigger semconv.Trigger) {
	for i := range release.Members {
		switch m := &release.Members[i]; {
		case m.Foreign || !m.Out || !readable(m):
		case i == d.Carrier:
			stamp.Run(m.Span, d.Run, d.Members[i], trigger)
		default:
			stamp.Span(m.Span, d.Members[i], trigger)
		}
	}
}

// abandoned is the span that stands for a run whose end never came, none of whose
// spans is left to carry the verdict. Its id follows from the run's, so that a
// second one after a crash is the same span.
func abandoned(release *assemble.Release, d *assemble.Diagnoses) ptrace.Span {
	span := ptrace.NewSpan()
	span.SetName(semconv.SpanRunAbandoned)
	span.SetKind(ptrace.SpanKindInternal)
	span.SetTraceID(release.Trace)
	span.SetParentSpanID(release.RunID)
	var id pcommon.SpanID
	run := binary.LittleEndian.Uint64(release.RunID[:])
	binary.LittleEndian.PutUint64(id[:], (hash(release.Trace)^run)*0x9e3779b97f4a7c15|1)
	span.SetSpanID(id)
	var end pcommon.Timestamp
	for i := range release.Members {
		if m := &release.Members[i]; !m.Foreign {
			end = max(end, m.End)
		}
	}
	span.SetStartTimestamp(end)
	span.SetEndTimestamp(end)
	stamp.Run(span, d.Run, nil, semconv.TriggerRunExpired)
	return span
}
