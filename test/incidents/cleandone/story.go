// Package cleandone is the incident of an empty answer: a gateway dropped the
// provider's error and ended the stream normally.
package cleandone

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"

	"github.com/openai/openai-go/v3/option"
	"go.opentelemetry.io/otel/propagation"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/incidents/incident"
	"github.com/otelllm/otelllm-go/test/internal/agent"
)

// Story returns the incident.
func Story() incident.Story {
	return incident.Story{
		Name:  "cleandone",
		Title: "An upstream's error behind a clean [DONE]",
		Met: "The agent returns an empty answer and reports success: there is no error, and every status is 200. " +
			"Dashboards are green while users complain about empty answers.",
		Happened: "The provider was overloaded and reported that inside its 200 stream. The gateway in between forwards only " +
			"events with choices, which an error does not have, and then [DONE]. An answer that ends well and is empty " +
			"is a failure.",
		Do: "Retry automatically: nothing had arrived. Put `otelllm.NewHandler` and `otelllm.NewTransport` into the " +
			"gateway, so that its span names the upstream's error; without them the agent's request still says " +
			"`empty_completion`. Then make the gateway forward errors.",
		Telemetry: "otelhttp, in the agent and on both sides of the gateway; run and model call by hand",
		Acts: []incident.Act{{
			Wire: faultyllm.Chat,
			Script: []faultyllm.Exchange{faultyllm.Answer(
				faultyllm.Begin(), faultyllm.InBand(faultyllm.Failure{Trouble: faultyllm.Overloaded}), faultyllm.End(),
			)},
			Run: run,
			Before: []string{
				`handle_task  unset`,
				`  invoke_agent coder  unset`,
				`    chat gpt-5.5  unset`,
				`      HTTP POST  unset  http.response.status_code=200`,
				`        POST  unset  http.response.status_code=200`,
				`          HTTP POST  unset  http.response.status_code=200`,
			},
			Misled: "HTTP POST",
			After: incident.Verdict{
				Outcome: semconv.RunOutcomeFailed, Class: semconv.ClassEmptyCompletion, Cause: semconv.CauseSwallowedError,
				Phase: semconv.PhaseStreamEnd, Origin: semconv.OriginGateway,
				Safety: semconv.RetrySafetySafeAutoRetry, Reason: semconv.RetryReasonNoOutput,
			},
		}},
	}
}

func run(ctx context.Context, p *incident.Program) (err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	upstream, closeIdle := incident.Client(p.Gateway)
	defer closeIdle()
	g := &http.Server{Handler: p.Gateway.Handler(&gateway{p.BaseURL, upstream})}
	served := make(chan error, 1)
	go func() { served <- g.Serve(ln) }()
	defer func() {
		// Not Close: the spans of open requests end with their handlers.
		err = errors.Join(err, g.Shutdown(context.WithoutCancel(ctx)))
		if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
			err = errors.Join(err, serveErr)
		}
	}()

	client, closeIdle := incident.Client(p.Tracing, otelllm.WithPropagators(propagation.TraceContext{}))
	defer closeIdle()
	a := incident.Agent{
		Model: agent.NewChat(agent.Config{Model: incident.GPT, Stream: true},
			option.WithBaseURL("http://"+ln.Addr().String()+"/v1/"), option.WithAPIKey("sk-none"), option.WithHTTPClient(client)),
		ModelName: incident.GPT,
	}
	return a.Run(ctx, p.Tracing)
}

// gateway forwards the chunks of an answer that have choices, because it inspects them.
type gateway struct {
	upstream string
	client   *http.Client
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, g.upstream+"chat/completions", r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	req.Header.Set("Content-Type", r.Header.Get("Content-Type"))
	resp, err := g.client.Do(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		var chunk struct {
			Choices []json.RawMessage `json:"choices"`
		}
		if ok && json.Unmarshal(data, &chunk) == nil && len(chunk.Choices) > 0 {
			_, _ = w.Write(append(append([]byte("data: "), data...), "\n\n"...))
		}
	}
	_, _ = w.Write([]byte("data: [DONE]\n\n"))
}
