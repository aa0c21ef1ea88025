package wire

import (
	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
	"github.com/otelllm/otelllm-go/semconv"
)

// Manual is a response whose steps the application reports, where no bytes of a protocol
// pass. It grows as a decoder's does. It is not safe for concurrent use.
type Manual struct {
	tally

	calls map[string]*call // by id as SafeID leaves it, at most maxOpen
}

// NewManual makes a response of which nothing is known.
func NewManual() *Manual {
	return &Manual{tally: tally{State: State{Phase: semconv.PhaseResponseStarted, FinishReasons: []string{}, Usage: unknownUsage}}}
}

// State is the state after the steps so far. The pointer stays the same.
func (m *Manual) State() *State { return &m.tally.State }

// Text is a chunk of visible output.
func (m *Manual) Text() {
	if m.event() {
		m.text()
	}
}

// Reasoning is a chunk of reasoning.
func (m *Manual) Reasoning() {
	if m.event() {
		m.reasoning()
	}
}

// Keepalive is a sign of life that is no progress.
func (m *Manual) Keepalive() { m.Keepalives++ }

// StartCall is the beginning of a call's input. A call that has begun stays begun.
func (m *Manual) StartCall(id, name string) {
	if m.event() {
		m.find(id, name)
	}
}

// CompleteCall is the end of a call's input.
func (m *Manual) CompleteCall(id, name string) {
	if m.event() {
		m.complete(m.find(id, name))
	}
}

// HandOver gives a call, whose input is complete, to the application.
func (m *Manual) HandOver(id, name string) {
	if m.event() {
		m.handOver(m.find(id, name))
	}
}

// ProviderTool is the beginning of a tool that the provider executes.
func (m *Manual) ProviderTool() {
	if m.event() {
		m.ProviderToolsStarted++
	}
}

// Identify is the response's own id and model.
func (m *Manual) Identify(id, model string) { m.identify([]byte(id), []byte(model)) }

// Use adds to what is known of the usage; negative: nothing.
func (m *Manual) Use(u Usage) { m.use(u) }

// Finish is the semantic end of the response: every call whose input is complete
// is the application's.
func (m *Manual) Finish(reason string) {
	if !m.event() {
		return
	}
	m.finish([]byte(reason))
	m.handOverAll()
	m.end()
}

// Fail is the provider's word that it failed.
func (m *Manual) Fail(e Error) {
	if m.Err != nil || m.Terminal {
		return
	}
	e.Type, e.Code = bounded([]byte(e.Type)), bounded([]byte(e.Code))
	m.Err, m.Complete, m.Terminal = &e, false, true
}

// event counts a semantic event; false: the response is over.
func (m *Manual) event() bool {
	if m.Terminal {
		return false
	}
	m.Events++
	return true
}

// find is the call of this id, which begins where it has not.
func (m *Manual) find(id, name string) *call {
	key := SafeID(id)
	if c := m.calls[key]; c != nil && id != "" {
		m.fillIn(*c, nil, []byte(name))
		return c
	}
	c := m.start([]byte(id), []byte(name))
	if id != "" && len(m.calls) < maxOpen {
		if m.calls == nil {
			m.calls = map[string]*call{}
		}
		m.calls[key] = &c
	}
	return &c
}

// SafeModel is a model's name fit to be recorded, see [redact.Model].
func SafeModel(name string) string { return redact.Model(name) }
