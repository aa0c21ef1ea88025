package incident

import (
	"context"
	"fmt"
	"net/http"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/test/internal/agent"
)

// Values that the agents of all stories share.
const (
	AgentName = "coder"
	Prompt    = "Make the failing test pass."
	GPT       = "gpt-5.5"
	Claude    = "claude-sonnet-5-5"
	PatchTool = "apply_patch"
	PatchCall = "call_patch_1"
)

// Agent asks a model, executes the tool calls, and asks again.
type Agent struct {
	Model     agent.Model
	ModelName string // empty if the client creates its own spans
	Patch     func() (string, error)
	// Deliver, if set, sends a tool's output to the service that stores the
	// conversation.
	Deliver func(ctx context.Context, output string) error
	// BeforeRetry, if set, prepares the history for a retry.
	BeforeRetry func(agent.History)
}

// Run runs the agent to its end.
func (a *Agent) Run(ctx context.Context, t Tracing) (err error) {
	ctx, end := t.Run(ctx, AgentName)
	defer func() { end(err) }()
	a.Model.User(Prompt)
	for {
		reply, err := a.ask(ctx, t)
		if err != nil || len(reply.Calls) == 0 {
			return err
		}
		for _, call := range reply.Calls {
			if err := a.execute(ctx, t, call); err != nil {
				return fmt.Errorf("tool %s: %w", call.Name, err)
			}
		}
	}
}

func (a *Agent) ask(ctx context.Context, t Tracing) (agent.Reply, error) {
	reply, err := a.askOnce(ctx, t)
	if err != nil && a.BeforeRetry != nil {
		a.BeforeRetry(a.Model)
		a.BeforeRetry = nil
		return a.askOnce(ctx, t)
	}
	return reply, err
}

func (a *Agent) askOnce(ctx context.Context, t Tracing) (agent.Reply, error) {
	end := func(error) {}
	if a.ModelName != "" {
		ctx, end = t.Chat(ctx, a.ModelName)
	}
	reply, err := a.Model.Ask(ctx, []agent.Tool{{Name: PatchTool}}, func(string) {})
	end(err)
	return reply, err
}

func (a *Agent) execute(ctx context.Context, t Tracing, call agent.Call) (err error) {
	ctx, tool := t.Tool(ctx, call, otelllm.EffectNonIdempotent, nil)
	defer func() { tool.Close(err) }()
	output, failure := a.Patch()
	tool.Done(failure)
	if failure != nil {
		output = "error: " + failure.Error()
	}
	if a.Deliver != nil {
		err := a.Deliver(ctx, output)
		tool.Delivered(err)
		if err != nil {
			return err
		}
	}
	return a.Model.Output(ctx, call, output, failure != nil)
}

// Client returns an HTTP client; end closes its connections.
func Client(t Tracing, opts ...otelllm.TransportOption) (client *http.Client, end func()) {
	base := &http.Transport{}
	return &http.Client{Transport: t.Transport(base, opts...)}, base.CloseIdleConnections
}
