package wire

import (
	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
	"github.com/otelllm/otelllm-go/semconv"
)

// Manual is a response whose steps the application reports itself, because there are no
// bytes of a protocol to decode. Its state changes as that of a decoder. It is not safe
// for concurrent use.
type Manual struct {
	tally

	calls map[string]*call // by id as SafeID leaves it, at most maxOpen
}

// NewManual returns a response of which nothing is known.
func NewManual() *Manual {
	return &Manual{tally: tally{State: State{Phase: semconv.PhaseResponseStarted, FinishReasons: []string{}, Usage: unknownUsage}}}
}

// State returns the state after the steps so far. The pointer stays the same.
func (m *Manual) State() *State { return &m.tally.State }

// Text records a chunk of visible output.
func (m *Manual) Text() {
	if m.event() {
		m.text()
	}
}

// Reasoning records a chunk of reasoning.
func (m *Manual) Reasoning() {
	if m.event() {
		m.reasoning()
	}
}

// Keepalive records that the stream is alive without progress.
func (m *Manual) Keepalive() { m.Keepalives++ }

// StartCall records the beginning of a call's input. It has no effect on a call that has
// begun.
func (m *Manual) StartCall(id, name string) {
	if m.event() {
		m.find(id, name)
	}
}

// CompleteCall records the end of a call's input.
func (m *Manual) CompleteCall(id, name string) {
	if m.event() {
		m.complete(m.find(id, name))
	}
}

// HandOver records that a call, whose input is complete, was delivered to the application.
func (m *Manual) HandOver(id, name string) {
	if m.event() {
		m.handOver(m.find(id, name))
	}
}

// ProviderTool records the beginning of a provider-executed tool, of a type that is not known.
func (m *Manual) ProviderTool() {
	if m.event() {
		m.ProviderToolsStarted++
	}
}

// Identify records the id and the model of the response.
func (m *Manual) Identify(id, model string) { m.identify([]byte(id), []byte(model)) }

// Use replaces the known token counts by those of u that are not negative.
func (m *Manual) Use(u Usage) { m.use(u) }

// Finish records the semantic end of the response: every call whose input is complete is
// delivered to the application.
func (m *Manual) Finish(reason string) {
	if !m.event() {
		return
	}
	m.finish([]byte(reason))
	m.handOverAll()
	m.end()
}

// Fail records a failure that the provider reported.
func (m *Manual) Fail(e Error) {
	if m.Err != nil || m.Terminal {
		return
	}
	e.Type, e.Code = bounded([]byte(e.Type)), bounded([]byte(e.Code))
	m.Err, m.Complete, m.Terminal = &e, false, true
}

// event counts a semantic event. false: the response has ended.
func (m *Manual) event() bool {
	if m.Terminal {
		return false
	}
	m.Events++
	return true
}

// find returns the call of this id. It begins the call if it has not begun.
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

// SafeModel returns a model's name that may be recorded, see [redact.Model].
func SafeModel(name string) string { return redact.Model(name) }
