package retry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
)

// paidOnce are the messages of a call that was executed.
var paidOnce = history{callMessage, outputMessage}

// A function that makes several model calls, which succeed, is left alone.
func TestSeveralCallsAreNoAttempts(t *testing.T) {
	m := newModel(t)
	require.NoError(t, Do(t.Context(), m.policy(), func(ctx context.Context) error {
		for range 6 {
			if err := m.askOnly(ctx); err != nil {
				return err
			}
		}
		return nil
	}))
	assert.Equal(t, 6, m.requests())
}

// A function that pays between two model calls is not called again, whether the first of them has
// a loop of its own or not.
func TestCallBeforeTheLastCounts(t *testing.T) {
	for n := range 8 {
		nested, inRun, recorded := n&1 > 0, n&2 > 0, n&4 > 0
		m := newModel(t, asksToPay, overloaded, asksToPay)
		ctx := t.Context()
		if inRun {
			var run *otelllm.Run
			ctx, run = otelllm.StartRun(ctx, "")
			defer run.End(nil)
		}
		paid := 0
		err := Do(ctx, m.policy(), func(ctx context.Context) error {
			first := m.askOnly
			if nested {
				first = func(ctx context.Context) error { return Do(ctx, m.policy(), m.askOnly) }
			}
			if err := first(ctx); err != nil {
				return err
			}
			if recorded {
				_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_1", Name: "pay"})
				defer tool.End(nil)
			}
			paid++
			_, err := m.ask(ctx, paidOnce)
			return err
		})
		_ = gaveUp(t, err, semconv.RetryDecisionNoHook)
		assert.Equal(t, 1, paid)
	}
}

// What a tool asks a model for, while the answer arrives or after it, is not the call that is repeated.
func TestCallsOfTools(t *testing.T) {
	m := newModel(t, answer, overloaded, overloaded, overloaded, overloaded, overloaded)
	ctx, run := otelllm.StartRun(t.Context(), "", otelllm.WithToolsRecorded())
	defer run.End(nil)
	n := 0
	require.NoError(t, Do(ctx, m.policy(), func(ctx context.Context) error {
		n++
		if err := m.askOnly(ctx); err != nil {
			return err
		}
		ctx, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_1", Name: "search", Effect: otelllm.EffectReadOnly})
		defer tool.End(nil)
		for range 5 {
			require.Error(t, m.askOnly(ctx))
		}
		return nil
	}))
	assert.Equal(t, 1, n)
}

// A person who declined within the function is not asked again.
func TestDeclinedWithin(t *testing.T) {
	m := newModel(t, reply{events: []string{text}, cut: true})
	p := m.policy()
	asked := 0
	p.Ask = func(context.Context, Question) bool { asked++; return asked > 1 }
	err := Run(t.Context(), p, func(ctx context.Context) error { return Do(ctx, p, m.askOnly) })
	_ = gaveUp(t, err, semconv.RetryDecisionDeclined)
	assert.Equal(t, 1, asked)
	assert.Equal(t, 1, m.requests())
}

// That a tool ran unrecorded is known of later attempts as well.
func TestRunRemembersUnrecordedTool(t *testing.T) {
	second := strings.Replace(called, "call_1", "call_2", 1)
	a := &payer{model: newModel(t, asksToPay, overloaded, reply{events: []string{second}, cut: true})}
	ctx, run := otelllm.StartRun(t.Context(), "payer", otelllm.WithToolsRecorded()) // which is wrong
	defer run.End(nil)
	e := gaveUp(t, Run(ctx, a.policy(), a.turn), semconv.RetryDecisionNoHook)
	assert.Equal(t, semconv.RetryReasonToolStateUnknown, e.Plan.Ask)
	require.Len(t, e.Plan.MayHaveRun, 1)
	assert.Equal(t, "call_2", e.Plan.MayHaveRun[0].ID)
	assert.Empty(t, e.Plan.NeverRan)
}

// A further attempt cannot lose its history after a model call that carried it and failed.
func TestRunWatchesHistoryUntilItIsAnswered(t *testing.T) {
	a := &payer{model: newModel(t, asksToPay, overloaded, overloaded, asksToPay), forgets: true}
	turns := 0
	err := Run(t.Context(), a.policy(), func(ctx context.Context) error {
		if turns++; turns == 2 {
			_, err := a.ask(ctx, paidOnce)
			require.Error(t, err)
		}
		return a.turn(ctx)
	})
	_ = gaveUp(t, err, semconv.RetryDecisionOutputLeftOut)
	assert.Equal(t, 1, a.paid)
}

