// Package setup gives the packages manual, realtime and responses what an otelllm.Instrumentation
// records with, which package otelllm does not export. They import otelllm, and cannot be
// imported by it; so otelllm sets [Of], and they call it.
package setup

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/internal/inferred"
	"github.com/otelllm/otelllm-go/otelllm/internal/record"
)

// Setup is what the requests of an Instrumentation are recorded with.
type Setup struct {
	Record         record.Config
	TracerProvider trace.TracerProvider // nil: that of the span in the context, or the global one
	Provider       string               // gen_ai.provider.name for every request; "": not set
	Inferred       *inferred.Source     // nil: no runs are inferred
}

// Of returns the setup of an *otelllm.Instrumentation. If that is nil, it is the setup of
// otelllm's functions.
var Of func(instrumentation any) Setup
