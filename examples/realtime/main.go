// Realtime talks to a model of the OpenAI Realtime API over a WebSocket and lets it look up the weather. Set
// OPENAI_API_KEY (OPENAI_BASE_URL for another endpoint), OTEL_EXPORTER_OTLP_ENDPOINT (http://localhost:4318 for a
// Collector on this machine) and OTEL_SERVICE_NAME (the name of this agent in the traces), then
//
//	go run ./realtime 'Will it snow in Oslo?'
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/realtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := ask(ctx, os.Stdout, forecast, strings.Join(os.Args[1:], " ")); err != nil {
		log.Fatal(err)
	}
}

func ask(ctx context.Context, out io.Writer, weather tool, question string) error {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return err
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter))
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second) // a signal may have cancelled ctx
		defer cancel()
		_ = provider.Shutdown(ctx) // sends what is left; OpenTelemetry logs what fails
	}()
	otel.SetTracerProvider(provider)

	runCtx, run := otelllm.StartRun(ctx, "example", otelllm.WithToolsRecorded())
	err = talk(runCtx, out, weather, question)
	run.End(err)
	if d := run.Diagnosis(); d.Failed() {
		fmt.Fprintf(out, "\n%s (%s: %s)\n", d.Summary, d.Retry.Safety, d.Retry.Reason)
	}
	return err
}

// tool executes a call of get_weather.
type tool func(ctx context.Context, arguments string) (string, error)

func forecast(_ context.Context, arguments string) (string, error) {
	var where struct {
		City string `json:"city"`
	}
	if err := json.Unmarshal([]byte(arguments), &where); err != nil {
		return "", err
	}
	if where.City == "" {
		return "", errors.New("which city?")
	}
	return "snow in " + where.City, nil
}

// session is a WebSocket and its observer: each frame is reported where it is read or written.
type session struct {
	conn     *websocket.Conn
	observed *realtime.Session
}

func dial(ctx context.Context) (*session, error) {
	url := strings.TrimSuffix(cmp.Or(os.Getenv("OPENAI_BASE_URL"), "https://api.openai.com/v1"), "/") + "/realtime?model=gpt-realtime"
	conn, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + os.Getenv("OPENAI_API_KEY")}},
	})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(1 << 20)
	// Started with the run's context, so that the session's responses and tool outputs belong to the run.
	s := &session{conn, realtime.NewSession(ctx, realtime.Config{})}
	if _, err := s.read(ctx); err != nil { // session.created, which names the model
		_ = conn.CloseNow()
		return nil, err
	}
	return s, nil
}

func (s *session) read(ctx context.Context) (event, error) {
	var e event
	_, frame, err := s.conn.Read(ctx)
	if err != nil {
		s.observed.Close(err) // it cut the open response
		return e, err
	}
	s.observed.RecordReceived(frame)
	return e, json.Unmarshal(frame, &e)
}

func (s *session) write(ctx context.Context, e event) error {
	frame, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := s.conn.Write(ctx, websocket.MessageText, frame); err != nil {
		s.observed.RecordSendFailure(frame, err)
		return err
	}
	s.observed.RecordSent(frame)
	return nil
}

func (s *session) close() {
	s.observed.Close(nil)
	_ = s.conn.Close(websocket.StatusNormalClosure, "")
}

func talk(ctx context.Context, out io.Writer, weather tool, question string) error {
	s, err := dial(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	for _, e := range []event{
		{Type: "session.update", Session: map[string]any{"type": "realtime", "output_modalities": []string{"text"}, "tools": []any{map[string]any{
			"type": "function", "name": "get_weather", "parameters": map[string]any{
				"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"},
			},
		}}}},
		{Type: "conversation.item.create", Item: &item{Type: "message", Role: "user", Content: []content{{"input_text", question}}}},
		{Type: "response.create"},
	} {
		if err := s.write(ctx, e); err != nil {
			return err
		}
	}
	for {
		calls, err := s.response(ctx, out)
		if err != nil || len(calls) == 0 {
			return err
		}
		for _, call := range calls {
			if err := s.write(ctx, event{Type: "conversation.item.create", Item: execute(ctx, weather, call)}); err != nil {
				return err
			}
		}
		if err := s.write(ctx, event{Type: "response.create"}); err != nil {
			return err
		}
	}
}

// response reads until the response is done and returns its calls.
func (s *session) response(ctx context.Context, out io.Writer) (calls []*item, err error) {
	for {
		e, err := s.read(ctx)
		if err != nil {
			return nil, err
		}
		switch e.Type {
		case "response.output_text.delta":
			fmt.Fprint(out, e.Delta)
		case "response.output_item.done":
			if e.Item != nil && e.Item.Type == "function_call" {
				calls = append(calls, e.Item)
			}
		case "response.done":
			if e.Response != nil && e.Response.Status == "failed" {
				return nil, errors.New("the response failed")
			}
			return calls, nil
		case "error":
			return nil, errors.New("the server reports an error")
		}
	}
}

// execute executes a call. Its output or its failure goes to the model. The session's observer records whether it
// arrives there.
func execute(ctx context.Context, weather tool, call *item) *item {
	ctx, span := otelllm.StartTool(ctx, otelllm.ToolCall{ID: call.CallID, Name: call.Name, Effect: otelllm.EffectReadOnly})
	output, err := weather(ctx, call.Arguments)
	span.End(err)
	if err != nil {
		output = "error: " + err.Error()
	}
	return &item{Type: "function_call_output", CallID: call.CallID, Output: output}
}

// event holds the used fields of a client's or a server's event.
type event struct {
	Type     string         `json:"type"`
	Session  map[string]any `json:"session,omitempty"`
	Item     *item          `json:"item,omitempty"`
	Delta    string         `json:"delta,omitempty"`
	Response *struct {
		Status string `json:"status"`
	} `json:"response,omitempty"`
}

type item struct {
	Type      string    `json:"type"`
	Role      string    `json:"role,omitempty"`
	Content   []content `json:"content,omitempty"`
	CallID    string    `json:"call_id,omitempty"`
	Name      string    `json:"name,omitempty"`
	Arguments string    `json:"arguments,omitempty"`
	Output    string    `json:"output,omitempty"`
}

type content struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
}