func TestCarries(t *testing.T) {
	paid := func(ids ...string) (outputs []output) {
		for _, id := range ids {
			outputs = append(outputs, output{id, true})
		}
		return outputs
	}
	ids := func(n int, prefix string) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint(prefix, i))
		}
		return list
	}
	read := func(ids []string) (outputs []output) {
		for _, id := range ids {
			outputs = append(outputs, output{id: id})
		}
		return outputs
	}
	assert.True(t, carries([]string{"a", "b"}, append(paid("a"), output{id: "read"}), nil))
	assert.False(t, carries([]string{"a"}, paid("a", "b"), nil))
	assert.False(t, carries(nil, paid("a"), nil))

	// Of a history of 64 outputs or more the newest are known.
	old, reads := ids(64, "old"), ids(80, "read")
	assert.True(t, carries(append(old[2:], "b", "a"), paid("a", "b"), nil))
	assert.False(t, carries(append(old[1:], "b"), paid("a", "b"), nil), "one of several was lost")
	assert.True(t, carries(reads[16:], append(paid("a"), read(reads)...), nil), "it is too old to be seen")
	assert.False(t, carries(old, append(paid("a"), read(reads)...), nil), "the history is the one before")
}

func TestAddOutputsKeepsItsList(t *testing.T) {
	old := []output{{"a", true}, {"b", true}}
	assert.Equal(t, []output{{"b", true}, {"a", true}, {"c", true}}, addOutputs(old, []output{{"a", true}, {"c", true}}))
	assert.Equal(t, []output{{"a", true}, {"b", true}}, old)
}

func TestQuestionTakesNoTimeOfTheBudget(t *testing.T) {
	m := newModel(t, reply{events: []string{text}, cut: true}, overloaded)
	p := m.policy()
	p.Ask = func(context.Context, Question) bool { m.now = m.now.Add(time.Hour); return true }
	require.NoError(t, Do(t.Context(), p, m.askOnly))
	assert.Equal(t, 3, m.requests())
}

func TestCancelledWhileItAsks(t *testing.T) {
	for _, yes := range []bool{false, true} {
		m := newModel(t, reply{events: []string{text}, cut: true})
		ctx, cancel := context.WithCancel(t.Context())
		p := m.policy()
		p.Ask = func(context.Context, Question) bool { cancel(); return yes }
		err := Do(ctx, p, m.askOnly)
		_ = gaveUp(t, err, semconv.RetryDecisionCancelled)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 1, m.requests())
		assert.Empty(t, m.slept)
	}
}

func TestPanicEndsContext(t *testing.T) {
	ctx := t.Context()
	for _, loop := range []func(context.Context, Policy, func(context.Context) error) error{Do, Run} {
		var ended func() error
		assert.Panics(t, func() {
			_ = loop(ctx, Policy{}, func(ctx context.Context) error { ended = ctx.Err; panic("x") })
		})
		assert.Error(t, ended())
	}
}

func TestWaitDoesNotOverflow(t *testing.T) {
	for _, p := range []Policy{
		{Backoff: time.Second, BackoffMost: math.MaxInt64},
		{Backoff: time.Minute, BackoffMost: time.Minute},
		{Backoff: math.MaxInt64, BackoffMost: math.MaxInt64},
	} {
		p.Random = func() float64 { return 0.5 }
		before := p.Backoff / 2
		for retry := 1; retry < 200; retry++ {
			wait := p.wait(retry, 0)
			require.GreaterOrEqual(t, wait, before, "%d", retry)
			before = wait
		}
	}
}

// A process that has seen many hosts still repeats calls of new ones, and a host that is down stays known.
func TestBudgetOfManyHosts(t *testing.T) {
	var b Budget
	for range tokens {
		require.True(t, b.take("down"))
	}
	for n := range 3 * maxHosts {
		require.True(t, b.take(fmt.Sprint("host", n)))
		require.LessOrEqual(t, len(b.taken), maxHosts)
	}
	assert.False(t, b.take("down"))
}

// The budget holds although the application's error handler panics.
func TestPanicOfErrorHandler(t *testing.T) {
	handler, report := otel.GetErrorHandler(), reportSDKRetries
	defer func() { otel.SetErrorHandler(handler); reportSDKRetries = report }()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { panic("x") }))
	reportSDKRetries = onceReportSDKRetries()
	m := newModel(t)
	for range 20 {
		m.replies = append(m.replies, overloaded)
	}
	_ = gaveUp(t, Do(t.Context(), m.policy(), func(ctx context.Context) (err error) {
		for range 10 {
			if err = m.askOnly(ctx); ctx.Err() != nil {
				break
			}
		}
		return err
	}), semconv.RetryDecisionAttemptsSpent)
	assert.Equal(t, 4, m.requests())
}

