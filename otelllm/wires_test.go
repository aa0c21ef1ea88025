package otelllm

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
)

// awsMessage returns one message of an AWS event-stream: a prelude with its checksum,
// headers of the type string, a payload, and the checksum of the whole message.
func awsMessage(event, payload string) string {
	return awsHeaders([][2]string{{":event-type", event}, {":content-type", "application/json"}, {":message-type", "event"}}, payload)
}

// awsHeaders returns a message with these headers.
func awsHeaders(strings [][2]string, payload string) string {
	var headers bytes.Buffer
	for _, h := range strings {
		headers.WriteByte(byte(len(h[0])))
		headers.WriteString(h[0])
		headers.WriteByte(7)
		_ = binary.Write(&headers, binary.BigEndian, uint16(len(h[1])))
		headers.WriteString(h[1])
	}
	var b bytes.Buffer
	_ = binary.Write(&b, binary.BigEndian, uint32(16+headers.Len()+len(payload)))
	_ = binary.Write(&b, binary.BigEndian, uint32(headers.Len()))
	_ = binary.Write(&b, binary.BigEndian, crc32.ChecksumIEEE(b.Bytes()))
	b.Write(headers.Bytes())
	b.WriteString(payload)
	_ = binary.Write(&b, binary.BigEndian, crc32.ChecksumIEEE(b.Bytes()))
	return b.String()
}

// TestWires reads answers of every protocol that is not OpenAI's or Anthropic's through the
// transport: complete ones, and ones that the server cleanly ends after the text.
func TestWires(t *testing.T) {
	head := func(contentType string) string {
		return "HTTP/1.1 200 OK\r\nContent-Type: " + contentType + "\r\nConnection: close\r\n\r\n"
	}
	for _, w := range []struct {
		name, path, body, head string
		text, rest             string
		span                   string
		want                   map[attribute.Key]any
	}{
		{
			"gemini", "/v1beta/models/gemini-x:streamGenerateContent", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, head("text/event-stream"),
			"data: {\"candidates\":[{\"index\":0,\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\r\n\r\n",
			"data: {\"candidates\":[{\"index\":0,\"content\":{\"parts\":[{\"text\":\"b\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":3,\"candidatesTokenCount\":2}}\r\n\r\n",
			"generate_content gemini-x",
			map[attribute.Key]any{"gen_ai.provider.name": "gcp.gemini", "gen_ai.response.finish_reasons": []string{"STOP"}, "gen_ai.usage.input_tokens": int64(3), "llm.stream.text_chunks": int64(2)},
		},
		{
			"ollama", "/api/chat", `{"model":"llama-x","messages":[{"role":"user","content":"hi"}]}`, head("application/x-ndjson"),
			"{\"model\":\"llama-x\",\"message\":{\"role\":\"assistant\",\"content\":\"a\"},\"done\":false}\n",
			"{\"model\":\"llama-x\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":3,\"eval_count\":2}\n",
			"chat llama-x",
			map[attribute.Key]any{"gen_ai.provider.name": "ollama", "gen_ai.response.finish_reasons": []string{"stop"}, "gen_ai.usage.output_tokens": int64(2), "llm.stream.text_chunks": int64(1)},
		},
		{
			"bedrock", "/model/anthropic.claude-x/converse-stream", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, head("application/vnd.amazon.eventstream"),
			awsMessage("messageStart", `{"role":"assistant"}`) + awsMessage("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"a"}}`),
			awsMessage("contentBlockStop", `{"contentBlockIndex":0}`) + awsMessage("messageStop", `{"stopReason":"end_turn"}`) + awsMessage("metadata", `{"usage":{"inputTokens":3,"outputTokens":2}}`),
			"chat anthropic.claude-x",
			map[attribute.Key]any{"gen_ai.provider.name": "aws.bedrock", "gen_ai.response.finish_reasons": []string{"end_turn"}, "gen_ai.usage.input_tokens": int64(3), "llm.stream.text_chunks": int64(1)},
		},
	} {
		t.Run(w.name+"/complete", func(t *testing.T) {
			r := newRecorder(t)
			ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, scriptedServer(t, w.head+w.text+w.rest, nil)+w.path, strings.NewReader(w.body))
			require.NoError(t, err)
			resp, err := NewTransport(base(t)).RoundTrip(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			got := make([]byte, len(w.text+w.rest))
			_, err = io.ReadFull(resp.Body, got)
			require.NoError(t, err)
			assert.Equal(t, w.text+w.rest, string(got))
			assert.Equal(t, "succeeded", run.Diagnosis().Outcome.String(), "the end of the answer has been read, although the body is open")
			require.NoError(t, resp.Body.Close())
			s := r.only(t)
			assert.Equal(t, w.span, s.Name())
			assert.False(t, s.failed())
			assert.Equal(t, "terminal_event", s.get("llm.stream.end"))
			assert.Equal(t, "stream_end", s.get("llm.stream.phase"))
			for key, want := range w.want {
				assert.Equal(t, want, s.get(key), key)
			}
		})
		t.Run(w.name+"/cut", func(t *testing.T) {
			r := newRecorder(t)
			ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
			got, err := call(ctx, NewTransport(base(t)), scriptedServer(t, w.head+w.text, nil)+w.path, w.body)
			require.NoError(t, err)
			assert.Equal(t, w.text, got)
			s := r.only(t)
			assert.True(t, s.failed())
			assert.Equal(t, "clean_eof", s.get("llm.transport.cause"))
			assert.Equal(t, "text", s.get("llm.stream.phase"))
			d := run.Diagnosis()
			assert.Equal(t, "stream_interrupted/clean_eof user_confirmed_retry", d.Class.String()+"/"+d.Cause.String()+" "+d.Retry.Safety.String())
		})
	}
}
