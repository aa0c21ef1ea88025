// Package terminated is the incident of runs that keep failing with one word that
// explains nothing: "terminated" in Node, "unexpected EOF" in Go.
package terminated

import (
	"context"

	"github.com/openai/openai-go/v3/option"

	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/incidents/incident"
	"github.com/otelllm/otelllm-go/test/internal/agent"
)

// Story returns the incident.
func Story() incident.Story { return story() }

// story returns the incident with some steps before each stream breaks.
func story(before ...faultyllm.Step) incident.Story {
	act := func(label string, phase semconv.Phase, safety semconv.RetrySafety, reason semconv.RetryReason, steps ...faultyllm.Step) incident.Act {
		return incident.Act{
			Label: label, Wire: faultyllm.Chat, Run: run,
			Script: []faultyllm.Exchange{faultyllm.Answer(append(append(steps, before...), faultyllm.Truncate())...)},
			Before: []string{
				`handle_task  unset`,
				`  invoke_agent coder  ERROR  "unexpected EOF"  exception.type=*errors.errorString`,
				`    chat gpt-5.5  ERROR  "unexpected EOF"  exception.type=*errors.errorString`,
				`      HTTP POST  ERROR  "unexpected EOF"  http.response.status_code=200  error.type=*errors.errorString`,
			},
			Misled: "invoke_agent " + incident.AgentName,
			After: incident.Verdict{
				Outcome: semconv.RunOutcomeFailed, Class: semconv.ClassStreamInterrupted, Cause: semconv.CauseBodyTruncated,
				Phase: phase, Origin: semconv.OriginTransport, Safety: safety, Reason: reason,
			},
		}
	}
	return incident.Story{
		Name:  "terminated",
		Title: "The same word again and again",
		Met: "Runs fail several times a day with the one word \"terminated\" (in Go: \"unexpected EOF\"). All failures look " +
			"alike, so retries are not considered safe, and users get an error each time.",
		Happened: "A proxy closed connections in the middle of answers. The failures differed in how much of the answer had " +
			"arrived: nothing yet, a text on the screen, or half of a tool call. The word is the same for all of them.",
		Do: "Retry automatically where the verdict allows it, which is most of the time; ask where text had been " +
			"shown. Then look at the phase and at `llm.stream.longest_gap`: cuts that come after the same silence are " +
			"the idle timeout of a proxy.",
		Telemetry: "otelhttp; run and model call by hand",
		Acts: []incident.Act{
			act("nothing yet", semconv.PhaseResponseStarted, semconv.RetrySafetySafeAutoRetry, semconv.RetryReasonNoOutput, faultyllm.Begin()),
			act("in the text", semconv.PhaseText, semconv.RetrySafetyUserConfirmedRetry, semconv.RetryReasonVisibleOutput,
				faultyllm.Text("I will ", "turn the comparison round.")),
			act("in a tool call", semconv.PhaseToolInput, semconv.RetrySafetySafeAutoRetry, semconv.RetryReasonIncompleteToolInput,
				faultyllm.ToolInput(incident.PatchCall, incident.PatchTool, `{"path":`)),
		},
	}
}

func run(ctx context.Context, p *incident.Program) error {
	client, closeIdle := incident.Client(p.Tracing)
	defer closeIdle()
	a := incident.Agent{
		Model: agent.NewChat(agent.Config{Model: incident.GPT, Stream: true},
			option.WithBaseURL(p.BaseURL), option.WithAPIKey("sk-none"), option.WithHTTPClient(client)),
		ModelName: incident.GPT,
		Patch:     func() (string, error) { return "ok", nil },
	}
	return a.Run(ctx, p.Tracing)
}