// A turn that went well is not failed by what happens beside it in its run.
func TestRunBesideFailure(t *testing.T) {
	m := newModel(t, answer, overloaded)
	ctx, run := otelllm.StartRun(t.Context(), "", otelllm.WithToolsRecorded())
	defer run.End(nil)
	require.NoError(t, Run(ctx, m.policy(), func(turn context.Context) error {
		err := m.askOnly(turn)
		require.Error(t, m.askOnly(ctx), "of another goroutine")
		return err
	}))
	assert.Equal(t, 2, m.requests())
}

// A body that is streamed cannot be read before it is sent, and the error says so.
func TestRunOfHistoryThatIsNotRead(t *testing.T) {
	a := &payer{model: newModel(t, asksToPay, overloaded)}
	a.streamed = true
	err := Run(t.Context(), a.policy(), a.turn)
	_ = gaveUp(t, err, semconv.RetryDecisionOutputLeftOut)
	require.ErrorContains(t, err, "cannot be read before it is sent")
	assert.Equal(t, 1, a.paid)
	assert.Equal(t, 2, a.requests())
}

// A function that falls back to something else has handled the failure of its model call.
func TestFallbackIsNoFailure(t *testing.T) {
	for _, loop := range []func(context.Context, Policy, func(context.Context) error) error{Do, Run} {
		m := newModel(t, overloaded)
		require.NoError(t, loop(t.Context(), m.policy(), func(ctx context.Context) error {
			require.Error(t, m.askOnly(ctx))
			return nil
		}))
		assert.Equal(t, 1, m.requests())
	}
}

// Some models use the id of an earlier turn again: its output is not that of the call which ran.
func TestRunOfIDThatIsUsedAgain(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		earlier := history{callMessage, outputMessage, `{"role":"user","content":"Pay the other one, too."}`}
		a := &payer{model: newModel(t, asksToPay, overloaded), recorded: true, history: earlier}
		err := Run(t.Context(), a.policy(), func(ctx context.Context) error {
			if forgets {
				a.history = earlier
			}
			return a.turn(ctx)
		})
		assert.Equal(t, 1, a.paid)
		if forgets {
			_ = gaveUp(t, err, semconv.RetryDecisionOutputLeftOut)
			assert.Equal(t, 2, a.requests())
		} else {
			require.NoError(t, err)
		}
	}
}

// A turn may begin with a call that waited for a person.
func TestRunThatBeginsWithTool(t *testing.T) {
	a := &payer{model: newModel(t, overloaded), recorded: true}
	require.NoError(t, Run(t.Context(), a.policy(), func(ctx context.Context) error {
		if len(a.history) == 0 {
			a.pay(ctx)
			a.history = paidOnce
		}
		return a.turn(ctx)
	}))
	assert.Equal(t, 1, a.paid)
	assert.Equal(t, 2, a.requests())
}

// The SDK's error after a model call that was not sent is of our making: no one has cancelled the
// caller's context.
func TestRefusedCallIsNotCancelled(t *testing.T) {
	m := newModel(t, overloaded, overloaded, overloaded, overloaded)
	own := errors.New("own")
	err := Do(t.Context(), m.policy(), func(ctx context.Context) error {
		var err error
		for ctx.Err() == nil {
			err = m.askOnly(ctx)
		}
		return errors.Join(own, ctx.Err(), err)
	})
	_ = gaveUp(t, err, semconv.RetryDecisionAttemptsSpent)
	require.NotErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, own)
	var sdk *url.Error
	require.ErrorAs(t, err, &sdk)
}

// An agent that is called as a tool is watched as well.
func TestRunStopsAgentInToolThatForgets(t *testing.T) {
	a := &payer{model: newModel(t, asksToPay, overloaded, asksToPay), recorded: true, forgets: true}
	err := Run(t.Context(), a.policy(), func(ctx context.Context) (err error) {
		ctx, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "agent_1", Name: "agent", Effect: otelllm.EffectReadOnly})
		defer tool.Done(&err)
		return a.turn(ctx)
	})
	require.Error(t, err)
	assert.Equal(t, 1, a.paid)
	assert.Equal(t, 2, a.requests())
}
