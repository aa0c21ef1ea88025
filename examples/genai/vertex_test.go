package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// Vertex AI streams function calls in pieces, so a stream can be cut in a call.
func TestCutInACallOfVertexAI(t *testing.T) {
	half := faultyllm.ToolInput("", "forecast", `{"country":"Norway","city":`)
	for _, tc := range []struct {
		name  string
		fault faultyllm.Step
		opts  []otelllm.TransportOption
		cause semconv.Cause
		phase semconv.Phase
		said  bool // whether the SDK reports the error
	}{
		{"clean end", faultyllm.CleanEnd(), nil, semconv.CauseCleanEOF, semconv.PhaseToolCallReady, false},
		{"clean end, stream errors", faultyllm.CleanEnd(), []otelllm.TransportOption{otelllm.WithStreamErrors()}, semconv.CauseCleanEOF, semconv.PhaseToolCallReady, true},
		{"reset", faultyllm.Reset(), nil, semconv.CauseConnectionReset, semconv.PhaseToolInput, true},
		{"truncated", faultyllm.Truncate(), nil, semconv.CauseBodyTruncated, semconv.PhaseToolInput, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv, err := faultyllm.Start()
			require.NoError(t, err)
			defer func() { assert.NoError(t, srv.Close()) }()
			srv.Play("c", faultyllm.Answer(half, tc.fault))
			base := &http.Transport{}
			defer base.CloseIdleConnections()
			client, err := genai.NewClient(t.Context(), &genai.ClientConfig{
				Backend: genai.BackendVertexAI, Project: "p", Location: "l",
				HTTPClient:  &http.Client{Transport: otelllm.NewTransport(base, tc.opts...)},
				HTTPOptions: genai.HTTPOptions{BaseURL: srv.BaseURL("c", faultyllm.Vertex)},
			})
			require.NoError(t, err)

			// A client that takes a clean end for the end of the answer may execute the call. This one
			// records its tools, and executes none.
			ctx, run := otelllm.StartRun(t.Context(), "test", otelllm.WithToolsRecorded())
			_, err = read(ctx, client.Models, t.Output(), genai.Text("Will it snow in Oslo?"))
			run.End(err)
			assert.Equal(t, tc.said, err != nil, "%v", err)
			d := run.Diagnosis()
			assert.Equal(t, tc.cause, d.Cause)
			assert.Equal(t, tc.phase, d.Phase)
			reason := semconv.RetryReasonIncompleteToolInput
			if tc.phase == semconv.PhaseToolCallReady {
				reason = semconv.RetryReasonToolCallNotExecuted
			}
			assert.Equal(t, reason, d.Retry.Reason)
			assert.Equal(t, semconv.RetrySafetySafeAutoRetry, d.Retry.Safety)
		})
	}
}
