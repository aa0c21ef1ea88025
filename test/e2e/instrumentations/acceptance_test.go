package instrumentations

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/acceptance"
	"github.com/otelllm/otelllm-go/test/nodeagent"
)

// TestAcceptance checks that with otelllm-facts.mjs an agent in Node gets the same
// verdicts as the Go client, span by span, in every acceptance case that needs only the
// model server.
func TestAcceptance(t *testing.T) {
	testAcceptance(t, find(t), "facts")
}

// testAcceptance runs the cases under one producer's file.
func testAcceptance(t *testing.T, agents runner, file string) {
	t.Helper()
	collector := startCollector(t)
	server := newWorld(t).server

	var cases []acceptance.Case
	var tasks []nodeagent.Task
	for _, c := range acceptance.Cases() {
		if c.Prepare != nil || !slices.Contains(faultyllm.Wires(), c.Wire) {
			continue
		}
		script := make([]faultyllm.Exchange, len(c.Script))
		for i, e := range c.Script {
			script[i] = e.Unhurried(100 * time.Millisecond)
		}
		server.Play(c.Key(), script...)
		cases = append(cases, c)
		tasks = append(tasks, nodeagent.Task{
			Name: c.Key(), API: api(c.Wire), BaseURL: strings.TrimSuffix(server.BaseURL(c.Key(), c.Wire), "/"), MaxRetries: 2,
		})
	}
	require.Greater(t, len(cases), 30)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	left, err := agents.Run(ctx, file, false, collector.endpoint, tasks)
	require.NoError(t, err)
	collector.drained(t)
	for i := range cases {
		c := &cases[i]
		t.Run(c.Label(), func(t *testing.T) {
			runs := collector.sink.runs(t, left.Results[c.Key()].Trace)
			for _, difference := range c.Diff(runs) {
				t.Error(difference)
			}
			if t.Failed() {
				told := cell{spans: collector.sink.trace(t, left.Results[c.Key()].Trace), fault: &fault{}, producer: &producer{}}
				t.Logf("saw %q\nrecorded %s\nverdicts:\n%s", left.Results[c.Key()].Saw, told.recorded(), told.verdicts())
			}
		})
	}
	assert.False(t, left.Unhandled, "a promise was rejected and not handled")
}
