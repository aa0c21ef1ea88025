package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/agent"
)

// tools returns cases 16 to 18 and 20: a tool fails.
func tools() []Case {
	var cases []Case
	add := func(more ...Case) { cases = append(cases, more...) }

	failure := func(cause semconv.Cause, safety semconv.RetrySafety, reason semconv.RetryReason) Verdict {
		return Verdict{
			Class: semconv.ClassToolFailed, Cause: cause, Phase: semconv.PhaseToolExecution, Origin: semconv.OriginTool,
			Safety: safety, Reason: reason,
		}
	}
	asks := faultyllm.Answer(patch, faultyllm.Finish(faultyllm.ToolCalls))
	broken := func(s *Setup) {
		s.Agent.Tools = failing(s.Agent.Tools, errors.New("patch does not apply: hunk 1 failed"))
	}
	sideEffect := failure(semconv.CauseExecutionError, confirmed, semconv.RetryReasonToolSideEffect)

	add(over(withSessions(), func(faultyllm.Wire) Case {
		return Case{
			Number: 16, Title: "tool fails, the model answers it",
			Script: []faultyllm.Exchange{asks, faultyllm.Answer(done...)},
			Want: Want{
				Outcome: semconv.RunOutcomeRecovered, Recovered: 1,
				Requests: make([]Verdict, 2), Tools: []Verdict{sideEffect},
			},
			Prepare: func(_ *World, s *Setup) { broken(s) },
		}
	})...)

	// No request carried the tool's failure any more. The failure is named.
	ends := func(wire faultyllm.Wire, variant, call string, e faultyllm.Exchange, v Verdict) Case {
		return Case{
			Number: 17, Title: "tool fails, the run ends", Variant: variant, Wire: wire,
			Script: []faultyllm.Exchange{e},
			Want: Want{
				Outcome: semconv.RunOutcomeFailed, Run: v,
				Requests: make([]Verdict, 1), Tools: []Verdict{v},
				MissingOutputs: []string{call},
			},
			Prepare: func(_ *World, s *Setup) {
				broken(s)
				s.Agent.StopOnToolError = true
			},
		}
	}
	add(
		ends(faultyllm.Chat, "with effects", patchCall, asks, sideEffect),
		ends(faultyllm.Anthropic, "read only", readCall, faultyllm.Answer(reading, faultyllm.Finish(faultyllm.ToolCalls)),
			failure(semconv.CauseExecutionError, safe, semconv.RetryReasonReadOnlyToolsOnly)),
	)

	add(over([]faultyllm.Wire{faultyllm.Responses, faultyllm.Anthropic}, func(faultyllm.Wire) Case {
		return Case{
			Number: 18, Title: "tool fails, sending its failure too",
			Script: []faultyllm.Exchange{asks},
			Want: Want{
				Outcome: semconv.RunOutcomeFailed,
				Run: Verdict{
					Class: semconv.ClassToolOutputLost, Cause: semconv.CauseDeliveryFailed, Phase: semconv.PhaseToolOutputDelivery,
					Origin: semconv.OriginApplication, Safety: confirmed, Reason: semconv.RetryReasonToolSideEffect,
				},
				Requests: make([]Verdict, 1), Tools: []Verdict{sideEffect},
				MissingOutputs: []string{patchCall},
				Evidence:       []string{"llm.tool.outcome=failed", "llm.tool.output_delivery=failed"},
			},
			Prepare: func(w *World, s *Setup) {
				broken(s)
				s.Agent.Deliver = post(w.Refusing.BaseURL("http", faultyllm.Chat) + "outputs")
			},
		}
	})...)

	add(sessions(asks, sideEffect, broken)...)

	incomplete := failure(semconv.CauseIncompleteInput, never, semconv.RetryReasonNotTransient)
	add(everywhere(func(faultyllm.Wire) Case {
		return Case{
			Number: 20, Title: "tool run on an incomplete input",
			Script: []faultyllm.Exchange{faultyllm.Answer(thinking, patching, faultyllm.CleanEnd())},
			Want: Want{
				Outcome: semconv.RunOutcomeFailed, Run: incomplete, Tools: []Verdict{incomplete},
				Requests:       []Verdict{interruption(semconv.CauseCleanEOF, semconv.PhaseToolInput, confirmed, semconv.RetryReasonToolSideEffect)},
				MissingOutputs: []string{patchCall},
			},
			Prepare: func(_ *World, s *Setup) { s.Agent.StopOnToolError = true },
		}
	})...)
	return cases
}

// toolbox returns the agent's tools. A tool only checks its arguments.
func toolbox() []agent.Tool {
	do := func(_ context.Context, arguments string) (string, error) {
		var parsed map[string]string
		if err := json.Unmarshal([]byte(arguments), &parsed); err != nil {
			return "", fmt.Errorf("read the arguments: %w", err)
		}
		return "ok: " + parsed["path"], nil
	}
	return []agent.Tool{
		{Name: patchTool, Effect: otelllm.EffectNonIdempotent, Do: do},
		{Name: readTool, Effect: otelllm.EffectReadOnly, Do: do},
	}
}

// failing makes every tool fail.
func failing(tools []agent.Tool, err error) []agent.Tool {
	broken := make([]agent.Tool, len(tools))
	for i, t := range tools {
		t.Do = func(context.Context, string) (string, error) { return "", err }
		broken[i] = t
	}
	return broken
}

// post returns a function that delivers a tool's output to a URL.
func post(url string) func(context.Context, string, string) error {
	return func(ctx context.Context, id, output string) error {
		body, err := json.Marshal(map[string]string{"call_id": id, "output": output})
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(string(body)))
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
}
