// Package all lists the stories, ordered by when they happened.
package all

import (
	"github.com/otelllm/otelllm-go/test/incidents/cleandone"
	"github.com/otelllm/otelllm-go/test/incidents/incident"
	"github.com/otelllm/otelllm-go/test/incidents/outputlost"
	"github.com/otelllm/otelllm-go/test/incidents/terminated"
	"github.com/otelllm/otelllm-go/test/incidents/toolblamed"
	"github.com/otelllm/otelllm-go/test/incidents/unheard"
)

// NodeStories returns the stories that happened in Node, with agents in Node.
func NodeStories() []incident.Story {
	return []incident.Story{toolblamed.NodeStory(), terminated.NodeStory()}
}

// Stories returns the five incidents.
func Stories() []incident.Story {
	return []incident.Story{
		toolblamed.Story(), terminated.Story(), unheard.Story(), cleandone.Story(), outputlost.Story(),
	}
}
