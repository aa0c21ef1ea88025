package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/otelllm/otelllm-go/test/soak/internal/ledger"
	"github.com/otelllm/otelllm-go/test/soak/internal/load"
	"github.com/otelllm/otelllm-go/test/soak/internal/wire"
)

func newSenders(ctx context.Context, books *ledger.Ledger, c *collector) (list []*wire.Sender, err error) {
	for i := range numSenders {
		if i%2 == 0 {
			list = append(list, wire.NewHTTP(ctx, books, c.http))
			continue
		}
		sender, err := wire.NewGRPC(ctx, books, c.grpc)
		if err != nil {
			return nil, err
		}
		list = append(list, sender)
	}
	return list, nil
}

func lastError(senders []*wire.Sender) (err error) {
	for _, s := range senders {
		err = errors.Join(err, s.LastError())
	}
	return err
}

// play sends traces, at most s.open at a time, until the time is over; then it finishes
// the open ones. The returned channel is closed when all are queued.
func (s *soak) play(ctx context.Context, books *ledger.Ledger, senders []*wire.Sender, seed uint64, lasts time.Duration) <-chan struct{} {
	pace := load.Pace{Turn: s.limits.hold / turnShare, MaxHold: s.limits.hold, SpanLimit: s.limits.spansPerRun}
	var number atomic.Uint64
	end := time.Now().Add(lasts)
	var players sync.WaitGroup
	for i := range s.open {
		players.Go(func() {
			// Stagger the starts.
			if !sleep(ctx, pace.Turn*time.Duration(i)/time.Duration(s.open)*turnShare) {
				return
			}
			for time.Now().Before(end) && ctx.Err() == nil {
				n := number.Add(1) - 1
				if s.traces > 0 && n >= uint64(s.traces) { //nolint:gosec // not negative
					return
				}
				t := load.New(seed, n, pace)
				books.Plan(&t)
				s.send(ctx, books, senders, &t, rand.New(rand.NewPCG(seed, n|1<<63))) //nolint:gosec // the route of a span is not secret
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		players.Wait()
	}()
	return done
}

// send sends the spans of a trace, each at its time.
func (s *soak) send(ctx context.Context, books *ledger.Ledger, senders []*wire.Sender, t *load.Trace, rng *rand.Rand) {
	began := time.Now()
	for i := range t.Spans {
		span := &t.Spans[i]
		if span.Late {
			continue
		}
		if !sleep(ctx, time.Until(began.Add(span.At))) || !senders[rng.IntN(len(senders))].Send(ctx, *span) {
			return
		}
	}
	for i := range t.Spans {
		span := &t.Spans[i]
		if !span.Late {
			continue
		}
		select {
		case <-books.Judged(ledger.Key{Trace: t.ID, Span: span.RunID}):
		case <-time.After(s.limits.runTimeout): // sent late in any case
		case <-ctx.Done():
			return
		}
		if !senders[rng.IntN(len(senders))].Send(ctx, *span) {
			return
		}
	}
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
