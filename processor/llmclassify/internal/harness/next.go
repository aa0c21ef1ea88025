package harness

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// ErrDown is the error of Down.
var ErrDown = errors.New("down for now")

// FlakyNext is a next consumer that fails as it is told, spoiling what it was
// given if it mutates.
type FlakyNext struct {
	consumertest.TracesSink
	Mutates bool
	Fail    func(ptrace.Traces) error // nil: takes everything

	mu      sync.Mutex // guards the fields below: shards forward at the same time at a shutdown
	Tries   int
	Tenants []string // of the clients in whose name spans came
}

// Capabilities implements consumer.Traces.
func (n *FlakyNext) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: n.Mutates}
}

// ConsumeTraces implements consumer.Traces.
func (n *FlakyNext) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	n.mu.Lock()
	n.Tries++
	n.Tenants = append(n.Tenants, client.FromContext(ctx).Metadata.Get("tenant")...)
	n.mu.Unlock()
	if n.Fail != nil {
		if err := n.Fail(td); err != nil {
			if n.Mutates {
				td.ResourceSpans().RemoveIf(func(ptrace.ResourceSpans) bool { return true })
			}
			return err
		}
	}
	return n.TracesSink.ConsumeTraces(ctx, td)
}

// Down refuses every call for now.
func Down(ptrace.Traces) error { return ErrDown }
