package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
)

// Store is the journal with its telemetry. Without a storage extension it does nothing.
type Store struct {
	Journal   *Journal // nil without a storage extension; set by Start
	Telemetry *telemetry.Telemetry
}

// clientName is the name of the storage client.
const clientName = "traces"

// Open opens the journal of a processor in a storage extension.
func (s *Store) Open(ctx context.Context, host component.Host, id, processor component.ID) error {
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
func (s *Store) openIn(ctx context.Context, extension storage.Extension, id, processor component.ID) (err error) {
	defer func() {
		if r := recover(); r != nil { // the client is in an unknown state: it is not touched again
			err = fmt.Errorf("the storage extension %q panicked when it opened what it has for %q (client %q): its data is damaged, move it aside: %v", id, processor, clientName, r)
		}
	}()
	client, err := extension.GetClient(ctx, component.KindProcessor, processor, clientName)
	if err != nil {
		return fmt.Errorf("failed to get the client %q of the storage extension %q: %w", clientName, id, err)
	}
	j, err := Open(ctx, client, s.Telemetry.With(zap.String("client", clientName)))
	if err != nil {
		return errors.Join(err, client.Close(ctx))
	}
	s.Journal = j
	return nil
}

// Enabled reports whether there is a storage extension.
func (s *Store) Enabled() bool { return s.Journal != nil }

// Close closes the journal. Its entries stay for the next start.
func (s *Store) Close(ctx context.Context) error {
	if !s.Enabled() {
		return nil
	}
	return s.Journal.Close(ctx)
}

// Put writes spans to the journal before they are owned.
func (s *Store) Put(ctx context.Context, now time.Time, caller *origin.Caller, taken ptrace.Traces) (tickets func(int) Ticket, err error) {
	if !s.Enabled() {
		return nil, nil
	}
	tickets, err = s.Journal.Put(ctx, now, caller.Metadata(), taken)
	s.report(ctx, err)
	return tickets, err
}

// Accepted records the spans that the next consumer accepted: spans whose facts are kept, and spans that are done. An error
// loses nothing.
func (s *Store) Accepted(ctx context.Context, sent, done []Ticket) {
	s.record(ctx, s.Journal.Sent, sent)
	s.record(ctx, s.Journal.Delete, done)
}

// Forget records that the facts of spans are forgotten. A span that is still to be forwarded stays until then.
func (s *Store) Forget(ctx context.Context, tickets []Ticket) {
	s.record(ctx, s.Journal.Forget, tickets)
}

func (s *Store) record(ctx context.Context, how func(context.Context, []Ticket) error, tickets []Ticket) {
	if !s.Enabled() || len(tickets) == 0 {
		return
	}
	err := how(context.WithoutCancel(ctx), tickets)
	s.report(ctx, err)
	if err != nil {
		s.Telemetry.Error("Failed to delete forwarded spans from the storage; after a restart they come again", zap.Error(err))
	}
}

func (s *Store) report(ctx context.Context, err error) {
	s.Telemetry.Health.StorageResult(err)
	s.Telemetry.Wrote(ctx, err)
}
