package kinship

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// script drives a Tracker with a clock of its own.
type script struct {
	testing.TB
	*Tracker
	now     time.Time
	session uint64
	live    func() Answer
}

func newScript(t *testing.T) *script {
	t.Helper()
	return &script{TB: t, Tracker: NewTracker(DefaultConfig()), now: t0}
}

// begin sends a request with these items after a while.
func (s *script) begin(after time.Duration, items ...any) Begun {
	s.Helper()
	return s.send(after, transcript(s, items...))
}

func (s *script) send(after time.Duration, tr *wire.Transcript) Begun {
	s.now = s.now.Add(after)
	return s.Begin(s.now, Sent{Transcript: tr, Session: s.session}, s.live)
}

// sendBody is begin for any body.
func (s *script) sendBody(after time.Duration, body string) Begun {
	s.Helper()
	var tr wire.Transcript
	require.True(s, tr.Read([]byte(body)))
	return s.send(after, &tr)
}

// end ends a request and returns why its run is over, if it is.
func (s *script) end(b Begun, a Answer) (over []Reason) {
	s.Helper()
	for _, e := range s.End(s.now, b.Request, a) {
		require.Same(s, b.Run, e.Run)
		over = append(over, e.Reason)
	}
	return over
}

// expire returns why runs are over after a while.
func (s *script) expire(after time.Duration) (over []Reason) {
	s.now = s.now.Add(after)
	for _, e := range s.Expire(s.now) {
		over = append(over, e.Reason)
	}
	return over
}

// these are answers.
func text() Answer { return Answer{Result: Answered, Text: true} }

func failed(way string) Answer { return Answer{Result: Failed, Way: way} }

func cut() Answer { return Answer{Result: Failed, Way: "cut", Text: true} }

func stopped() Answer { return Answer{Result: Stopped} }

func calls(ids ...string) Answer {
	a := Answer{Result: Answered}
	for _, id := range ids {
		a.Calls = append(a.Calls, Call{ID: id, Name: "f"})
	}
	return a
}

const (
	id1 = "call_1a2b3c4d5e6f7890"
	id2 = "call_9f8e7d6c5b4a3210"
	id3 = "call_0123abcd4567efab"
)

// A run that nothing continues is over after this time, for this reason.
func TestEnds(t *testing.T) {
	c := DefaultConfig()
	forced := `{"model":"m","tool_choice":{"type":"function","name":"f"},"input":"a"}`
	for _, tt := range []struct {
		name  string
		body  string
		a     Answer
		after time.Duration
		want  Reason
	}{
		{"a text", "", text(), 0, Finished},
		{"nothing", "", Answer{Result: Answered}, 0, Finished},
		{"a failure", "", failed("reset"), c.Settle, Broken},
		{"a cut answer", "", cut(), c.Settle, Broken},
		{"stopped", "", stopped(), c.Settle, Broken},
		{"a failure after calls", "", Answer{Result: Failed, Calls: calls(id1).Calls}, c.Settle, Broken},
		{"calls", "", calls(id1), c.Idle, Idle},
		{"a forced call", forced, calls(id1), c.Idle, Finished},
		{"a forced call, refused", forced, text(), 0, Finished},
		{"a forced call, failed", forced, failed("x"), c.Settle, Broken},
		{"perhaps calls", "", Answer{Result: Answered, Unnamed: true}, c.Idle, Unclear},
		{"a pause", "", Answer{Result: Answered, Continues: true}, c.Idle, Unclear},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t)
			if tt.body == "" {
				tt.body = `{"input":"a"}`
			}
			b := s.sendBody(0, tt.body)
			assert.Equal(t, First, b.Relation)
			assert.Equal(t, 1, b.Attempt)
			over := s.end(b, tt.a)
			if tt.after == 0 {
				assert.Equal(t, []Reason{tt.want}, over)
				_, waits := s.Deadline()
				assert.False(t, waits)
			} else {
				assert.Empty(t, over)
				at, waits := s.Deadline()
				assert.True(t, waits)
				assert.Equal(t, s.now.Add(tt.after), at)
				assert.Empty(t, s.expire(tt.after-1))
				assert.Equal(t, []Reason{tt.want}, s.expire(1))
			}
			assert.Empty(t, s.expire(time.Hour), "once")
			assert.Empty(t, s.end(b, failed("again")), "End counts once")
			a, ended := b.Answer()
			assert.Equal(t, tt.a, a)
			assert.Equal(t, t0, ended)
			checkBooks(t, s.Tracker)
		})
	}
}

