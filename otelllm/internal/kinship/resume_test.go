package kinship

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

const (
	toolsOf = `"tools":[{"type":"function","name":"f"}],`
	user1   = `{"role":"user","content":"one"}`
	user2   = `{"role":"user","content":"two"}`
	answer1 = `{"type":"message","role":"assistant","content":"1"}`
)

func answered(id string, calls ...Call) Answer {
	return Answer{Result: Answered, Text: len(calls) == 0, ResponseID: id, Calls: calls}
}

func broke(id string, calls ...Call) Answer {
	return Answer{Result: Failed, Way: "reset", Text: true, ResponseID: id, Calls: calls}
}

// TestInFull checks when a request with the whole history is an attempt of one that referred to a response.
func TestInFull(t *testing.T) {
	short := `{` + toolsOf + `"previous_response_id":"resp_1a2b3c4d","input":[` + user2 + `]}`
	long := `{` + toolsOf + `"input":[` + user1 + `,` + answer1 + `,` + user2 + `]}`
	for _, tt := range []struct {
		name    string
		session uint64
		first   Answer
		second  string
		want    Relation
	}{
		{"after a failure", 7, broke(""), long, Again},
		{"after an answer", 7, answered("resp_2a2b3c4d"), long, Fork},
		{"without a session", 0, broke(""), long, Fork},
		{"something else", 7, broke(""), `{` + toolsOf + `"input":[` + user1 + `,` + answer1 + `,` + user1 + `]}`, Fork},
		{"other tools", 7, broke(""), `{"input":[` + user1 + `,` + answer1 + `,` + user2 + `]}`, Fork},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t)
			s.session = tt.session
			s.end(s.sendBody(0, `{`+toolsOf+`"input":[`+user1+`]}`), answered("resp_1a2b3c4d"))
			next := s.sendBody(time.Second, short)
			assert.Equal(t, Next, next.Relation)
			s.end(next, tt.first)
			again := s.sendBody(time.Second, tt.second)
			assert.Equal(t, tt.want, again.Relation)
			if tt.want == Again {
				assert.Same(t, next.Run, again.Run)
				assert.Equal(t, 2, again.Attempt)
			}
		})
	}
}

// TestInFullIsUnclear checks that the request is not joined if two requests may have been repeated: two agents of a
// session began with the same words.
func TestInFullIsUnclear(t *testing.T) {
	for _, broken := range []int{1, 2} {
		s := newScript(t)
		s.session = 7
		ids := []string{"resp_1a2b3c4d", "resp_1a2b3c4e"}
		var begun []Begun
		for range ids { // at once: otherwise the second one repeats the first
			begun = append(begun, s.sendBody(0, `{`+toolsOf+`"input":[`+user1+`]}`))
		}
		for i, id := range ids {
			s.end(begun[i], answered(id))
		}
		for _, id := range ids[:broken] {
			s.end(s.sendBody(0, `{`+toolsOf+`"previous_response_id":"`+id+`","input":[`+user2+`]}`), broke(""))
		}
		long := s.sendBody(time.Second, `{`+toolsOf+`"input":[`+user1+`,`+answer1+`,`+user2+`]}`)
		assert.False(t, long.Relation.Joins(), broken)
	}
}

// TestInFullOfAnotherOne checks that a request of the same session that ends in the same words is another one if
// its history has another turn, one turn more or one less.
func TestInFullOfAnotherOne(t *testing.T) {
	const goOn = `{"role":"user","content":"go on"}`
	begin := func(t *testing.T) (*script, Begun) {
		t.Helper()
		s := newScript(t)
		s.session = 7
		s.end(s.sendBody(0, `{`+toolsOf+`"input":[`+user1+`]}`), answered("resp_1a2b3c4d"))
		s.end(s.sendBody(0, `{`+toolsOf+`"previous_response_id":"resp_1a2b3c4d","input":[`+user2+`]}`), answered("resp_2a2b3c4d"))
		last := s.sendBody(0, `{`+toolsOf+`"previous_response_id":"resp_2a2b3c4d","input":[`+goOn+`]}`)
		s.end(last, broke(""))
		return s, last
	}
	for _, tt := range []struct {
		name  string
		turns []string
		joins bool
	}{
		{"the same", []string{user1, user2, goOn}, true},
		{"another turn", []string{user1, user1, goOn}, false},
		{"another beginning", []string{user2, user2, goOn}, false},
		{"one turn less", []string{user2, goOn}, false},
		{"one turn more", []string{user1, user1, user2, goOn}, false},
		{"a turn of two messages", []string{user1, user2 + "," + user2, goOn}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, last := begin(t)
			again := s.sendBody(time.Second, `{`+toolsOf+`"input":[`+strings.Join(tt.turns, ","+answer1+",")+`]}`)
			require.Equal(t, tt.joins, again.Relation == Again)
			if tt.joins {
				assert.Same(t, last.Run, again.Run)
			} else {
				assert.False(t, again.Relation.Joins())
			}
		})
	}
}

