// Package unheard is the incident of a tool's failure that the model never received: it
// was lost on the way, and the error of the delivery hid it.
package unheard

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3/option"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/incidents/incident"
	"github.com/otelllm/otelllm-go/test/internal/agent"
)

// Story returns the incident.
func Story() incident.Story {
	return incident.Story{
		Name:  "unheard",
		Title: "A tool's failure that never reached the model",
		Met: "The trace says that the patch tool cannot connect: connection refused. But the tool makes no connections; " +
			"it changes files. And the model never tried another way, as it does when a patch fails.",
		Happened: "The patch did not apply. The model was to get that failure through the service that stores the " +
			"conversation, which was down. There were two errors on one span, and the second one was recorded.",
		Do: "Ask before the run is repeated: the tool may have changed things before it failed. Repair the delivery of " +
			"outputs, and keep them until they are delivered (`Tool.RecordOutputCached`). The tool's own failure is " +
			"for the model to handle.",
		Telemetry: "otelhttp; run, model call and tool by hand",
		Acts: []incident.Act{{
			Wire: faultyllm.Responses,
			Script: []faultyllm.Exchange{faultyllm.Answer(
				faultyllm.ToolCall(incident.PatchCall, incident.PatchTool, `{"path":"main.go",`, `"patch":"-<\n+<="}`),
				faultyllm.Finish(faultyllm.ToolCalls),
			)},
			Run: run,
			Before: []string{
				`handle_task  unset`,
				`  invoke_agent coder  ERROR  "tool apply_patch: Post \"http://127.0.0.1:…/v1/outputs\": dial tcp 127.0.0.1:…: connect: connection refused"  exception.type=*fmt.wrapError`,
				`    chat gpt-5.5  unset`,
				`      HTTP POST  unset  http.response.status_code=200`,
				`    execute_tool apply_patch  ERROR  "Post \"http://127.0.0.1:…/v1/outputs\": dial tcp 127.0.0.1:…: connect: connection refused"  exception.type=*url.Error`,
			},
			Misled: "execute_tool " + incident.PatchTool,
			Alone:  []semconv.Class{semconv.ClassToolFailed}, // the tool did fail; that the model did not learn of it is not visible
			After: incident.Verdict{
				Outcome: semconv.RunOutcomeFailed, Class: semconv.ClassToolOutputLost, Cause: semconv.CauseDeliveryFailed,
				Phase: semconv.PhaseToolOutputDelivery, Origin: semconv.OriginApplication,
				Safety: semconv.RetrySafetyUserConfirmedRetry, Reason: semconv.RetryReasonToolSideEffect,
			},
		}},
	}
}

func run(ctx context.Context, p *incident.Program) error {
	client, closeIdle := incident.Client(p.Tracing)
	defer closeIdle()
	a := incident.Agent{
		Model: agent.NewResponses(agent.Config{Model: incident.GPT, Stream: true},
			option.WithBaseURL(p.BaseURL), option.WithAPIKey("sk-none"), option.WithHTTPClient(client)),
		ModelName: incident.GPT,
		Patch:     func() (string, error) { return "", errors.New("patch does not apply: hunk 1 failed") },
		Deliver: func(ctx context.Context, output string) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.DeadURL+"outputs", strings.NewReader(output))
			if err != nil {
				return err
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		},
	}
	return a.Run(ctx, p.Tracing)
}
