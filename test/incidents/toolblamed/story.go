// Package toolblamed is the incident of a tool that failed without having run: the
// stream broke while the model was still writing the call, and the user interface,
// which already showed the call, marked it as failed.
package toolblamed

import (
	"context"
	"errors"
	"fmt"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/incidents/incident"
	"github.com/otelllm/otelllm-go/test/internal/agent"
)

// Story returns the incident.
func Story() incident.Story { return story() }

// story returns the incident with some steps before the stream breaks.
func story(before ...faultyllm.Step) incident.Story {
	return incident.Story{
		Name:  "toolblamed",
		Title: "A disconnect inside a tool call, reported as a tool's failure",
		Met: "The patch tool sometimes fails with \"tool execution aborted\". Its owners find nothing: the tool works, " +
			"and its log has no such call.",
		Happened: "The connection was reset while the model was still writing the tool's input. The agent shows a call as " +
			"soon as it begins, and starts its span there. When the stream broke, the agent marked every open call as " +
			"failed. The tool had never been started.",
		Do: "Retry automatically: nothing had been shown and nothing had been done. Do not debug the tool. In the " +
			"agent, start the tool's span where the tool starts.",
		Telemetry: "anthropic-sdk-go's own spans and otelhttp; run and tool by hand",
		Acts: []incident.Act{{
			Wire: faultyllm.Anthropic,
			Script: []faultyllm.Exchange{faultyllm.Answer(append(append([]faultyllm.Step{
				faultyllm.Reasoning("The comparison ", "is the wrong way round."),
				faultyllm.ToolInput(incident.PatchCall, incident.PatchTool, `{"path":"main.go",`, `"patch":`),
			}, before...), faultyllm.Reset())...)},
			Run: run,
			Before: []string{
				`handle_task  unset`,
				`  invoke_agent coder  ERROR  "tool apply_patch: tool execution aborted"  exception.type=*fmt.wrapError`,
				`    anthropic.messages.create  ERROR  http.response.status_code=200  error.type=connection_error`,
				`      HTTP POST  ERROR  "read tcp 127.0.0.1:…->127.0.0.1:…: read: connection reset by peer"  http.response.status_code=200  error.type=*net.OpError`,
				`    execute_tool apply_patch  ERROR  "tool execution aborted"  exception.type=*errors.errorString`,
			},
			Misled: "execute_tool " + incident.PatchTool,
			After: incident.Verdict{
				Outcome: semconv.RunOutcomeFailed, Class: semconv.ClassStreamInterrupted, Cause: semconv.CauseConnectionReset,
				Phase: semconv.PhaseToolInput, Origin: semconv.OriginTransport,
				Safety: semconv.RetrySafetySafeAutoRetry, Reason: semconv.RetryReasonIncompleteToolInput,
			},
		}},
	}
}

var errAborted = errors.New("tool execution aborted")

// run is an agent that shows each tool call on the screen when it begins.
func run(ctx context.Context, p *incident.Program) (err error) {
	ctx, end := p.Tracing.Run(ctx, incident.AgentName)
	defer func() { end(err) }()
	http, closeIdle := incident.Client(p.Tracing)
	defer closeIdle()
	client := anthropic.NewClient(append(p.Tracing.SDK(),
		option.WithBaseURL(p.BaseURL), option.WithAPIKey("sk-none"), option.WithHTTPClient(http), option.WithMaxRetries(0))...)
	stream := client.Messages.NewStreaming(ctx, anthropic.MessageNewParams{
		Model: incident.Claude, MaxTokens: 1024,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(incident.Prompt))},
		Tools:    []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: incident.PatchTool}}},
	})
	defer stream.Close()

	type part struct {
		agent.Call
		shown incident.Tool
	}
	var parts []part
	for stream.Next() {
		switch e := stream.Current().AsAny().(type) {
		case anthropic.ContentBlockStartEvent:
			if e.ContentBlock.Type == "tool_use" {
				call := agent.Call{ID: e.ContentBlock.ID, Name: e.ContentBlock.Name}
				parts = append(parts, part{call, p.Tracing.Shown(ctx, call)})
			}
		case anthropic.ContentBlockDeltaEvent:
			if d, ok := e.Delta.AsAny().(anthropic.InputJSONDelta); ok {
				parts[len(parts)-1].Arguments += d.PartialJSON
			}
		}
	}
	if stream.Err() != nil {
		// Every call that the screen still shows as running has failed.
		for _, pending := range parts {
			pending.shown.Close(errAborted)
			err = fmt.Errorf("tool %s: %w", pending.Name, errAborted)
		}
		return err
	}
	for _, call := range parts {
		_, tool := p.Tracing.Tool(ctx, call.Call, otelllm.EffectNonIdempotent, call.shown)
		tool.Done(nil) // the patch is applied
		tool.Close(nil)
	}
	return nil
}