// TestInFullOfLongConversation checks a conversation whose first request is forgotten: a call with a random id that
// is in the history has to prove whose it is.
func TestInFullOfLongConversation(t *testing.T) {
	for _, tt := range []struct {
		call  string
		turns int // after the call
		want  bool
	}{
		{"call_5a2b3c4d", 1, true},
		{"call_5a2b3c4d", maxRequests - 2, true},
		{"call_5a2b3c4d", maxRequests, false}, // it is forgotten
		{"call_0", 1, false},
	} {
		s := newScript(t)
		s.session = 7
		whole := user1
		id := func(n int) string { return fmt.Sprintf("resp_1a2b3c%02d", n) }
		s.end(s.sendBody(0, `{`+toolsOf+`"input":[`+user1+`]}`), answered(id(0)))
		n := 0
		turn := func(answer, input string, a Answer) Begun {
			whole += "," + answer + "," + input
			b := s.sendBody(0, `{`+toolsOf+`"previous_response_id":"`+id(n)+`","input":[`+input+`]}`)
			n++
			a.ResponseID = id(n)
			s.end(b, a)
			return b
		}
		for range maxRequests {
			turn(answer1, user2, text())
		}
		turn(answer1, user2, calls(tt.call))
		answer := `{"type":"function_call","call_id":"` + tt.call + `","name":"f","arguments":"{}"}`
		input := `{"type":"function_call_output","call_id":"` + tt.call + `","output":"x"}`
		for range tt.turns {
			turn(answer, input, text())
			answer, input = answer1, user2
		}
		last := turn(answer, input, broke(""))
		again := s.sendBody(time.Second, `{`+toolsOf+`"input":[`+whole+`]}`)
		assert.Equal(t, tt.want, again.Relation == Again, "%s, %d turns later", tt.call, tt.turns)
		assert.Equal(t, tt.want, last.Run == again.Run)
	}
}

func (s *script) resume(after time.Duration, id string) Begun {
	var tr wire.Transcript
	tr.Resume(id)
	return s.send(after, &tr)
}

// TestResume checks that the rest of a stream is an attempt of the request whose stream broke, and that what
// continues the answer continues both parts of it.
func TestResume(t *testing.T) {
	const id = "resp_68c1a0f2b3d4"
	s := newScript(t)
	first := s.sendBody(0, `{`+toolsOf+`"prompt_cache_key":"k","input":[`+user1+`]}`)
	s.end(first, broke(id, Call{ID: "call_1a2b3c4d", Name: "f"}))
	second := s.resume(time.Second, id)
	assert.Equal(t, Again, second.Relation)
	assert.Same(t, first.Run, second.Run)
	s.end(second, broke("")) // broken again, without a word of which response it was
	third := s.resume(time.Second, id)
	assert.Equal(t, 3, third.Attempt)
	assert.Same(t, second.Request, third.Before)
	s.end(third, answered(id, Call{ID: "call_5a2b3c4d", Name: "f"}))
	a, _ := third.Answer()
	assert.Equal(t, []Call{{"call_1a2b3c4d", "f"}, {"call_5a2b3c4d", "f"}}, a.Calls)

	step := s.sendBody(time.Second, `{`+toolsOf+`"prompt_cache_key":"k","previous_response_id":"`+id+`","input":[{"type":"function_call_output","call_id":"call_1a2b3c4d","output":"x"},{"type":"function_call_output","call_id":"call_5a2b3c4d","output":"x"}]}`)
	assert.Equal(t, Step, step.Relation)
	assert.Same(t, first.Run, step.Run)
	assert.Len(t, step.Observed, 2)
	s.end(step, text())
	s.Shutdown()
	assert.Zero(t, s.Bytes())
	assert.Empty(t, s.ids)
}

