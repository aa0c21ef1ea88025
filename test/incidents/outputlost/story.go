// Package outputlost is the incident of a conversation that could not continue: a tool
// had run, a retry started from a history without its output, and from then on every
// request was refused.
package outputlost

import (
	"context"

	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/incidents/incident"
	"github.com/otelllm/otelllm-go/test/internal/agent"
)

// Story returns the incident.
func Story() incident.Story {
	return incident.Story{
		Name:  "outputlost",
		Title: "A finished tool's output, lost on a retry",
		Met: "The provider refuses a request as invalid, with status 400. A retry gives the same error. The " +
			"conversation cannot continue, and the patch that was made in it exists, though no message mentions it.",
		Happened: "The tool had run. The request with its output was cut, and the retry was built from a history that was " +
			"saved before the output arrived. The provider refuses a call without its output.",
		Do: "Do not repeat the run: the tool has had its effect. The verdict on the refused request names the " +
			"problem, `history_broken / missing_output`: do not retry it unchanged. Put the lost output back " +
			"into the history, by the id in `llm.history.missing_outputs`, and retry. In the agent, save a tool's " +
			"output before the request that carries it.",
		Telemetry: "anthropic-sdk-go's own spans and otelhttp; run and tool by hand",
		Acts: []incident.Act{{
			Wire: faultyllm.Anthropic,
			Script: []faultyllm.Exchange{
				faultyllm.Answer(
					faultyllm.ToolCall(incident.PatchCall, incident.PatchTool, `{"path":"main.go",`, `"patch":"-<\n+<="}`),
					faultyllm.Finish(faultyllm.ToolCalls),
				),
				faultyllm.Answer(faultyllm.Begin(), faultyllm.Reset()),
				// The API's own message, with a status of 400.
				faultyllm.Refuse(faultyllm.Failure{
					Trouble: faultyllm.ContextTooLong,
					Message: "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: " + incident.PatchCall + ".",
				}),
			},
			Run: run,
			Before: []string{
				`handle_task  unset`,
				`  invoke_agent coder  ERROR  "POST \"http://127.0.0.1:…/case/before-outputlost-1/v1/messages\": 400 Bad Request (Request-ID: req_…) ` +
					`{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"messages.1: ` + "`tool_use` ids were found without `tool_result`" +
					` blocks immediately after: call_patch_1.\"},\"request_id\":\"req_…\"}"  exception.type=*apierror.Error`,
				`    anthropic.messages.create  OK  http.response.status_code=200  anthropic.message.stop_reason=tool_use`,
				`      HTTP POST  unset  http.response.status_code=200`,
				`    execute_tool apply_patch  unset`,
				`    anthropic.messages.create  ERROR  http.response.status_code=200  error.type=connection_error`,
				`      HTTP POST  ERROR  "read tcp 127.0.0.1:…->127.0.0.1:…: read: connection reset by peer"  http.response.status_code=200  error.type=*net.OpError`,
				`    anthropic.messages.create  ERROR  http.response.status_code=400  error.type=invalid_request_error`,
				`      HTTP POST  ERROR  http.response.status_code=400  error.type=400`,
			},
			Misled: "invoke_agent " + incident.AgentName,
			Alone:  []semconv.Class{semconv.ClassProviderError}, // the provider did refuse; the reason is not visible
			After: incident.Verdict{
				Outcome: semconv.RunOutcomeFailed, Class: semconv.ClassToolOutputLost, Cause: semconv.CauseOmittedFromRetry,
				Phase: semconv.PhaseToolOutputDelivery, Origin: semconv.OriginApplication,
				Safety: semconv.RetrySafetyNoRetry, Reason: semconv.RetryReasonNotTransient,
			},
		}},
	}
}

func run(ctx context.Context, p *incident.Program) error {
	client, closeIdle := incident.Client(p.Tracing)
	defer closeIdle()
	a := incident.Agent{
		Model: agent.NewAnthropic(agent.Config{Model: incident.Claude, Stream: true}, append(p.Tracing.SDK(),
			option.WithBaseURL(p.BaseURL), option.WithAPIKey("sk-none"), option.WithHTTPClient(client))...),
		Patch:       func() (string, error) { return "ok", nil },
		BeforeRetry: agent.History.ForgetOutputs,
	}
	return a.Run(ctx, p.Tracing)
}