// What a request is to the one before it, by its answer, the time, and what follows.
func TestRelations(t *testing.T) {
	a, do, also := user("a task"), user("do"), user("also")
	c := DefaultConfig()
	for _, tt := range []struct {
		name    string
		answer  Answer
		after   time.Duration
		items   []any // after the first one
		want    Relation
		attempt int
	}{
		{"outputs", calls(id1), 0, []any{callItem(id1), outputItem(id1)}, Step, 1},
		{"outputs, just in time", calls(id1), c.Idle - 1, []any{callItem(id1), outputItem(id1)}, Step, 1},
		{"outputs, too late", calls(id1), c.Idle, []any{callItem(id1), outputItem(id1)}, Next, 1},
		{"outputs and a message", calls(id1), 0, []any{callItem(id1), outputItem(id1), also}, Step, 1},
		{"no outputs, but a message", calls(id1), 0, []any{callItem(id1), also}, Next, 1},
		{"outputs of a cut answer", Answer{Result: Failed, Calls: calls(id1).Calls}, 0, []any{callItem(id1), outputItem(id1)}, Step, 1},
		{"outputs of other calls", calls(id1), 0, []any{callItem(id2), outputItem(id2)}, First, 1},
		{"outputs of one of the calls", calls(id1, id2), 0, []any{callItem(id1), outputItem(id1)}, Step, 1}, // by its id alone
		{"outputs of one, counted", calls("call_0", "call_1"), 0, []any{callItem("call_0"), outputItem("call_0")}, First, 1},
		{"calls after a text", text(), 0, []any{callItem(id1), outputItem(id1)}, First, 1},
		{"calls without ids", calls(""), 0, []any{callItem("x"), outputItem("x")}, Step, 1},
		{"calls that are not known", Answer{Result: Answered, Unnamed: true}, 0, []any{callItem(id1), outputItem(id1)}, Step, 1},
		{"the next message", text(), time.Hour, []any{assistant("yes"), do}, Next, 1},
		{"the next message without the answer", text(), 0, []any{do}, Next, 1},
		{"two answers later", text(), 0, []any{assistant("yes"), do, assistant("yes"), also}, First, 1},
		{"a pause that goes on", Answer{Result: Answered, Continues: true}, 0, []any{assistant("well")}, Step, 1},
		{"a pause, then a message", Answer{Result: Answered, Continues: true}, 0, []any{assistant("well"), do}, Next, 1},
		{"the same again, failed", failed("reset"), 0, nil, Again, 2},
		{"the same again, in time", failed("reset"), c.Settle - 1, nil, Again, 2},
		{"the same again, too late", failed("reset"), c.Settle, nil, First, 1},
		{"the same again, stopped", stopped(), 0, nil, Again, 2},
		{"the same again, answered", text(), 0, nil, First, 1},
		{"the same again, with calls", calls(id1), 0, nil, First, 1},
		{"with the part that came", cut(), 0, []any{assistant("I wi")}, Again, 2},
		{"with the part and a request to go on", cut(), 0, []any{assistant("I wi"), do}, Again, 2},
		{"with a part that cannot have come", failed("429"), 0, []any{assistant("I wi"), do}, First, 1},
		{"stopped, then a message", stopped(), 0, []any{do}, Next, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t)
			first := s.begin(0, a)
			s.end(first, tt.answer)
			b := s.begin(tt.after, append([]any{a}, tt.items...)...)
			require.Equal(t, tt.want, b.Relation)
			assert.Equal(t, tt.attempt, b.Attempt)
			assert.Equal(t, tt.want.Joins(), first.Run == b.Run)
			assert.Equal(t, tt.want != First, b.Before == first.Request)
			assert.Equal(t, tt.want != First, first.Run.Conversation() == b.Run.Conversation())
			if !tt.want.Joins() {
				ends := len(b.Ended) + len(s.end(b, text()))
				over := s.expire(time.Hour)
				assert.True(t, first.Run.over)
				assert.LessOrEqual(t, ends+len(over), 2)
			}
			checkBooks(t, s.Tracker)
		})
	}
}

