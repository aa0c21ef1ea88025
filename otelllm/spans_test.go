package otelllm

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/semconv"
)

// measuredTimes are the attributes whose values are measured times.
var measuredTimes = map[attribute.Key]bool{
	"gen_ai.response.time_to_first_chunk": true, "llm.stream.time_to_headers": true,
	"llm.stream.last_progress": true, "llm.stream.longest_gap": true,
}

// facts returns a span's attributes without those that change from run to run. Measured
// times are checked to be positive and at most the length of the span.
func facts(t *testing.T, s span) map[string]any {
	t.Helper()
	m := map[string]any{}
	for _, kv := range s.Attributes() {
		switch {
		case measuredTimes[kv.Key]:
			assert.Positive(t, kv.Value.AsFloat64(), kv.Key)
			assert.LessOrEqual(t, kv.Value.AsFloat64(), s.EndTime().Sub(s.StartTime()).Seconds(), kv.Key)
		case kv.Key == "server.port", kv.Key == "server.address":
		default:
			m[string(kv.Key)] = kv.Value.AsInterface()
		}
	}
	return m
}

func TestStreamSpans(t *testing.T) {
	own := map[string]stream{}
	for _, s := range ownStreams() {
		own[s.name] = s
	}
	for _, tt := range []struct {
		stream string
		body   string
		name   string
		want   map[string]any
		events []string
	}{
		{
			"own/chat",
			`{"model":"gpt-5","stream":true,"tools":[{"type":"function","function":{"name":"read_file"}}],"messages":[
				{"role":"assistant","tool_calls":[{"id":"call_0","type":"function","function":{"name":"read_file","arguments":"{}"}}]},
				{"role":"tool","tool_call_id":"call_0","content":"secret"}]}`,
			"chat gpt-5",
			map[string]any{
				"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5", "gen_ai.request.stream": true,
				"gen_ai.response.id": "chatcmpl-1", "gen_ai.response.model": "gpt-5-x", "gen_ai.response.finish_reasons": []string{"tool_calls"},
				"gen_ai.usage.input_tokens": int64(11), "gen_ai.usage.output_tokens": int64(7),
				"gen_ai.usage.cache_read.input_tokens": int64(5), "gen_ai.usage.reasoning.output_tokens": int64(2),
				"http.response.status_code": int64(200), "llm.request.id": "req_1",
				"network.protocol.version": "1.1", "llm.connection.reused": false,
				"llm.request.provider_tools": []string{}, "llm.history.tool_calls": []string{"call_0"}, "llm.history.tool_outputs": []string{"call_0"},
				"llm.stream.phase": "stream_end", "llm.stream.end": "terminal_event",
				"llm.stream.events": int64(8), "llm.stream.keepalives": int64(0), "llm.stream.bytes": int64(len(strings.Join(own["own/chat"].events, ""))),
				"llm.stream.text_chunks": int64(1), "llm.stream.reasoning_chunks": int64(1),
				"llm.stream.tool_inputs_started": int64(1), "llm.stream.tool_inputs_completed": int64(1), "llm.stream.tool_calls": int64(1),
				"llm.stream.tool_call_ids": []string{"call_1"}, "llm.stream.tool_call_names": []string{"read_file"}, "llm.stream.provider_tools_started": int64(0),
			},
			[]string{
				"llm.request.written", "llm.response.started", "llm.stream.first_progress", "llm.stream.reasoning_started",
				"llm.stream.text_started", "llm.stream.tool_input_started", "llm.stream.tool_input_completed", "llm.stream.finish",
			},
		},
		{
			"own/responses", `{"model":"gpt-5","stream":true,"tools":[{"type":"web_search"}],"input":[],"previous_response_id":"resp_0"}`,
			"chat gpt-5",
			map[string]any{
				"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5", "gen_ai.request.stream": true,
				"gen_ai.response.id": "resp_1", "gen_ai.response.model": "gpt-5-x", "gen_ai.response.finish_reasons": []string{"tool_calls"},
				"gen_ai.usage.input_tokens": int64(3), "gen_ai.usage.output_tokens": int64(4),
				"http.response.status_code": int64(200), "llm.request.id": "req_1",
				"network.protocol.version": "1.1", "llm.connection.reused": false,
				"llm.request.provider_tools": []string{"web_search"}, // the server has the calls of the history, so they are not observed
				"llm.history.tool_outputs":   []string{},
				"llm.stream.phase":           "stream_end", "llm.stream.end": "terminal_event",
				"llm.stream.events": int64(9), "llm.stream.keepalives": int64(0), "llm.stream.bytes": int64(len(strings.Join(own["own/responses"].events, ""))),
				"llm.stream.text_chunks": int64(0), "llm.stream.reasoning_chunks": int64(1),
				"llm.stream.tool_inputs_started": int64(1), "llm.stream.tool_inputs_completed": int64(1), "llm.stream.tool_calls": int64(1),
				"llm.stream.tool_call_ids": []string{"call_3"}, "llm.stream.tool_call_names": []string{"read_file"}, "llm.stream.provider_tools_started": int64(0),
			},
			[]string{
				"llm.request.written", "llm.response.started", "llm.stream.first_progress", "llm.stream.reasoning_started",
				"llm.stream.tool_input_started", "llm.stream.tool_input_completed", "llm.stream.finish",
			},
		},
		{
			"own/messages", `{"model":"claude-x","stream":true,"messages":[]}`,
			"chat claude-x",
			map[string]any{
				"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-x", "gen_ai.request.stream": true,
				"gen_ai.response.id": "msg_1", "gen_ai.response.model": "claude-x", "gen_ai.response.finish_reasons": []string{"tool_use"},
				"gen_ai.usage.input_tokens": int64(9), "gen_ai.usage.output_tokens": int64(8),
				"http.response.status_code": int64(200), "llm.request.id": "req_1",
				"network.protocol.version": "1.1", "llm.connection.reused": false,
				"llm.request.provider_tools": []string{}, "llm.history.tool_calls": []string{}, "llm.history.tool_outputs": []string{},
				"llm.stream.phase": "stream_end", "llm.stream.end": "terminal_event",
				"llm.stream.events": int64(12), "llm.stream.keepalives": int64(1), "llm.stream.bytes": int64(len(strings.Join(own["own/messages"].events, ""))),
				"llm.stream.text_chunks": int64(1), "llm.stream.reasoning_chunks": int64(1),
				"llm.stream.tool_inputs_started": int64(1), "llm.stream.tool_inputs_completed": int64(1), "llm.stream.tool_calls": int64(1),
				"llm.stream.tool_call_ids": []string{"toolu_1"}, "llm.stream.tool_call_names": []string{"read_file"}, "llm.stream.provider_tools_started": int64(0),
			},
			[]string{
				"llm.request.written", "llm.response.started", "llm.stream.first_progress", "llm.stream.reasoning_started",
				"llm.stream.text_started", "llm.stream.tool_input_started", "llm.stream.tool_input_completed", "llm.stream.finish",
			},
		},
	} {
		t.Run(tt.stream, func(t *testing.T) {
			for _, events := range []bool{true, false} {
				r := newRecorder(t)
				url := scriptedServer(t, strings.Replace(sseHead, "\r\n\r\n", "\r\nX-Request-Id: req_1\r\n\r\n", 1)+strings.Join(own[tt.stream].events, ""), nil)
				opts := []TransportOption{WithTracerProvider(r)}
				if !events {
					opts = append(opts, WithoutEvents())
				}
				got, err := call(t.Context(), requestTransport(base(t), opts...), url+own[tt.stream].path, tt.body)
				require.NoError(t, err)
				assert.Equal(t, strings.Join(own[tt.stream].events, ""), got)
				s := r.only(t)
				assert.Equal(t, tt.name, s.Name())
				assert.Equal(t, trace.SpanKindClient, s.SpanKind())
				assert.Equal(t, tt.want, facts(t, s))
				assert.Equal(t, "127.0.0.1", s.get("server.address"))
				assert.Equal(t, sdktrace.Status{}, s.Status())
				assert.Equal(t, ScopeName, s.InstrumentationScope().Name)
				if !events {
					assert.Empty(t, s.Events())
					continue
				}
				assert.Equal(t, tt.events, s.events())
				for i, e := range s.Events() {
					if i > 0 {
						assert.False(t, e.Time.Before(s.Events()[i-1].Time), "events in order")
					}
					assert.False(t, e.Time.Before(s.StartTime()))
					assert.False(t, e.Time.After(s.EndTime()))
				}
			}
		})
	}
}

