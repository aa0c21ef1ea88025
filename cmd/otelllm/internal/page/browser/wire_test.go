package browser_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/runs"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
)

// The tests over wires take the whole way: an agent with the library, a model server that
// breaks, the engine, the store, and the page in a browser.

// wires is an agent whose spans go to the engine and from there to a store.
type wires struct {
	store    *runs.Store
	provider *sdktrace.TracerProvider
	lib      *otelllm.Instrumentation
	server   *httptest.Server

	mu   sync.Mutex
	left []string // the answers to the next requests
}

// startWires starts them all. The answers of the model are words such as "text pause text
// reset", one string for each request.
func startWires(t *testing.T, answers ...string) *wires {
	t.Helper()
	w := &wires{store: runs.NewStore(100_000, nil), left: answers}
	judge, err := engine.Start(t.Context(), engine.Config{}, func(_ context.Context, td ptrace.Traces) error {
		w.store.Add(td)
		return nil
	})
	require.NoError(t, err)
	w.provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(judge.NewExporter()))
	w.lib = otelllm.New(otelllm.WithTracerProvider(w.provider))
	w.server = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(func() {
		w.server.CloseClientConnections()
		w.server.Close()
		_ = judge.Shutdown(context.Background())
	})
	return w
}

const (
	pause    = 120 * time.Millisecond
	chunk    = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-5.1","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}` + "\n\n"
	toolName = "apply_patch"
)

func (w *wires) serve(rw http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.mu.Lock()
	answer := w.left[0]
	w.left = w.left[1:]
	w.mu.Unlock()
	out := http.NewResponseController(rw)
	say := func(delta, finish string) {
		fmt.Fprintf(rw, chunk, delta, finish)
		_ = out.Flush()
	}
	rw.Header().Set("Content-Type", "text/event-stream")
	for word := range strings.FieldsSeq(answer) {
		switch word {
		case "pause":
			time.Sleep(pause)
		case "text":
			say(`{"role":"assistant","content":"some words"}`, "null")
		case "tool":
			say(`{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"`+toolName+`","arguments":"{\"path\":\"a\"}"}}]}`, "null")
			say(`{}`, `"tool_calls"`)
			fmt.Fprint(rw, "data: [DONE]\n\n")
		case "done":
			say(`{}`, `"stop"`)
			fmt.Fprint(rw, "data: [DONE]\n\n")
		case "busy":
			http.Error(rw, `{"error":{"message":"overloaded","type":"server_error","code":"overloaded"}}`, http.StatusServiceUnavailable)
		case "reset":
			conn, _, err := out.Hijack()
			if err != nil {
				panic(err)
			}
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
			return
		}
	}
}

// ask makes one model call, with the output of the tool if it has run, and reports whether the
// model asks for the tool.
func (w *wires) ask(ctx context.Context, withOutput bool) (bool, error) {
	messages := []map[string]any{{"role": "user", "content": "fix it"}}
	if withOutput {
		messages = append(messages,
			map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{
				"id": "call_1", "type": "function", "function": map[string]any{"name": toolName, "arguments": `{"path":"a"}`},
			}}},
			map[string]any{"role": "tool", "tool_call_id": "call_1", "content": "ok"})
	}
	body, err := json.Marshal(map[string]any{"model": "gpt-5.1", "stream": true, "messages": messages})
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.URL+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: w.lib.NewTransport(&http.Transport{DisableKeepAlives: true})}
	res, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return bytes.Contains(raw, []byte(`"tool_calls":[`)), err
}

// run is one run of the agent: it asks until the model wants nothing more or a call fails.
func (w *wires) run(ctx context.Context, agent string) (err error) {
	ctx, run := w.lib.StartRun(ctx, agent)
	defer run.Done(&err)
	ran := false
	for {
		asks, err := w.ask(ctx, ran)
		if err != nil || !asks {
			return err
		}
		_, tool := w.lib.StartTool(ctx, otelllm.ToolCall{Name: toolName, ID: "call_1", Effect: semconv.ToolEffectNonIdempotent})
		time.Sleep(pause)
		tool.End(nil)
		ran = true
	}
}