// A run that a later one of its conversation continues has nothing more to come.
func TestNextEndsTheRunBefore(t *testing.T) {
	s := newScript(t)
	b := s.begin(0, user("a task"))
	s.end(b, stopped())
	next := s.begin(time.Second, user("a task"), user("another"))
	assert.Equal(t, Next, next.Relation)
	assert.Equal(t, []Ended{{b.Run, Broken}}, next.Ended)
}

func TestAttempts(t *testing.T) {
	s := newScript(t)
	var run *Run
	for i := range 12 { // more than what is remembered
		b := s.begin(time.Second, user("a task"))
		assert.Equal(t, i+1, b.Attempt)
		if run == nil {
			run = b.Run
		}
		require.Same(t, run, b.Run)
		if i < 11 {
			s.end(b, failed("reset"))
		} else {
			s.end(b, cut())
		}
	}
	assert.Equal(t, 10, run.Repeated())

	// With what came of the answers, one after the other, and then well.
	items := []any{user("a task")}
	for i := range 12 {
		items = append(items, assistant("a part"))
		b := s.begin(time.Second, items...)
		require.Same(t, run, b.Run)
		assert.Equal(t, 13+i, b.Attempt)
		if i < 11 {
			s.end(b, cut())
		} else {
			assert.Equal(t, []Reason{Finished}, s.end(b, text()))
		}
	}
}

// A client may leave out, in a further attempt, what it had added to the one before.
func TestAttemptFromTheBeginning(t *testing.T) {
	s := newScript(t)
	first := s.begin(0, user("a task"))
	s.end(first, cut())
	second := s.begin(time.Second, user("a task"), assistant("a part"), user("go on"))
	s.end(second, cut())
	third := s.begin(time.Second, user("a task"), assistant("another part"), user("go on"))
	assert.Equal(t, Again, third.Relation)
	assert.Same(t, first.Run, third.Run)
	assert.Equal(t, 3, third.Attempt)
}

func TestFork(t *testing.T) {
	s := newScript(t)
	first := s.begin(0, user("a task"))
	s.end(first, text())
	next := s.begin(time.Second, user("a task"), assistant("yes"), user("then"))
	fork := s.begin(time.Second, user("a task"), assistant("yes"), user("instead"))
	assert.Equal(t, Next, next.Relation)
	assert.Equal(t, Fork, fork.Relation)
	assert.NotSame(t, next.Run, fork.Run)
	assert.Same(t, first.Run.Conversation(), fork.Run.Conversation())

	// A step that another one has taken before.
	s.end(next, calls(id1))
	step := s.begin(time.Second, user("a task"), assistant("yes"), user("then"), callItem(id1), outputItem(id1))
	assert.Equal(t, Step, step.Relation)
	s.end(step, text())
	again := s.begin(time.Second, user("a task"), assistant("yes"), user("then"), callItem(id1), outputItem(id1), user("and more"))
	assert.Equal(t, Next, again.Relation, "it continues the step")
	other := s.begin(time.Second, user("a task"), assistant("yes"), user("then"), callItem(id1), object{"type": "function_call_output", "call_id": id1, "output": "another"})
	assert.Equal(t, Fork, other.Relation)
}

// A step that failed is repeated with other outputs, or without one. Calls with random ids
// prove that it is the same agent.
func TestStepAgain(t *testing.T) {
	calling := func(id string, more ...any) []any { return append([]any{user("a task"), callItem(id)}, more...) }
	shorter := object{"type": "function_call_output", "call_id": id1, "output": "…"}
	for _, tt := range []struct {
		name  string
		id    string
		a     Answer // of the step
		again []any
		want  Relation
	}{
		{"the output is lost", id1, failed("reset"), calling(id1), Again},
		{"the output is lost after a part of the answer", id1, cut(), calling(id1), Again},
		{"stopped, and the output is lost", id1, stopped(), calling(id1), Again},
		{"another output", id1, failed("too long"), calling(id1, shorter), Again},
		{"a counted id", "call_0", failed("reset"), calling("call_0"), Fork},
		{"the step was answered", id1, text(), calling(id1), Fork},
		{"the step is open", id1, Answer{}, calling(id1), Fork},
		{"with a new task", id1, failed("reset"), calling(id1, user("then")), Fork},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t)
			s.end(s.begin(0, user("a task")), calls(tt.id))
			step := s.begin(time.Second, calling(tt.id, outputItem(tt.id))...)
			require.Equal(t, Step, step.Relation)
			if tt.a.Result != Pending {
				s.end(step, tt.a)
			}
			again := s.begin(time.Second, tt.again...)
			assert.Equal(t, tt.want, again.Relation)
			if tt.want != Again {
				return
			}
			assert.Same(t, step.Run, again.Run)
			assert.Equal(t, 2, again.Attempt)
			assert.Empty(t, again.Observed, "the step has shown them")
			s.end(again, failed("reset"))
			third := s.begin(time.Second, calling(tt.id, outputItem(tt.id))...)
			assert.Equal(t, Again, third.Relation)
			assert.Equal(t, 3, third.Attempt)
			s.end(third, failed("reset"))
			s.expire(DefaultConfig().Settle)
			late := s.begin(time.Second, tt.again...)
			assert.False(t, late.Relation.Joins(), "the run is over")
		})
	}
}

