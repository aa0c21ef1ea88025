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

// put writes spans to the journal before they are owned.
func (s *store) put(ctx context.Context, now time.Time, caller *origin.Caller, taken ptrace.Traces) (tickets func(int) journal.Ticket, err error) {
	if !s.enabled() {
		return nil, nil
	}
	tickets, err = s.journal.Put(ctx, now, caller.Metadata(), taken)
	s.report(ctx, err)
	return tickets, err
}

// accepted records what the next consumer has of a parcel. An error loses nothing.
func (s *store) accepted(ctx context.Context, p *parcel) {
	s.record(ctx, s.journal.Sent, p.sent)
	s.record(ctx, s.journal.Delete, p.done)
}

// forget records that the facts of spans are forgotten. A span that is still to be forwarded stays until
// then.
func (s *store) forget(ctx context.Context, tickets []journal.Ticket) {
	s.record(ctx, s.journal.Forget, tickets)
}

func (s *store) record(ctx context.Context, how func(context.Context, []journal.Ticket) error, tickets []journal.Ticket) {
	if !s.enabled() || len(tickets) == 0 {
		return
	}
	err := how(context.WithoutCancel(ctx), tickets)
	s.report(ctx, err)
	if err != nil {
		s.logger.Error("Failed to delete forwarded spans from the storage; after a restart they come again", zap.Error(err))
	}
}

func (s *store) report(ctx context.Context, err error) {
	s.health.storageResult(err)
	s.telemetry.wrote(ctx, err)
}
