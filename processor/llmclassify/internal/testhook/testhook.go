// Package testhook lets the tests of the processor give it a clock, and reach what is inside of it. Only packages
// of this module can import it.
package testhook

import (
	"context"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/clock"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/intake"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/worker"
)

// Inside is what a test has of a processor beside its exported methods.
type Inside struct {
	*worker.Pool
	Reader  *intake.Reader
	Callers *origin.Callers
}

type key struct{}

type hook struct {
	clock clock.Clock
	made  func(Inside)
}

// With returns a context for the factory: the processor that it makes has this clock, and made is called
// with what is inside of it.
func With(ctx context.Context, c clock.Clock, made func(Inside)) context.Context {
	return context.WithValue(ctx, key{}, hook{c, made})
}

// From returns what With was given, or the time of the machine and a function that does nothing.
func From(ctx context.Context) (clock.Clock, func(Inside)) {
	if h, ok := ctx.Value(key{}).(hook); ok {
		return h.clock, h.made
	}
	return clock.System{}, func(Inside) {}
}
