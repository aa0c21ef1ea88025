package websocket

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	sdk "github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/otelllm/responses"
)

// TestSDK compares what openai-go's own client of the WebSocket returned with what was recorded.
func TestSDK(t *testing.T) {
	for what, want := range map[fault]map[attribute.Key]any{
		answers: {"llm.stream.end": "terminal_event", "llm.stream.text_chunks": int64(20), "llm.stream.unread": nil},
		resets:  {"llm.stream.end": "read_error", "llm.transport.cause": "connection_reset"},
		closes:  {"llm.stream.end": "read_error", "llm.transport.cause": "clean_eof", "llm.transport.code": "WS_1001"},
		refuses: {"llm.provider_error.code": "previous_response_not_found"},
	} {
		t.Run(fmt.Sprint(what), func(t *testing.T) {
			recorded, with := record(t)
			url := serve(t, what, websocket.CompressionContextTakeover)
			// The handshake goes through the transport, which leaves it alone.
			client := openai.NewClient(option.WithBaseURL("http"+strings.TrimSuffix(strings.TrimPrefix(url, "ws"), "/responses")), option.WithAPIKey("none"),
				option.WithHTTPClient(&http.Client{Transport: with.NewTransport(http.DefaultTransport)}))
			conn, err := client.Responses.Connect(t.Context(), sdk.ResponseConnectionOptions{})
			require.NoError(t, err)
			defer conn.Abort()
			s := responses.NewSession(t.Context(), responses.Config{URL: url, Instrumentation: with})
			texts, end := 0, error(nil)
			for _, frame := range []string{warm, ask} {
				require.NoError(t, conn.SendRaw(t.Context(), json.RawMessage(frame)))
				s.RecordSent([]byte(frame))
				for over := false; !over && end == nil; {
					var event sdk.ResponsesServerEventUnion
					if event, end = conn.Recv(t.Context()); end != nil {
						break
					}
					s.RecordReceived([]byte(event.RawJSON()))
					switch event.Type {
					case "response.output_text.delta":
						texts++
					case "response.completed", "error":
						over = true
					}
				}
				if end != nil {
					break
				}
			}
			s.Close(end)
			require.NoError(t, with.Shutdown(context.Background()))
			got := recorded.only(t, trace.SpanKindClient)
			for key, value := range want {
				assert.Equal(t, value, got[key], key)
			}
			if texts > 0 {
				assert.Equal(t, int64(texts), got["llm.stream.text_chunks"], "as the SDK returned them")
			}
		})
	}
}