// TestResumeByHistory checks a client that sends the whole history after a stream was resumed.
func TestResumeByHistory(t *testing.T) {
	const id = "resp_68c1a0f2b3d4"
	s := newScript(t)
	first := s.sendBody(0, `{`+toolsOf+`"input":[`+user1+`]}`)
	s.end(first, broke(id, Call{ID: "call_1a2b3c4d", Name: "f"}))
	s.end(s.resume(time.Second, id), answered(id))
	step := s.sendBody(time.Second, `{`+toolsOf+`"input":[`+user1+`,{"type":"function_call","call_id":"call_1a2b3c4d","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"call_1a2b3c4d","output":"x"}]}`)
	assert.Equal(t, Step, step.Relation)
	assert.Same(t, first.Run, step.Run)
}

func TestResumeOfAnotherOne(t *testing.T) {
	s := newScript(t)
	assert.Equal(t, First, s.resume(0, "resp_68c1a0f2b3d4").Relation, "not known")
	s.end(s.sendBody(0, `{"input":[`+user1+`]}`), answered("resp_1"))
	assert.Equal(t, First, s.resume(0, "resp_1").Relation, "anyone may have that id")
}

// TestResumeOfQueued checks that the stream of a response that was queued is the next request, whose answer is what
// the conversation goes on with.
func TestResumeOfQueued(t *testing.T) {
	const id = "resp_58c1a0f2b3d4"
	for _, first := range []Answer{{Result: Answered, Queued: true, ResponseID: id}, broke(id)} {
		s := newScript(t)
		asked := s.sendBody(0, `{`+toolsOf+`"input":[`+user1+`]}`)
		s.end(asked, first)
		resumed := s.resume(time.Hour, id)
		assert.Equal(t, Next, resumed.Relation)
		assert.NotSame(t, asked.Run, resumed.Run)
		assert.Same(t, asked.Run.Conversation(), resumed.Run.Conversation())
		s.end(resumed, answered(id, Call{ID: "call_1a2b3c4d", Name: "f"}))
		step := s.sendBody(time.Second, `{`+toolsOf+`"previous_response_id":"`+id+`","input":[{"type":"function_call_output","call_id":"call_1a2b3c4d","output":"x"}]}`)
		assert.Equal(t, Step, step.Relation)
		assert.Same(t, resumed.Run, step.Run)
		s.end(step, text())
		s.Shutdown()
		assert.Zero(t, s.Bytes())
		assert.Empty(t, s.ids)
	}
}

// TestRereading checks that a response that has been read to its end may be read once more without an effect on
// its run.
func TestRereading(t *testing.T) {
	const id = "resp_58c1a0f2b3d4"
	call := Call{ID: "call_1a2b3c4d", Name: "f"}
	for _, again := range []Answer{answered(id, call), {Result: Stopped, ResponseID: id, Calls: []Call{call}, Text: true}} {
		s := newScript(t)
		first := s.sendBody(0, `{`+toolsOf+`"input":[`+user1+`]}`)
		s.end(first, answered(id, call))
		reread := s.resume(time.Second, id)
		assert.Equal(t, First, reread.Relation)
		assert.Equal(t, 1, reread.Attempt)
		assert.NotSame(t, first.Run, reread.Run)
		s.end(reread, again)
		a, _ := reread.Answer()
		assert.Empty(t, a.Calls)
		step := s.sendBody(time.Second, `{`+toolsOf+`"previous_response_id":"`+id+`","input":[{"type":"function_call_output","call_id":"call_1a2b3c4d","output":"x"}]}`)
		assert.Equal(t, Step, step.Relation)
		assert.Same(t, first.Run, step.Run)
		assert.Equal(t, First, s.resume(time.Second, id).Relation, "the conversation has gone on")
	}
}
