// Package exampletest runs the small example programs, one per SDK, against the model
// server that breaks. The programs differ only in the SDK.
package exampletest

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/examples/internal/otlptest"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// Example is a small example program.
type Example struct {
	Ask   func(ctx context.Context, out io.Writer, question string) error
	Wire  faultyllm.Wire
	Env   string // prefix of the SDK's environment variables, such as OPENAI
	Model string
}

// Run runs the program with a complete answer, one that is reset, and one that ends
// cleanly without its terminal event.
func Run(t *testing.T, e Example) {
	t.Helper()
	for _, tc := range []struct {
		name  string
		steps []faultyllm.Step
		says  []string // in the output
		cause any      // llm.transport.cause on the request's span
		fails bool
	}{
		{"whole", []faultyllm.Step{faultyllm.Text("Rayleigh ", "scattering."), faultyllm.Finish(faultyllm.Stop)}, []string{"Rayleigh scattering."}, nil, false},
		{"reset", []faultyllm.Step{faultyllm.Text("Rayleigh "), faultyllm.Reset()}, []string{"Rayleigh ", "user_confirmed_retry: visible_output"}, "connection_reset", true},
		// The SDK reports no error: only the diagnosis shows the failure.
		{"clean end", []faultyllm.Step{faultyllm.Text("Rayleigh "), faultyllm.CleanEnd()}, []string{"user_confirmed_retry: visible_output"}, "clean_eof", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv, err := faultyllm.Start()
			require.NoError(t, err)
			defer func() { assert.NoError(t, srv.Close()) }()
			srv.Play("c", faultyllm.Answer(tc.steps...))
			spans := otlptest.Start(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", spans.URL)
			t.Setenv(e.Env+"_BASE_URL", srv.BaseURL("c", e.Wire))
			t.Setenv(e.Env+"_API_KEY", "sk-none")

			var out bytes.Buffer
			err = e.Ask(t.Context(), &out, "Why is the sky blue?")
			assert.Equal(t, tc.fails, err != nil, "%v", err)
			for _, words := range tc.says {
				assert.Contains(t, out.String(), words)
			}
			names := spans.Names()
			assert.Contains(t, names, "invoke_agent example")
			requests := spans.Named("chat " + e.Model)
			require.Len(t, requests, 1)
			assert.Equal(t, tc.cause, requests[0].Attributes[string(semconv.TransportCauseKey)])
		})
	}
}
