package llmclassify

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// store is the journal with what reports its errors. Without a storage extension it does
// nothing.
type store struct {
	journal   *journal.Journal // nil without a storage extension; set by Start
	health    *health
	telemetry *telemetry
	logger    *zap.Logger
}

func (s *store) enabled() bool { return s.journal != nil }

// add writes spans to the journal before they are owned.
func (s *store) add(ctx context.Context, now time.Time, caller *origin.Caller, taken ptrace.Traces) (tickets func(int) journal.Ticket, err error) {
	if !s.enabled() {
		return nil, nil
	}
	tickets, err = s.journal.Append(ctx, now, caller.Metadata(), taken)
	s.report(ctx, err)
	return tickets, err
}

// remove deletes the first n spans of a call that are not owned after all.
func (s *store) remove(ctx context.Context, tickets func(int) journal.Ticket, n int) {
	if tickets == nil {
		return
	}
	done := make([]journal.Ticket, n)
	for i := range done {
		done[i] = tickets(i)
	}
	s.update(ctx, nil, done, nil)
}

// update records new states of spans, and what was judged with them. An error loses
// nothing.
func (s *store) update(ctx context.Context, spent, done []journal.Ticket, judged []byte) {
	if !s.enabled() || len(spent)+len(done)+len(judged) == 0 {
		return
	}
	err := s.journal.Update(context.WithoutCancel(ctx), spent, done, judged)
	s.report(ctx, err)
	if err != nil {
		s.logger.Error("Failed to record forwarded spans and judged runs in the storage; after a restart they may come again", zap.Error(err))
	}
}

// forget records that the facts of spans are forgotten, with the records of their traces. A
// span that is still to be forwarded stays until then.
func (s *store) forget(ctx context.Context, tickets []journal.Ticket, records []byte) {
	if s.enabled() {
		s.update(ctx, nil, s.journal.Forget(tickets), records)
	}
}

func (s *store) report(ctx context.Context, err error) {
	s.health.storageResult(err)
	s.telemetry.wrote(ctx, err)
}
