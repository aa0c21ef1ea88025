// Package all has the stories in the order in which they happened.
package all

import (
	"github.com/otelllm/otelllm-go/examples/incidents/cleandone"
	"github.com/otelllm/otelllm-go/examples/incidents/incident"
	"github.com/otelllm/otelllm-go/examples/incidents/outputlost"
	"github.com/otelllm/otelllm-go/examples/incidents/terminated"
	"github.com/otelllm/otelllm-go/examples/incidents/toolblamed"
	"github.com/otelllm/otelllm-go/examples/incidents/unheard"
)

// NodeStories are those that happened in Node, as they happened there.
func NodeStories() []incident.Story {
	return []incident.Story{toolblamed.NodeStory(), terminated.NodeStory()}
}

// Stories are the five incidents.
func Stories() []incident.Story {
	return []incident.Story{
		toolblamed.Story(), terminated.Story(), unheard.Story(), cleandone.Story(), outputlost.Story(),
	}
}
