package demo

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/otelllm/otelllm-go/otelllm"
)

// agentName is the name of the agent.
const agentName = "assistant"

// agent is a small agent over net/http, which trusts an answer that ends without an error.
type agent struct {
	url    string // of the model
	client *http.Client
	record *recorder
	heard  chan<- struct{} // gets an element for each event that has been read
}

// run answers a prompt with a loop of model calls and tool calls, and returns what the user
// sees: the last answer.
func (a *agent) run(ctx context.Context) (seen string, err error) {
	ctx, run := a.record.startRun(ctx)
	defer run.Done(&err)
	messages := []message{{Role: "user", Content: "Do it."}}
	for {
		reply, status, err := a.ask(ctx, messages)
		if err != nil {
			return "", err
		}
		if len(reply.ToolCalls) == 0 {
			return fmt.Sprintf("%s, no error, and an answer of %d characters", status, len(reply.Content)), nil
		}
		messages = append(messages, reply)
		for _, call := range reply.ToolCalls {
			messages = append(messages, message{Role: "tool", ToolCallID: call.ID, Content: a.execute(ctx, call)})
		}
	}
}

// ask asks the model for one answer.
func (a *agent) ask(ctx context.Context, messages []message) (reply message, status string, err error) {
	reply.Role = "assistant"
	body, err := request(messages)
	if err != nil {
		return reply, "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return reply, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		return reply, "", err
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); ; {
		if !lines.Scan() {
			return reply, resp.Status, lines.Err()
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data != done {
			if err := reply.add([]byte(data)); err != nil {
				return reply, "", err
			}
		}
		a.heard <- struct{}{}
	}
}

// execute executes a tool. The demo's tools have no effect outside of it.
func (a *agent) execute(ctx context.Context, call toolCall) (output string) {
	_, tool := a.record.startTool(ctx, otelllm.ToolCall{ID: call.ID, Name: call.Function.Name, Effect: otelllm.EffectNonIdempotent})
	defer tool.End(nil)
	return "done"
}
