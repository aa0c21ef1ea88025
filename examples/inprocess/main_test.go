package main

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/examples/internal/otlptest"
	"github.com/otelllm/otelllm-go/otelllm"
)

// aborter aborts the run.
type aborter func(source otelllm.AbortSource, reason string)

func TestTheExample(t *testing.T) {
	broke := errors.New("out of memory on device 0")
	for _, tt := range []struct {
		name  string
		model func(abort aborter) model
		says  string
		err   error
		want  map[string]any // attributes of the request's span
	}{
		{
			"whole", func(aborter) model { return backwards }, "blue? sky ", nil,
			map[string]any{
				"llm.stream.end": "terminal_event", "llm.stream.phase": "stream_end", "llm.stream.text_chunks": int64(2), "llm.stream.reasoning_chunks": int64(1),
				"gen_ai.usage.output_tokens": int64(3), "gen_ai.provider.name": "local", "error.type": nil,
			},
		},
		{
			"failing in the middle", func(aborter) model { return playing(piece{text: "blue? "}, piece{err: broke}) },
			"user_confirmed_retry: visible_output", broke,
			map[string]any{"llm.stream.end": "read_error", "llm.stream.phase": "text", "error.type": "*errors.errorString"},
		},
		{
			"ending early", func(aborter) model { return playing(piece{text: "blue? "}) },
			"user_confirmed_retry: visible_output", nil, // the model reports no error: only the diagnosis shows the failure
			map[string]any{"llm.stream.end": "eof", "llm.transport.cause": "clean_eof", "error.type": "clean_eof"},
		},
		{
			"failing before a word", func(aborter) model { return playing(piece{err: broke}) },
			"", broke,
			map[string]any{"llm.stream.end": "no_response", "llm.stream.phase": "awaiting_response"},
		},
		{
			"aborted", func(abort aborter) model {
				return func(ctx context.Context, _ string) <-chan piece {
					c := make(chan piece, 1)
					c <- piece{text: "blue? "}
					abort(otelllm.AbortUser, "ctrl_c")
					close(c)
					return c
				}
			}, "no_retry: user_abort", context.Canceled,
			map[string]any{"llm.stream.end": "cancelled", "llm.abort.source": "user", "llm.abort.reason": "ctrl_c", "llm.stream.phase": "text", "error.type": nil},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spans := otlptest.Start(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", spans.URL)
			ctx, abort := otelllm.WithAbort(t.Context())
			var out bytes.Buffer
			err := ask(ctx, &out, tt.model(abort), "sky blue?")
			require.ErrorIs(t, err, tt.err)
			assert.Contains(t, out.String(), tt.says)
			requests := spans.Named("chat backwards-1b")
			require.Len(t, requests, 1)
			for key, want := range tt.want {
				assert.Equal(t, want, requests[0].Attributes[key], key)
			}
			assert.Len(t, spans.Named("invoke_agent example"), 1)
			for _, s := range requests {
				for key, value := range s.Attributes {
					assert.NotEqual(t, broke.Error(), value, key)
				}
			}
		})
	}
}

// playing returns a model that generates these pieces.
func playing(pieces ...piece) model {
	return func(ctx context.Context, _ string) <-chan piece { return play(ctx, pieces) }
}
