// Package agent is a small coding agent: a loop of model calls and tool calls on the
// real SDKs, instrumented with otelllm as an agent's author would do it. Like most
// agents, it trusts an SDK that reports no error.
package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

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
	// Retries is how often a turn is repeated after its stream broke. The SDKs do not
	// retry after the headers have arrived.
	Retries int
	// BeforeRetry, if set, may change the history before a turn is repeated.
	BeforeRetry func(History)
	// Deliver, if set, sends a tool's output separately, before the next turn includes
	// it.
	Deliver func(ctx context.Context, id, output string) error
	// StopOnToolError ends the run when a tool fails, instead of reporting the failure
	// to the model.
	StopOnToolError bool
	// TalksOn lets the model continue to talk while tools run: the next turn is
	// requested at once, and outputs follow it.
	TalksOn bool
	// MaxTurns limits the loop; 0 means 16.
	MaxTurns int

	Options []otelllm.RunOption
}

// Tool is a tool that the agent offers.
type Tool struct {
	Name   string
	Effect otelllm.Effect
	Do     func(ctx context.Context, arguments string) (string, error)
}

// Model is one conversation with a model through one SDK.
type Model interface {
	History
	// User adds a user message.
	User(text string)
	// Ask sends the history and reads the answer, which is added to the history if the
	// SDK reports no error.
	Ask(ctx context.Context, tools []Tool, onText func(string)) (Reply, error)
	// Output adds the output of a tool call to the history. It may fail if the server
	// keeps the history.
	Output(ctx context.Context, call Call, output string, failed bool) error
}

// History is a conversation whose entries a retry can lose.
type History interface {
	// ForgetOutputs removes every tool output.
	ForgetOutputs()
	// ForgetCalls removes every tool call and every tool output, like an agent that
	// starts again from an earlier checkpoint.
	ForgetCalls()
}

// Reply is one answer of a model.
type Reply struct {
	Text  string
	Calls []Call
}

// Call is a tool call that a model asked for.
type Call struct{ ID, Name, Arguments string }

// ErrTooManyTurns is returned if the model does not finish within MaxTurns.
var ErrTooManyTurns = errors.New("agent: too many turns")

// Run answers the prompt.
func (a *Agent) Run(ctx context.Context, prompt string) (text string, err error) {
	options := append([]otelllm.RunOption{otelllm.WithToolsRecorded()}, a.Options...) // start records every tool
	ctx, run := otelllm.StartRun(ctx, a.Name, options...)
	defer run.Done(&err)
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
		if err := a.executeAll(ctx, reply.Calls); err != nil {
			return "", err
		}
	}
	return "", ErrTooManyTurns
}

// executeAll executes the calls of a turn one after the other or, if the model
// continues to talk, at the same time as its next turn.
func (a *Agent) executeAll(ctx context.Context, calls []Call) error {
	if !a.TalksOn {
		for _, call := range calls {
			if err := a.handOver(ctx, call, a.start(ctx, call)()); err != nil {
				return err
			}
		}
		return nil
	}
	results := make([]result, len(calls))
	var all sync.WaitGroup
	for i, call := range calls {
		execute := a.start(ctx, call)
		all.Go(func() { results[i] = execute() })
	}
	_, err := a.ask(ctx)
	all.Wait()
	// The outputs are sent even if the model's turn failed.
	for i, call := range calls {
		err = errors.Join(err, a.handOver(ctx, call, results[i]))
	}
	return err
}

// ask requests one turn, and repeats it if the stream broke and a retry is left.
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

// result is the result of a tool call.
type result struct {
	span   *otelllm.Tool
	output string
	err    error
}

// start starts the execution of one tool call. The returned function waits for its end.
func (a *Agent) start(ctx context.Context, call Call) func() result {
	tool, known := a.tool(call.Name)
	ctx, span := otelllm.StartTool(ctx, otelllm.ToolCall{ID: call.ID, Name: call.Name, Effect: tool.Effect})
	return func() (r result) {
		r.span = span
		defer span.Done(&r.err)
		if known {
			r.output, r.err = tool.Do(ctx, call.Arguments)
		} else {
			r.err = fmt.Errorf("%w: no such tool", otelllm.ErrToolInvalidInput)
		}
		return r
	}
}

// handOver adds the output of a tool call, or its failure, to the history.
func (a *Agent) handOver(ctx context.Context, call Call, r result) error {
	if r.err != nil {
		if a.StopOnToolError {
			return fmt.Errorf("tool %s: %w", call.Name, r.err)
		}
		r.output = r.err.Error()
	}
	if a.Deliver != nil {
		if err := a.Deliver(ctx, call.ID, r.output); err != nil {
			r.span.RecordOutputFailure(err)
			return fmt.Errorf("deliver the output of %s: %w", call.Name, err)
		}
		r.span.RecordOutputSent()
	}
	if err := a.Model.Output(ctx, call, r.output, r.err != nil); err != nil {
		return fmt.Errorf("send the output of %s: %w", call.Name, err)
	}
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

// schema returns the JSON schema of every tool's arguments. The agent passes the
// arguments on unchanged.
func schema() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": true}
}
