package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// A portion of complete traces is judged by one Engine.
const (
	portionSpans = 50_000
	// patience is longer than any portion takes: the Engine's shutdown judges what is not
	// complete.
	patience = time.Hour
	// forever is longer than a run: all of it is given at once, and nothing is forgotten.
	forever = 100 * 365 * 24 * time.Hour
	noBound = 1 << 30
)

// Judge judges complete traces, given one after the other, and passes their spans to next
// with their verdicts. What is not complete by then never will be.
func Judge(ctx context.Context, again bool, traces []ptrace.Traces, next func(ptrace.Traces)) error {
	for len(traces) > 0 {
		n, spans := 0, 0
		for n < len(traces) && (n == 0 || spans+traces[n].SpanCount() <= portionSpans) {
			spans += traces[n].SpanCount()
			n++
		}
		if err := judgePortion(ctx, again, traces[:n], next); err != nil {
			return err
		}
		traces = traces[n:]
	}
	return nil
}

func judgePortion(ctx context.Context, again bool, traces []ptrace.Traces, next func(ptrace.Traces)) (err error) {
	var mu sync.Mutex
	e, err := Start(ctx, Config{MaxHold: patience, RunTimeout: forever, MaxHeldBytes: noBound, MaxSpansPerRun: noBound, Again: again},
		func(_ context.Context, td ptrace.Traces) error {
			mu.Lock()
			defer mu.Unlock()
			next(td)
			return nil
		})
	if err != nil {
		return err
	}
	defer func() {
		if stopped := e.Shutdown(ctx); err == nil && stopped != nil {
			err = fmt.Errorf("judge what is left: %w", stopped)
		}
	}()
	for _, td := range traces {
		if err := e.ConsumeTraces(ctx, td); err != nil {
			return fmt.Errorf("judge a trace of %d spans: %w", td.SpanCount(), err)
		}
	}
	return nil
}
