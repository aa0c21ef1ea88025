package collector

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// vocabulary is the content of the registry under semconv/model: the contract for every query and dashboard here.
type vocabulary struct {
	// attributes by name: ours, and those of OpenTelemetry that ours refer to.
	attributes map[string]attribute
	// events and spans by name.
	events map[string]bool
}

type attribute struct {
	// values of an enum, nil for other types.
	values []string
	// verdict is set if the processor writes the attribute.
	verdict bool
}

func readVocabulary(t *testing.T) vocabulary {
	t.Helper()
	type annotations struct {
		OtelLLM struct {
			WrittenBy string `yaml:"written_by"`
		} `yaml:"otelllm"`
	}
	type registry struct {
		Groups []struct {
			Type        string
			Name        string
			Annotations annotations
			Attributes  []struct {
				ID          string
				Ref         string
				Type        yaml.Node
				Annotations annotations
			}
		}
	}
	v := vocabulary{attributes: map[string]attribute{}, events: map[string]bool{}}
	files, err := filepath.Glob("../../semconv/model/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var r registry
		require.NoError(t, yaml.Unmarshal(raw, &r), file)
		for _, group := range r.Groups {
			if group.Type == "event" {
				v.events[group.Name] = true
			}
			for _, a := range group.Attributes {
				switch {
				case a.ID != "":
					by := a.Annotations.OtelLLM.WrittenBy
					if by == "" {
						by = group.Annotations.OtelLLM.WrittenBy
					}
					v.attributes[a.ID] = attribute{values: members(t, a.ID, a.Type), verdict: by == "processor"}
				case !strings.HasPrefix(a.Ref, "llm."):
					v.attributes[a.Ref] = attribute{}
				}
			}
		}
	}
	require.Contains(t, v.attributes, "gen_ai.request.model")
	require.Contains(t, v.attributes, "error.type")
	require.True(t, v.attributes["llm.run.outcome"].verdict)
	require.False(t, v.attributes["llm.stream.end"].verdict)
	require.Contains(t, v.attributes["llm.run.outcome"].values, "recovered")
	require.NotEmpty(t, v.events)
	return v
}

// members returns the values of an enum's type, or nil for the name of a plain type.
func members(t *testing.T, id string, node yaml.Node) []string {
	t.Helper()
	if node.Kind != yaml.MappingNode {
		return nil
	}
	var enum struct{ Members []struct{ Value string } }
	require.NoError(t, node.Decode(&enum), id)
	var values []string
	for _, m := range enum.Members {
		values = append(values, m.Value)
	}
	return values
}
