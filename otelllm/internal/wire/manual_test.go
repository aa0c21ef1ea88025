package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

func TestManual(t *testing.T) {
	type steps = func(*Manual)
	for name, tt := range map[string]struct {
		steps steps
		want  func(*State)
	}{
		"nothing":         {func(*Manual) {}, func(*State) {}},
		"signs of life":   {func(m *Manual) { m.Keepalive(); m.Keepalive() }, keepalives(2)},
		"provider's tool": {func(m *Manual) { m.ProviderTool() }, all(events(1), providerTools(1))},
		"a call by its id": {
			func(m *Manual) { m.StartCall("a", ""); m.CompleteCall("a", "f"); m.HandOver("a", "f") },
			all(events(3), calls("a!"), phase(semconv.PhaseToolCallReady)),
		},
		"calls by their ids": {
			func(m *Manual) {
				m.StartCall("a", "f")
				m.StartCall("b", "f")
				m.CompleteCall("b", "")
				m.StartCall("a", "f")
			},
			all(events(4), calls("a", "b+"), phase(semconv.PhaseToolCallReady)),
		},
		"calls without an id": {
			func(m *Manual) { m.StartCall("", "f"); m.StartCall("", "f") },
			all(events(2), calls("", ""), phase(semconv.PhaseToolInput)),
		},
		"the end": {
			func(m *Manual) { m.Text(); m.CompleteCall("a", "f"); m.Finish("stop"); m.Text(); m.HandOver("b", "f") },
			all(events(3), texts(1), calls("a!"), ended("stop")),
		},
		"a failure": {
			func(m *Manual) {
				m.Reasoning()
				m.Fail(Error{Code: "first"})
				m.Fail(Error{Code: "second"})
				m.Finish("stop")
			},
			all(events(1), thoughts(1), phase(semconv.PhaseReasoning), failed(Error{Code: "first"})),
		},
		"a failure after the end": {
			func(m *Manual) { m.Finish("stop"); m.Fail(Error{Code: "late"}) },
			all(events(1), ended("stop")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, want := NewManual(), started()
			tt.steps(m)
			tt.want(want)
			assert.Equal(t, want, m.State())
		})
	}
}

// Calls beyond the bound of calls that are remembered count each time.
func TestManualManyCalls(t *testing.T) {
	m := NewManual()
	for n := range maxOpen + 1 {
		m.StartCall(itoa(n), "f")
	}
	m.StartCall(itoa(maxOpen-1), "f")
	assert.Equal(t, maxOpen+1, m.State().ToolInputsStarted)
	m.StartCall(itoa(maxOpen), "f")
	assert.Equal(t, maxOpen+2, m.State().ToolInputsStarted)
}