// What follows a request that was not recorded belongs to its run: it may have made any call.
func TestUnobserved(t *testing.T) {
	for _, session := range []uint64{0, 1} {
		for want, items := range map[Relation][]any{
			Step:  {user("a task"), callItem("call_0"), outputItem("call_0")},
			Again: {user("a task")},
			Next:  {user("a task"), assistant("yes"), user("then")},
		} {
			s := newScript(t)
			s.session = session
			assert.Empty(t, s.end(s.begin(0, user("a task")), Answer{Result: Unobserved}))
			b := s.begin(time.Second, items...)
			assert.Equal(t, want, b.Relation)
			assert.Empty(t, b.Observed)
			checkBooks(t, s.Tracker)
		}
	}
	c := DefaultConfig()
	for session, wait := range []time.Duration{c.Settle, c.Idle} { // the same words again may be another agent's
		s := newScript(t)
		s.session = uint64(session)
		s.end(s.begin(0, user("a task")), Answer{Result: Unobserved})
		assert.Empty(t, s.expire(wait-1))
		assert.Equal(t, []Reason{Unclear}, s.expire(1))
	}
}

// An agent that is recorded has the words of one that is not.
func TestUnobservedTwin(t *testing.T) {
	for id, want := range map[string]Relation{id1: Step, "call_0": First} {
		s := newScript(t)
		recorded := s.begin(0, user("a task"))
		s.end(s.begin(0, user("a task")), Answer{Result: Unobserved})
		s.end(recorded, calls(id))
		b := s.begin(time.Second, user("a task"), callItem(id), outputItem(id))
		assert.Equal(t, want, b.Relation, id)
		assert.Equal(t, want == Step, b.Run == recorded.Run)
	}
}

// Two agents with the same words: they are not joined until an id distinguishes them.
func TestTwins(t *testing.T) {
	a, out := user("a task"), []any{user("a task"), callItem("call_0"), outputItem("call_0")}
	t.Run("counted ids", func(t *testing.T) {
		s := newScript(t)
		one, two := s.begin(0, a), s.begin(0, a)
		s.end(one, calls("call_0"))
		s.end(two, calls("call_0"))
		assert.Equal(t, First, s.begin(0, out...).Relation)
		assert.Equal(t, []Reason{Unclear, Unclear}, s.expire(time.Hour))
	})
	t.Run("random ids", func(t *testing.T) {
		s := newScript(t)
		one, two := s.begin(0, a), s.begin(0, a)
		s.end(one, calls(id1))
		s.end(two, calls(id2))
		b := s.begin(0, a, callItem(id2), outputItem(id2))
		assert.Same(t, two.Run, b.Run)
		b = s.begin(0, a, callItem(id1), outputItem(id1))
		assert.Same(t, one.Run, b.Run)
	})
	t.Run("both failed", func(t *testing.T) {
		s := newScript(t)
		one, two := s.begin(0, a), s.begin(0, a)
		s.end(one, failed("x"))
		s.end(two, failed("x"))
		assert.Equal(t, First, s.begin(0, a).Relation)
		assert.Equal(t, []Reason{Unclear, Unclear}, s.expire(time.Hour))
	})
	t.Run("sessions", func(t *testing.T) {
		s := newScript(t)
		s.session = 1
		one := s.begin(0, a)
		s.session = 2
		two := s.begin(0, a)
		s.end(one, failed("x"))
		s.end(two, failed("x"))
		assert.Same(t, two.Run, s.begin(0, a).Run)
		s.session = 1
		assert.Same(t, one.Run, s.begin(0, a).Run)
	})
}

