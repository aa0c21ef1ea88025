package toolblamed

import (
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/incidents/incident"
)

// NodeStory returns the incident as it happened in Node, under version 6 of the AI SDK,
// which exports nothing of a stream that is cut. The trace contains only the tool's
// span.
func NodeStory() incident.Story {
	s := story(incident.NodeReads())
	act := &s.Acts[0]
	act.Wire, act.Run, act.Node = faultyllm.Chat, nil, &incident.NodeAgent{Producer: "shown", API: "chat"}
	act.Before = []string{
		`handle_task  unset`,
		`  execute_tool apply_patch  ERROR  "Tool execution aborted"  exception.type=Error`,
	}
	act.Alone = []semconv.Class{semconv.ClassToolFailed} // nothing else was recorded
	s.Title += ", in Node"
	s.Telemetry = "the AI SDK's own spans; the tool by hand"
	return s
}
