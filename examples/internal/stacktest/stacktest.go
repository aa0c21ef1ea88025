// Package stacktest runs the programs that call a tool, one per Go stack, against the
// model server that breaks, and compares the stack's report of a cut answer with the
// diagnosis. The programs do the same: they ask, execute the tool "forecast" and ask
// again, and trust a stack that reports no error.
package stacktest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/examples/internal/otlptest"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// Program is a program that calls a tool.
type Program struct {
	Ask  func(ctx context.Context, out io.Writer, question string, opts ...otelllm.TransportOption) error
	Wire faultyllm.Wire
	// Key and URL are the environment variables of the API key and of the endpoint.
	Key, URL string
	// Request is the name of the spans of its requests.
	Request string
	// Silent lists the cases in which the stack reports no error although there is one.
	Silent []string
}

// Run runs p over every case, once unchanged and once with [otelllm.WithStreamErrors],
// with which every stack reports a cut, and reports the same as before in other cases.
func Run(t *testing.T, p Program) {
	t.Helper()
	known := cases(p.Wire)
	for _, name := range p.Silent {
		require.True(t, slices.ContainsFunc(known, func(c testCase) bool { return c.name == name }), "no case %q", name)
	}
	for _, c := range known {
		silent := slices.Contains(p.Silent, c.name)
		t.Run(c.name, func(t *testing.T) { _ = p.run(t, &c, silent) })
		t.Run(c.name+", stream errors", func(t *testing.T) {
			said := p.run(t, &c, silent && !c.cut, otelllm.WithStreamErrors())
			var broke *otelllm.StreamError
			if !c.cut {
				assert.NotErrorAs(t, said, &broke)
				return
			}
			require.ErrorAs(t, said, &broke, "the stack passes the error on")
			d := broke.Diagnosis
			assert.Equal(t, c.class, d.Class)
			assert.Equal(t, c.cause, d.Cause)
			assert.Equal(t, c.safety, d.Retry.Safety)
			assert.Equal(t, c.reason, d.Retry.Reason)
		})
	}
}

// run runs p over one case and returns its error.
func (p *Program) run(t *testing.T, c *testCase, silent bool, opts ...otelllm.TransportOption) error {
	t.Helper()
	srv, err := faultyllm.Start()
	require.NoError(t, err)
	defer func() { assert.NoError(t, srv.Close()) }()
	srv.Play("c", c.script...)
	spans := otlptest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", spans.URL)
	t.Setenv(p.Key, "sk-none")
	t.Setenv(p.URL, srv.BaseURL("c", p.Wire))

	var out bytes.Buffer
	said := p.Ask(t.Context(), &out, "Will it snow in Oslo?", opts...)

	toolSaid := errors.Is(said, otelllm.ErrToolInvalidInput)
	tools, well := c.tools, c.class == semconv.ClassUnset
	if silent {
		tools, well = c.trusting.tools, c.trusting.well
		assert.Equal(t, c.trusting.toolFails, toolSaid, "%v", said)
		if !toolSaid {
			require.NoError(t, said)
		}
	} else {
		assert.Equal(t, well, said == nil, "%v", said)
		assert.False(t, toolSaid, "the tool failed although the stack reported nothing: %v", said)
	}
	if well {
		assert.Contains(t, out.String(), "It will snow.")
		assert.NotContains(t, out.String(), "retry")
	} else {
		assert.Contains(t, out.String(), c.retry())
	}

	records, err := srv.Records("c")
	require.NoError(t, err)
	requests := spans.Named(p.Request)
	require.Len(t, requests, len(records), "one span per request")
	for _, fact := range c.facts {
		assert.Equal(t, fact.Value.AsString(), requests[0].Attributes[string(fact.Key)], fact.Key)
	}
	if len(requests) > 1 {
		assert.Equal(t, []any{"call_1"}, requests[1].Attributes[string(semconv.HistoryToolOutputsKey)], "the model gets the tool's output")
	}
	assert.Len(t, spans.Named("execute_tool forecast"), tools)
	assert.Len(t, spans.Named("invoke_agent example"), 1)
	return said
}