// A task that runs again and again, with the same words: its further attempts are found,
// and a failure is one.
func TestScheduledTask(t *testing.T) {
	s := newScript(t)
	for range 3 * maxTwins {
		b := s.begin(time.Hour, user("the task"))
		require.Equal(t, First, b.Relation)
		s.end(b, failed("429"))
		again := s.begin(time.Second, user("the task"))
		require.Same(t, b.Run, again.Run)
		require.Equal(t, []Reason{Finished}, s.end(again, text()))
	}
	b := s.begin(time.Hour, user("the task"))
	s.end(b, failed("429"))
	assert.Equal(t, []Reason{Broken}, s.expire(time.Hour))

	// Too many at once: which of them a further attempt belongs to is not clear.
	for range 3 * maxTwins {
		s.end(s.begin(0, user("the task")), failed("429"))
	}
	assert.Equal(t, First, s.begin(time.Second, user("the task")).Relation)
	assert.NotContains(t, s.expire(time.Hour), Broken)

	// Ids that are random still tell them apart.
	var runs []Begun
	for i := range 2 * maxTwins {
		b := s.begin(0, user("the task"))
		s.end(b, calls(id1+string(rune('a'+i))))
		runs = append(runs, b)
	}
	for i, b := range slices.Backward(runs[maxTwins:]) {
		id := id1 + string(rune('a'+maxTwins+i))
		assert.Same(t, b.Run, s.begin(0, user("the task"), callItem(id), outputItem(id)).Run)
	}
}

func TestPreviousResponse(t *testing.T) {
	s := newScript(t)
	body := func(previous, input string) string {
		return `{"model":"m","tools":[{"name":"f"}],"previous_response_id":"` + previous + `","input":` + input + `}`
	}
	long := "resp_" + strings.Repeat("0123456789abcdef", 20) // as some gateways make them
	first := s.begin(0, user("a task"))
	a := calls(id1)
	a.ResponseID = wire.SafeID(long)
	s.end(first, a)
	output := `[{"type":"function_call_output","call_id":"` + id1 + `","output":"fine"}]`
	step := s.sendBody(time.Second, body(long, output))
	require.Equal(t, Step, step.Relation)
	assert.Same(t, first.Run, step.Run)
	assert.Equal(t, []Observed{{Call: Call{id1, "f"}, Sent: true}}, step.Observed)
	s.end(step, failed("reset"))
	again := s.sendBody(time.Second, body(long, output))
	assert.Equal(t, Again, again.Relation)
	assert.Same(t, step.Request, again.Before)
	a = text()
	a.ResponseID = "resp_2"
	assert.Equal(t, []Reason{Finished}, s.end(again, a))
	next := s.sendBody(time.Second, body("resp_2", `"then"`))
	assert.Equal(t, Next, next.Relation)
	fork := s.sendBody(time.Second, body("resp_2", `"instead"`))
	assert.Equal(t, Fork, fork.Relation)
	assert.Equal(t, First, s.sendBody(time.Second, body("resp_3", `"then"`)).Relation)
}

// The next request may come before this side knows that the last one ended.
func TestLiveAnswer(t *testing.T) {
	s := newScript(t)
	var sofar Answer
	s.live = func() Answer { return sofar }
	first := s.begin(0, user("a task"))
	early := s.begin(0, user("a task"), callItem(id1), outputItem(id1))
	assert.Equal(t, First, early.Relation, "the first one has no answer yet")
	s.end(early, text())

	sofar = calls(id2)
	step := s.begin(0, user("a task"), callItem(id2), outputItem(id2))
	assert.Equal(t, Step, step.Relation)
	assert.Same(t, first.Run, step.Run)
	assert.Equal(t, []Observed{{Call: Call{id2, "f"}, Sent: true}}, step.Observed)
	assert.Empty(t, s.end(first, sofar), "the run goes on")
	assert.Equal(t, []Reason{Finished}, s.end(step, text()))
}

// A client that left a silent stream sends the same again. A gateway may not know yet.
func TestStall(t *testing.T) {
	for _, tt := range []struct {
		name    string
		session uint64
		after   time.Duration
		want    Relation
	}{
		{"with a session", 1, time.Minute, Again},
		{"at the same time", 1, minStall - 1, First},
		{"without a session", 0, time.Minute, First},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t)
			s.session = tt.session
			first := s.begin(0, user("a task"))
			again := s.begin(tt.after, user("a task"))
			assert.Equal(t, tt.want, again.Relation)
			if tt.want == Again {
				assert.Equal(t, 2, again.Attempt)
				assert.Empty(t, s.end(again, text()), "the first one is still open")
				assert.Empty(t, s.end(first, stopped()), "it may be repeated")
				assert.Equal(t, []Reason{Finished}, s.expire(DefaultConfig().Repeat))
			}
		})
	}
}