func TestBodiesThatDoNotStream(t *testing.T) {
	for _, tt := range []struct {
		path, request, response string
		finish                  []string
	}{
		{
			chatPath, `{"model":"m","messages":[]}`,
			`{"id":"r1","model":"m-1","choices":[{"index":0,"message":{"content":"hi","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
			[]string{"tool_calls"},
		},
		{
			responsesPath, `{"model":"m","input":[]}`,
			`{"id":"r1","object":"response","model":"m-1","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"hi"}]},{"type":"function_call","call_id":"call_1","name":"f","arguments":"{}"}],"usage":{"input_tokens":1,"output_tokens":2}}`,
			[]string{"tool_calls"},
		},
		{
			messagesPath, `{"model":"m","messages":[]}`,
			`{"id":"r1","type":"message","model":"m-1","content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"call_1","name":"f","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}`,
			[]string{"tool_use"},
		},
	} {
		t.Run(tt.path, func(t *testing.T) {
			r := newRecorder(t)
			_, err := call(t.Context(), NewTransport(base(t), WithTracerProvider(r)), scriptedServer(t, jsonHead+tt.response, nil)+tt.path, tt.request)
			require.NoError(t, err)
			s := r.only(t)
			assert.Equal(t, "chat m", s.Name())
			for key, want := range map[attribute.Key]any{
				"gen_ai.request.stream": false, "gen_ai.response.id": "r1", "gen_ai.response.model": "m-1", "gen_ai.response.finish_reasons": tt.finish,
				"gen_ai.usage.input_tokens": int64(1), "gen_ai.usage.output_tokens": int64(2), "llm.stream.phase": "stream_end", "llm.stream.end": "terminal_event",
				"llm.stream.tool_calls": int64(1), "llm.stream.tool_call_ids": []string{"call_1"}, "llm.stream.text_chunks": int64(1),
				"gen_ai.response.time_to_first_chunk": nil, "llm.stream.keepalives": nil, "error.type": nil,
			} {
				assert.Equal(t, want, s.get(key), key)
			}
			assert.False(t, s.failed())
		})
	}
}

func TestMostEvents(t *testing.T) {
	var b strings.Builder
	b.WriteString(`data: {"choices":[{"index":0,"delta":{"tool_calls":[`)
	for i := range 60 {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(`{"index":` + strconv.Itoa(i) + `,"id":"call_` + strconv.Itoa(i) + `","function":{"name":"f","arguments":"{}"}}`)
	}
	b.WriteString("]}}]}\n\n")
	r := newRecorder(t)
	_, err := call(t.Context(), NewTransport(base(t), WithTracerProvider(r)), scriptedServer(t, sseHead+b.String(), nil)+chatPath, chatBody)
	require.NoError(t, err)
	s := r.only(t)
	assert.LessOrEqual(t, len(s.Events()), 32)
	assert.Equal(t, semconv.EventStreamInterrupted, s.events()[len(s.Events())-1], "the event of the end is never left out")
	assert.Equal(t, int64(60), s.get("llm.stream.tool_inputs_started"))
	for _, e := range s.Events() {
		if e.Name == semconv.EventStreamToolInputStarted {
			assert.Len(t, e.Attributes, 2)
		}
	}
}
