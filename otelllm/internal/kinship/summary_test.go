package kinship

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// A history was refused as too long. The agent asks for a summary of it, and goes on with that: this
// is a further attempt, if the client is known to be the same and nothing else is.
func TestSummaryOfWhatIsTooLong(t *testing.T) {
	const (
		system  = `{"role":"system","content":"s"}`
		task    = system + `,{"role":"user","content":"a task"}`
		called  = task + `,{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"o"}`
		summary = system + `,{"role":"user","content":"Summary: it is done."},{"role":"user","content":"Continue"}`
		tools   = `,"tools":[{"type":"function","function":{"name":"f"}}]`
	)
	body := func(messages, more string) string { return `{"model":"m","messages":[` + messages + `]` + more + `}` }
	tooLong := Answer{Result: Failed, Way: "context_length_exceeded", TooLong: true}
	for _, tt := range []struct {
		name    string
		refused Answer
		summary Answer
		next    string
		alone   bool
		sent    Sent
		want    Relation
	}{
		{"in a session", tooLong, text(), body(summary, tools), false, Sent{Session: 7}, Again},
		{"of the only agent", tooLong, text(), body(summary, tools), true, Sent{}, Again},
		{"with an id for the provider", tooLong, text(), body(summary, tools), false, Sent{Client: 7, Affine: true}, Again},
		{"of anyone", tooLong, text(), body(summary, tools), false, Sent{}, First},
		{"refused for another reason", failed("x"), text(), body(summary, tools), false, Sent{Session: 7}, First},
		{"without a summary", tooLong, failed("x"), body(summary, tools), false, Sent{Session: 7}, First},
		{"with other tools", tooLong, text(), body(summary, `,"tools":[{"type":"function","function":{"name":"g"}}]`), false, Sent{Session: 7}, First},
		{"with other instructions", tooLong, text(), body(`{"role":"system","content":"another"},{"role":"user","content":"b"}`, tools), false, Sent{Session: 7}, First},
		{"with a longer history", tooLong, text(), body(called+`,{"role":"assistant","content":"x"},{"role":"user","content":"y"}`, tools), false, Sent{Session: 7}, First},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := DefaultConfig()
			c.Alone = tt.alone
			s := &script{TB: t, Tracker: NewTracker(c), now: t0}
			send := func(after time.Duration, body string) Begun {
				var tr wire.Transcript
				assert.True(t, tr.Read([]byte(body)))
				s.now = s.now.Add(after)
				sent := tt.sent
				sent.Transcript = &tr
				return s.Begin(s.now, sent, nil)
			}
			first := send(0, body(task, tools))
			s.end(first, calls("c1"))
			refused := send(time.Second, body(called, tools))
			assert.Equal(t, Step, refused.Relation)
			s.end(refused, tt.refused)
			asked := send(time.Second, body(called+`,{"role":"user","content":"Summarize"}`, ""))
			assert.Equal(t, Fork, asked.Relation)
			s.now = s.now.Add(time.Minute)
			s.End(s.now, asked.Request, tt.summary)
			next := send(time.Minute+30*time.Second, tt.next)
			if tt.want != Again {
				assert.NotSame(t, refused.Run, next.Run)
				return
			}
			assert.Equal(t, Again, next.Relation)
			assert.Same(t, refused.Run, next.Run)
			assert.Equal(t, 2, next.Attempt)
			assert.Contains(t, append(s.end(next, text()), s.expire(time.Minute)...), Finished)
		})
	}
}