func TestRepeated(t *testing.T) {
	s := newScript(t)
	items := []any{user("a task")}
	b := s.begin(0, items...)
	for i, id := range []string{id1, id2, id3} {
		s.end(b, calls(id))
		items = append(items, callItem(id), outputItem(id))
		b = s.begin(time.Second, items...)
		require.Equal(t, Step, b.Relation)
		assert.Equal(t, i, b.Run.Repeated(), "the same call with the same input")
	}
	s.end(b, calls("call_x"))
	other := callItem("call_x")
	other["arguments"] = `{"path":"x"}`
	items = append(items, other, outputItem("call_x"))
	b = s.begin(time.Second, items...)
	assert.Equal(t, 2, b.Run.Repeated(), "another input")

	// Failures in the same way, and in another one.
	for _, way := range []string{"reset", "reset", "reset", "reset", "timeout", "timeout", "", ""} {
		s.end(b, failed(way))
		b = s.begin(time.Second, items...)
	}
	assert.Equal(t, 3, b.Run.Repeated())

	// Steps whose history is edited count as well.
	s = newScript(t)
	b = s.begin(0, user("a task"))
	for i, id := range []string{id1, id2, id3} {
		s.end(b, calls(id))
		b = s.begin(time.Second, user("summary "+id), callItem(id), outputItem(id))
		require.Equal(t, Step, b.Relation)
		assert.Equal(t, i, b.Run.Repeated())
	}
}

func TestObserved(t *testing.T) {
	out := func(id, text string) object {
		return object{"type": "function_call_output", "call_id": id, "output": text}
	}
	sent := func(id string, r wire.TranscriptResult) Observed {
		return Observed{Call: Call{ID: id, Name: "f"}, Sent: true, Result: r}
	}
	lost := func(id string) Observed { return Observed{Call: Call{ID: id, Name: "f"}} }
	for _, tt := range []struct {
		name    string
		a       Answer
		outputs []any
		want    []Observed
	}{
		{"all, in another order", calls(id1, id2), []any{out(id2, "aborted"), out(id1, "x")}, []Observed{sent(id1, 0), sent(id2, wire.ResultInterrupted)}},
		{"one is lost", calls(id1, id2), []any{out(id2, "x")}, []Observed{lost(id1), sent(id2, 0)}},
		{"the same id twice", calls("call_0", "call_0"), []any{out("call_0", "x"), out("call_0", "aborted")}, []Observed{sent("call_0", 0), sent("call_0", wire.ResultInterrupted)}},
		{"no ids, but the client's", calls("", ""), []any{out("a", "aborted"), out("b", "x")}, []Observed{sent("", wire.ResultInterrupted), sent("", 0)}},
		{"no ids, one is missing", calls("", ""), []any{out("a", "x")}, []Observed{}},
		{"an id and none", calls(id1, ""), []any{out("a", "aborted"), out(id1, "x")}, []Observed{sent(id1, 0), sent("", wire.ResultInterrupted)}},
		{"an id and none, one is missing", calls(id1, ""), []any{out(id1, "x")}, []Observed{sent(id1, 0), lost("")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t)
			first := s.begin(0, user("a task"))
			s.end(first, tt.a)
			items := []any{user("a task")}
			for i, c := range tt.a.Calls {
				if c.ID == "" {
					c.ID = string(rune('a' + i))
				}
				items = append(items, callItem(c.ID))
			}
			b := s.begin(time.Second, append(items, tt.outputs...)...)
			require.Equal(t, Step, b.Relation)
			assert.Equal(t, tt.want, b.Observed)
		})
	}
}

// An id that comes again each turn: its older output is not the newer call's.
func TestObservedOfReusedIDs(t *testing.T) {
	s := newScript(t)
	items := []any{user("a task")}
	b := s.begin(0, items...)
	s.end(b, calls("call_0"))
	items = append(items, callItem("call_0"), outputItem("call_0"))
	b = s.begin(time.Second, items...)
	require.True(t, b.Observed[0].Sent)
	s.end(b, calls("call_0", "call_1"))
	items = append(items, callItem("call_0"), callItem("call_1"), outputItem("call_1"))
	b = s.begin(time.Second, items...)
	require.Equal(t, Step, b.Relation)
	assert.Equal(t, []Observed{{Call: Call{"call_0", "f"}}, {Call: Call{"call_1", "f"}, Sent: true}}, b.Observed)
}

