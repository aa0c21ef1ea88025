package llmclassify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/journal"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
)

// store is the journal with what reports its errors. Without a storage extension it does
// nothing.
type store struct {
	journal   *journal.Journal // nil without a storage extension; set by Start
	telemetry *telemetry
}

// clientName is the name of the storage client.
const clientName = "traces"

// open opens the journal of a processor in a storage extension.
func (s *store) open(ctx context.Context, host component.Host, id, processor component.ID) error {
	found, ok := host.GetExtensions()[id]
	if !ok {
		return fmt.Errorf("storage extension %q not found: add it to extensions and to service::extensions", id)
	}
	extension, ok := found.(storage.Extension)
	if !ok {
		return fmt.Errorf("requested extension is not a storage extension: %q", id)
	}
	return s.openIn(ctx, extension, id, processor)
}

// openIn opens the journal. A damaged storage may panic here: bbolt checks its file when it opens it.
func (s *store) openIn(ctx context.Context, extension storage.Extension, id, processor component.ID) (err error) {
	defer func() {
		if r := recover(); r != nil { // the client is in an unknown state: it is not touched again
			err = fmt.Errorf("the storage extension %q panicked when it opened what it has for %q (client %q): its data is damaged, move it aside: %v", id, processor, clientName, r)
		}
	}()
	client, err := extension.GetClient(ctx, component.KindProcessor, processor, clientName)
	if err != nil {
		return fmt.Errorf("failed to get the client %q of the storage extension %q: %w", clientName, id, err)
	}
	j, err := journal.Open(ctx, client, s.telemetry.With(zap.String("client", clientName)))
	if err != nil {
		return errors.Join(err, client.Close(ctx))
	}
	s.journal = j
	return nil
}

func (s *store) enabled() bool { return s.journal != nil }

// close closes the journal. What it has stays for the next start.
func (s *store) close(ctx context.Context) error {
	if !s.enabled() {
		return nil
	}
	return s.journal.Close(ctx)
}

// put writes spans to the journal before they are owned.
func (s *store) put(ctx context.Context, now time.Time, caller *origin.Caller, taken ptrace.Traces) (tickets func(int) journal.Ticket, err error) {
	if !s.enabled() {
		return nil, nil
	}
	tickets, err = s.journal.Put(ctx, now, caller.Metadata(), taken)
	s.report(ctx, err)
	return tickets, err
}

// accepted records what the next consumer has: spans of which the facts are kept, and those that are
// done. An error loses nothing.
func (s *store) accepted(ctx context.Context, sent, done []journal.Ticket) {
	s.record(ctx, s.journal.Sent, sent)
	s.record(ctx, s.journal.Delete, done)
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
		s.telemetry.Error("Failed to delete forwarded spans from the storage; after a restart they come again", zap.Error(err))
	}
}

func (s *store) report(ctx context.Context, err error) {
	s.telemetry.health.storageResult(err)
	s.telemetry.wrote(ctx, err)
}
