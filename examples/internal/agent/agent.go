// Package agent is a small coding agent: a loop of model calls and tool calls on
// the real SDKs, instrumented with otelllm as an agent's author would do it. It is
// as trusting as agents are: it believes an SDK that reports no error.
package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/otelllm/otelllm-go/otelllm"
)

// Agent runs one conversation. It is not safe for concurrent use.
type Agent struct {
	Name  string
	Model Model
	Tools []Tool

	// Started, if set, gets the run before the first request.
	Started func(*otelllm.Run)
	// OnText, if set, sees each piece of visible text as it arrives.
	OnText func(text string)
	// Retries is how often a turn whose stream broke is asked again. The SDKs do not
	// retry once the headers have come.
	Retries int
	// BeforeRetry, if set, may change the history before a turn is asked again.
	BeforeRetry func(History)
	// Deliver, if set, sends a tool's output on its own way, before the next turn
	// carries it.
	Deliver func(ctx context.Context, id, output string) error
	// StopOnToolError ends the run when a tool fails, instead of telling the model.
	StopOnToolError bool
	// MaxTurns bounds the loop; 0 is 16.
	MaxTurns int

	Options []otelllm.RunOption
}

// Tool is something that the agent can do.
type Tool struct {
	Name   string
	Effect otelllm.Effect
	Do     func(ctx context.Context, arguments string) (string, error)
}

// Model is one conversation with a model through one SDK.
type Model interface {
	History
	// User adds the user's words.
	User(text string)
	// Ask sends the history and reads the answer, which joins the history if the SDK
	// reports no error.
	Ask(ctx context.Context, tools []Tool, onText func(string)) (Reply, error)
	// Output adds the output of a tool call.
	Output(call Call, output string, failed bool)
}

// History is what a retry can lose of a conversation.
type History interface {
	// ForgetOutputs removes every tool output.
	ForgetOutputs()
	// ForgetCalls removes every tool call and every tool output, as an agent does
	// that starts again from a checkpoint before them.
	ForgetCalls()
}

// Reply is one answer of a model.
type Reply struct {
	Text  string
	Calls []Call
}

// Call is a tool call that a model asked for.
type Call struct{ ID, Name, Arguments string }

// ErrTooManyTurns is returned when the model never comes to an end.
var ErrTooManyTurns = errors.New("agent: too many turns")

// Run answers the prompt.
func (a *Agent) Run(ctx context.Context, prompt string) (text string, err error) {
	ctx, run := otelllm.StartRun(ctx, a.Name, a.Options...)
	defer func() { run.End(err) }()
	if a.Started != nil {
		a.Started(run)
	}
	a.Model.User(prompt)
	turns := a.MaxTurns
	if turns == 0 {
		turns = 16
	}
	for range turns {
		reply, err := a.ask(ctx)
		if err != nil {
			return "", err
		}
		if len(reply.Calls) == 0 {
			return reply.Text, nil
		}
		for _, call := range reply.Calls {
			if err := a.execute(ctx, call); err != nil {
				return "", err
			}
		}
	}
	return "", ErrTooManyTurns
}

// ask asks for one turn, again where the stream broke and a retry is left.
func (a *Agent) ask(ctx context.Context) (Reply, error) {
	for left := a.Retries; ; left-- {
		reply, err := a.Model.Ask(ctx, a.Tools, a.text)
		if err == nil || left == 0 || ctx.Err() != nil {
			return reply, err
		}
		if a.BeforeRetry != nil {
			a.BeforeRetry(a.Model)
		}
	}
}

func (a *Agent) text(t string) {
	if a.OnText != nil {
		a.OnText(t)
	}
}

// execute executes one tool call and adds its output, or its failure, to the history.
func (a *Agent) execute(ctx context.Context, call Call) error {
	tool, known := a.tool(call.Name)
	toolCtx, span := otelllm.StartTool(ctx, otelllm.ToolCall{ID: call.ID, Name: call.Name, Effect: tool.Effect})
	var output string
	var err error
	if known {
		output, err = tool.Do(toolCtx, call.Arguments)
	} else {
		err = fmt.Errorf("%w: no such tool", otelllm.ErrInvalidInput)
	}
	span.End(err)
	if err != nil {
		if a.StopOnToolError {
			return fmt.Errorf("tool %s: %w", call.Name, err)
		}
		output = err.Error()
	}
	if a.Deliver != nil {
		if err := a.Deliver(ctx, call.ID, output); err != nil {
			span.OutputFailed(err)
			return fmt.Errorf("deliver the output of %s: %w", call.Name, err)
		}
		span.OutputSent()
	}
	a.Model.Output(call, output, err != nil)
	return nil
}

func (a *Agent) tool(name string) (Tool, bool) {
	for _, t := range a.Tools {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

// schema is the JSON schema of every tool's arguments: the agent hands them on as
// they are.
func schema() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": true}
}