// The history is summarized: the outputs of calls with random ids remain a proof, if the
// instructions or the tools are the same.
func TestByOutputs(t *testing.T) {
	body := func(system, tools, id string) string {
		return `{"model":"m","messages":[{"role":"system","content":"` + system + `"},{"role":"user","content":"summary"},{"role":"assistant","content":"","tool_calls":[{"id":"` + id +
			`","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"` + id + `","content":"o"}],"tools":[` + tools + `]}`
	}
	first := `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"a task"}],"tools":[{"name":"f"}]}`
	for _, tt := range []struct {
		name, body, id string
		want           Relation
	}{
		{"the same instructions", body("s", "", id1), id1, Step},
		{"the same tools", body("at noon", `{"name":"f"}`, id1), id1, Step},
		{"neither", body("remember", `{"name":"g"}`, id1), id1, First},
		{"a counted id", body("s", `{"name":"f"}`, "call_0"), "call_0", First},
		{"an unknown id", body("s", `{"name":"f"}`, id2), id1, First},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t)
			s.end(s.sendBody(0, first), calls(tt.id))
			assert.Equal(t, tt.want, s.sendBody(time.Second, tt.body).Relation)
		})
	}
}

func TestClientsAreApart(t *testing.T) {
	for _, with := range []string{`"prompt_cache_key":"b"`, `"metadata":{"user_id":"b"}`, `"conversation":{"id":"b"}`} {
		s := newScript(t)
		s.end(s.sendBody(0, `{"input":"a"}`), failed("x"))
		assert.Equal(t, First, s.sendBody(0, `{"input":"a",`+with+`}`).Relation)
		assert.Equal(t, Again, s.sendBody(0, `{"input":"a"}`).Relation)
	}
}

// The same words with other tools are another agent's.
func TestOtherTools(t *testing.T) {
	s := newScript(t)
	s.end(s.sendBody(0, `{"input":"a","tools":[{"name":"f"}]}`), failed("x"))
	assert.Equal(t, First, s.sendBody(0, `{"input":"a","tools":[{"name":"g"}]}`).Relation)
	assert.Equal(t, Again, s.sendBody(0, `{"input":"a","tools":[{"name":"f"}]}`).Relation)
}

// A body without messages is a run of its own.
func TestNoMessages(t *testing.T) {
	s := newScript(t)
	for range 3 {
		b := s.send(0, &wire.Transcript{})
		assert.Equal(t, First, b.Relation)
		s.end(b, failed("x"))
	}
	checkBooks(t, s.Tracker)
	assert.Equal(t, []Reason{Broken, Broken, Broken}, s.expire(time.Hour))
}

func TestEviction(t *testing.T) {
	s := newScript(t)
	s.config.MaxConversations = 2
	one, two := s.begin(0, user("one")), s.begin(0, user("two"))
	s.end(one, calls(id1))
	s.end(two, calls(id2))
	step := s.begin(0, user("one"), callItem(id1), outputItem(id1)) // used last
	three := s.begin(0, user("three"))
	assert.Equal(t, []Ended{{two.Run, Evicted}}, three.Ended)
	assert.Equal(t, First, s.begin(0, user("two"), callItem(id2), outputItem(id2)).Relation)
	assert.Empty(t, s.end(step, text()), "its run is over: evicted by the one before")
	checkBooks(t, s.Tracker)

	over := s.Shutdown()
	assert.Len(t, over, 2)
	assert.Empty(t, s.Shutdown())
	assert.Empty(t, s.end(three, text()), "after Shutdown")
	assert.Zero(t, s.bytes)
	_, waits := s.Deadline()
	assert.False(t, waits)
}

// What belongs to an evicted conversation is not taken for that of another one with the
// same words.
func TestEvictedTwin(t *testing.T) {
	s := newScript(t)
	s.config.MaxConversations = 2
	one, two := s.begin(0, user("a task")), s.begin(0, user("a task"))
	s.end(one, calls("call_0"))
	s.end(two, calls("call_0"))
	three := s.begin(0, user("another"))
	require.Equal(t, []Ended{{one.Run, Evicted}}, three.Ended)
	assert.Equal(t, First, s.begin(0, user("a task"), callItem("call_0"), outputItem("call_0")).Relation)
}

