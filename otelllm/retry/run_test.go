package retry

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
)

// payer is an agent that pays once it is asked to, and goes on from its history.
type payer struct {
	*model

	history  history
	paid     int
	recorded bool // it starts its tool with StartTool
	forgets  bool // each turn begins with an empty history
}

// turn is one turn of the agent.
func (a *payer) turn(ctx context.Context) error {
	h := &a.history
	if a.forgets {
		h = new(history)
	}
	for range 3 {
		answer, err := a.ask(ctx, *h)
		if err != nil {
			return err
		}
		if !asksFor(answer) {
			return nil
		}
		a.pay(ctx)
		*h = append(*h, callMessage, outputMessage)
	}
	return errors.New("too many steps")
}

func asksFor(answer string) bool {
	return len(answer) > 0 && answer[len("data: "):][:len(called)] == called
}

func (a *payer) pay(ctx context.Context) {
	if a.recorded {
		_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_1", Name: "pay", Effect: otelllm.EffectNonIdempotent})
		defer tool.End(nil)
	}
	a.paid++
}

// A turn that fails after its tool ran goes on from its history, and does not ask.
func TestRunGoesOn(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		a := &payer{model: newModel(t, overloaded, asksToPay, overloaded, reply{cut: true}), recorded: recorded}
		p := a.policy()
		p.Ask = func(_ context.Context, q Question) bool {
			t.Errorf("asked %v %v %v", q.Diagnosis, q.Plan, q.Plan.More)
			return false
		}
		require.NoError(t, Run(t.Context(), p, a.turn))
		assert.Equal(t, 1, a.paid)
		assert.Equal(t, 5, a.requests())
	}
}

// A turn that has lost its history is stopped before the model can ask for the same again.
func TestRunStopsTurnThatForgets(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		a := &payer{model: newModel(t, asksToPay, overloaded, asksToPay), recorded: recorded, forgets: true}
		err := Run(t.Context(), a.policy(), a.turn)
		e := gaveUp(t, err, semconv.RetryDecisionOutputLeftOut)
		assert.Equal(t, semconv.CauseOverloaded, e.Diagnosis.Cause, "that of the attempt before")
		require.Len(t, e.Plan.Ran, 1)
		assert.Equal(t, "call_1", e.Plan.Ran[0].ID)
		assert.Equal(t, 1, a.paid)
		assert.Equal(t, 2, a.requests())
		require.ErrorContains(t, err, "lacks the output of a tool call that ran")
	}
}

// Whether a call in a broken answer was executed is known only where tools are recorded.
func TestRunAsksIfToolMayHaveRun(t *testing.T) {
	broken := reply{events: []string{called}, cut: true}
	a := &payer{model: newModel(t, broken)}
	e := gaveUp(t, Run(t.Context(), a.policy(), a.turn), semconv.RetryDecisionNoHook)
	assert.Equal(t, semconv.RetryReasonToolStateUnknown, e.Plan.Ask)
	require.Len(t, e.Plan.MayHaveRun, 1)

	a = &payer{model: newModel(t, broken, asksToPay), recorded: true}
	ctx, run := otelllm.StartRun(t.Context(), "payer", otelllm.WithToolsRecorded())
	require.NoError(t, Run(ctx, a.policy(), a.turn))
	run.End(nil)
	assert.Equal(t, 1, a.paid)
}

// The run is not repeated on an error of the application itself.
func TestRunReturnsOwnError(t *testing.T) {
	m := newModel(t, overloaded)
	own := errors.New("no such invoice")
	turns := 0
	err := Run(t.Context(), m.policy(), func(ctx context.Context) error {
		turns++
		if err := Do(ctx, m.policy(), m.askOnly); err != nil {
			return err
		}
		return own
	})
	assert.Same(t, own, err)
	assert.Equal(t, 1, turns)
	assert.Equal(t, 2, m.requests(), "the call within it was repeated")
}

// An error of the application itself is returned as it is, whatever failed in earlier attempts or in
// a tool.
func TestRunReturnsLaterErrorOfItsOwn(t *testing.T) {
	m := newModel(t, overloaded)
	own := errors.New("the history cannot be read")
	turns := 0
	assert.Same(t, own, Run(t.Context(), m.policy(), func(ctx context.Context) error {
		if turns++; turns == 2 {
			return own
		}
		return m.askOnly(ctx)
	}))
	assert.Equal(t, 2, turns)

	a := &payer{model: newModel(t, asksToPay), recorded: true}
	assert.Same(t, own, Run(t.Context(), a.policy(), func(ctx context.Context) error {
		_, err := a.ask(ctx, nil)
		require.NoError(t, err)
		_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_1", Name: "pay"})
		tool.End(own)
		return own
	}))
}

func TestRunCountsTurns(t *testing.T) {
	m := newModel(t, overloaded, overloaded, overloaded, overloaded)
	p := m.policy()
	p.Attempts = 2
	e := gaveUp(t, Run(t.Context(), p, m.askOnly), semconv.RetryDecisionAttemptsSpent)
	assert.Equal(t, 2, e.Attempts)
	assert.Equal(t, 2, m.requests())
}
