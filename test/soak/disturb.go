package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/otelllm/otelllm-go/test/soak/internal/ledger"
	"github.com/otelllm/otelllm-go/test/soak/internal/wire"
)

// disturb disturbs the Collector and the backend as the part describes, spread over its
// time: it alternates stops and kills, with an outage of the backend between two of
// them.
func (s *soak) disturb(ctx context.Context, books *ledger.Ledger, backend *wire.Backend, c *collector, p part, seed uint64) error {
	began := time.Now()
	rng := rand.New(rand.NewPCG(seed, 0xd157)) //nolint:gosec // these times are not secret
	outages := make(chan error, 1)
	fills := make(chan error, 1)
	go func() { fills <- s.fill(ctx, books, c, p) }()
	go func() { outages <- s.refuse(ctx, backend, p, rand.New(rand.NewPCG(seed, 0x0fff))) }() //nolint:gosec // these times are not secret
	stops, kills := p.stops, p.kills
	ends, started := stops+kills, began
	for i := range ends {
		slot := p.lasts / time.Duration(ends+1)
		at := slot*time.Duration(i+1) + time.Duration(rng.Int64N(int64(slot/2))) - slot/4
		if !sleep(ctx, max(time.Until(began.Add(at)), time.Until(started.Add(shortestLife)))) {
			return ctx.Err()
		}
		at = time.Since(began)
		if kills > 0 && (stops == 0 || i%2 == 0) {
			kills--
			books.Killed(time.Now())
			c.kill()
			s.say("  %5.1fs killed", at.Seconds())
		} else {
			stops--
			asked := time.Now()
			if err := c.stop(); err != nil {
				return err
			}
			books.Stopped(asked, time.Now())
			s.say("  %5.1fs stopped, in %.1fs", at.Seconds(), time.Since(asked).Seconds())
		}
		if !sleep(ctx, time.Duration(rng.Int64N(int64(500*time.Millisecond)))) {
			return ctx.Err()
		}
		if err := c.start(ctx); err != nil {
			return err
		}
		started = time.Now()
	}
	if err := errors.Join(<-outages, <-fills); err != nil {
		return err
	}
	sleep(ctx, time.Until(began.Add(p.lasts)))
	return ctx.Err()
}

// fill makes the Collector's disk full from time to time.
func (s *soak) fill(ctx context.Context, books *ledger.Ledger, c *collector, p part) error {
	began := time.Now()
	for i := range p.fills {
		slot := p.lasts / time.Duration(p.fills)
		if !sleep(ctx, time.Until(began.Add(slot*time.Duration(i)+slot/4))) {
			return ctx.Err()
		}
		pid := c.pid()
		if pid == 0 {
			continue // it is just starting
		}
		full := time.Now()
		switch err := fillDisk(pid, true); {
		case errors.Is(err, errors.ErrUnsupported):
			s.say("  the full disk is skipped: it cannot be had on this system")
			return nil
		case err != nil:
			return err
		}
		s.say("  %5.1fs the disk is full for %.1fs", time.Since(began).Seconds(), (slot / 4).Seconds())
		sleep(ctx, slot/4)
		if c.pid() == pid { // else it was killed meanwhile: its successor has a disk with room
			if err := fillDisk(pid, false); err != nil {
				return err
			}
		}
		books.Full(full, time.Now())
	}
	return nil
}

// refuse makes the backend refuse connections from time to time.
func (s *soak) refuse(ctx context.Context, backend *wire.Backend, p part, rng *rand.Rand) error {
	began := time.Now()
	for i := range p.outages {
		slot := p.lasts / time.Duration(p.outages)
		at := slot*time.Duration(i) + slot/4 + time.Duration(rng.Int64N(int64(slot/4)))
		lasts := slot/16 + time.Duration(rng.Int64N(int64(slot/8)))
		if !sleep(ctx, time.Until(began.Add(at))) {
			return ctx.Err()
		}
		backend.Refuse()
		s.say("  %5.1fs the backend refuses connections for %.1fs", time.Since(began).Seconds(), lasts.Seconds())
		sleep(ctx, lasts)
		if err := backend.Listen(); err != nil {
			return err
		}
	}
	return nil
}