// Many agents of one session work at the same time: none of them is given up.
func TestManyRunsOfOneSession(t *testing.T) {
	s := newScript(t)
	s.session = 7
	var all []Begun
	for i := range 100 {
		b := s.begin(0, user("task "+string(rune('A'+i))))
		require.Empty(t, b.Ended)
		s.end(b, calls("call_0"))
		all = append(all, b)
	}
	for i, b := range all {
		step := s.begin(0, user("task "+string(rune('A'+i))), callItem("call_0"), outputItem("call_0"))
		require.Same(t, b.Run, step.Run)
	}
	checkBooks(t, s.Tracker)
}

// A request with the outputs of calls that an attempt had handed over before it failed, and that
// the attempts after it did not know, goes on with the run: whatever the ids are, and whatever the
// attempts after it came to, unless another agent may have made the same calls.
func TestOutputsAfterAnAttemptWithoutThem(t *testing.T) {
	for _, id := range []string{id1, "call_0", "functions.pay:0", "call_e2e_5Yq8"} {
		for name, after := range map[string][]Answer{
			"answered":         {text()},
			"failed":           {failed("reset")},
			"failed, answered": {cut(), text()},
		} {
			broken := Answer{Result: Failed, Way: "reset", Calls: []Call{{ID: id, Name: "f"}}}
			then := []any{user("a task"), callItem(id), outputItem(id)}

			s := newScript(t)
			first := s.begin(0, user("a task"))
			s.end(first, broken)
			for _, answer := range after {
				again := s.begin(time.Second, user("a task"))
				require.Equal(t, Again, again.Relation)
				s.end(again, answer)
			}
			step := s.begin(time.Second, then...)
			assert.Equal(t, Step, step.Relation, "%s %s", id, name)
			assert.Same(t, first.Run, step.Run, "%s %s", id, name)
			assert.Equal(t, []Observed{{Call: Call{ID: id, Name: "f"}, Sent: true}}, step.Observed, "%s %s", id, name)
			s.end(step, text())
			assert.False(t, s.begin(time.Second, then...).Relation.Joins(), "%s %s: it has been answered", id, name)

			s = newScript(t)
			first = s.begin(0, user("a task"))
			twin := s.begin(0, user("a task"))
			require.NotSame(t, first.Run, twin.Run)
			s.end(first, broken)
			s.end(twin, calls(id))
			other := s.begin(time.Second, then...)
			assert.NotSame(t, first.Run, other.Run, "%s: another agent may have made the call", id)

			s = newScript(t)
			first = s.begin(0, user("a task"))
			s.end(first, broken)
			s.end(s.begin(time.Second, user("a task")), text())
			unlike := s.begin(time.Second, user("a task"), callItem(id+"7"), outputItem(id+"7"))
			assert.NotSame(t, first.Run, unlike.Run, "%s: another call", id)
		}
	}
}

// An agent that does the same task again sends the same histories, if its model gives the same ids
// to its calls: what has the outputs goes on with the run that waits for them. Other clients may
// say the same words, so theirs do not.
func TestSameTaskAgain(t *testing.T) {
	step := []any{user("a task"), callItem("call_0"), outputItem("call_0")}
	for name, known := range map[string]bool{"one agent": true, "anyone": false, "one agent, at once": true} {
		s := newScript(t)
		s.config.Alone = known
		pause := time.Minute
		if name == "one agent, at once" {
			pause = time.Second
		}
		var first *Run
		for range 3 {
			b := s.begin(time.Second, user("a task"))
			s.end(b, calls("call_0"))
			next := s.begin(time.Second, step...)
			s.end(next, text())
			if first == nil {
				first = b.Run
				require.Same(t, first, next.Run, name)
			} else {
				assert.NotSame(t, first, b.Run, name)
				assert.Equal(t, known, b.Run == next.Run, name)
			}
			s.expire(pause)
		}

		s = newScript(t)
		s.config.Alone = known
		one, two := s.begin(time.Second, user("a task")), s.begin(0, user("a task"))
		s.end(one, calls("call_0"))
		s.end(two, calls("call_0"))
		either := s.begin(time.Second, step...)
		assert.False(t, either.Relation.Joins(), "%s: both wait", name)
	}
}
