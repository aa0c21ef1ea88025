package terminated

import (
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/incidents/incident"
)

// NodeStory returns the incident as it happened in Node, where undici reports every
// connection that ends in a body with one word, and the error code behind it is not
// recorded.
func NodeStory() incident.Story {
	s := story(incident.NodeReads())
	for i := range s.Acts {
		act := &s.Acts[i]
		act.Wire, act.Run, act.Node = faultyllm.Anthropic, nil, &incident.NodeAgent{Producer: "openllmetry", API: "messages"}
		act.Before = []string{
			`handle_task  unset`,
			`  chat claude-opus-4-8  ERROR  "terminated"  exception.type=TypeError`,
		}
		act.Misled = "chat claude-opus-4-8"
	}
	s.Title += ", in Node"
	s.Telemetry = "OpenLLMetry's instrumentation of Anthropic's client"
	return s
}
