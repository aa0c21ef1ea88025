package kinship

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/otelllm/otelllm-go/internal/sample"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

// transcript reads a request of the Responses API with these items.
func transcript(tb testing.TB, items ...any) *wire.Transcript {
	tb.Helper()
	body, err := json.Marshal(object{"model": "m", "instructions": "s", "tools": []any{object{"name": "f"}}, "input": items})
	require.NoError(tb, err)
	var tr wire.Transcript
	require.True(tb, tr.Read(body))
	return &tr
}

func user(text string) object { return object{"type": "message", "role": "user", "content": text} }

func assistant(text string) object {
	return object{"type": "message", "role": "assistant", "content": text}
}

func callItem(id string) object {
	return object{"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}
}

func outputItem(id string) object {
	return object{"type": "function_call_output", "call_id": id, "output": "fine"}
}

// answerWith returns an answer with calls, in memory of its own as a decoder makes it.
func answerWith(prefix string, calls int) Answer {
	a := Answer{Result: Answered, ResponseID: strings.Clone("resp_" + prefix + "_0123456789abcdef0123")}
	for i := range calls {
		a.Calls = append(a.Calls, Call{ID: fmt.Sprintf("call_%s_%d_0a1b2c3d4e5f", prefix, i), Name: strings.Clone("run_shell_command")})
	}
	return a
}

// inUse returns the bytes in use.
func inUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// With its default bounds a Tracker keeps at most what they say, and knows how much it is.
func TestMemory(t *testing.T) {
	for _, tt := range []struct {
		name     string
		n        int // conversations; fewer where more have no room
		requests int
		calls    int
		session  bool
	}{
		{"one request, three calls", 10_000, 1, 3, false},
		{"one request, no calls", 10_000, 1, 0, false},
		{"one request of a session", 10_000, 1, 1, true},
		{"eight requests", 5000, 8, 1, false},
		{"eight requests of a session", 3000, 8, 3, true},
		{"sixty calls", 3000, 1, 60, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if sample.Only() && tt.requests > 1 {
				t.Skip("takes seconds")
			}
			var items []any
			transcripts := make([]*wire.Transcript, 0, tt.requests)
			before := inUse()
			tracker := NewTracker(DefaultConfig())
			most := 0
			for i := range tt.n {
				items = append(items[:0], user(fmt.Sprint("task ", i)))
				transcripts = transcripts[:0]
				var session uint64
				if tt.session {
					session = wire.TranscriptID(fmt.Sprint("session ", i))
				}
				for j := range tt.requests {
					tr := transcript(t, items...)
					b := tracker.Begin(t0, Sent{Transcript: tr, Session: session}, func() Answer { return Answer{} })
					require.Equal(t, j > 0, b.Relation.Joins())
					a := answerWith(fmt.Sprintf("%d_%d", i, j), tt.calls)
					tracker.End(t0, b.Request, a)
					for _, c := range a.Calls {
						items = append(items, callItem(c.ID))
					}
					for _, c := range a.Calls {
						items = append(items, outputItem(c.ID))
					}
				}
				most = max(most, tracker.bytes)
			}
			clear(items)
			kept := inUse() - before
			t.Logf("%d conversations, %d of %d bytes", tracker.conversations, tracker.bytes, kept)
			assert.LessOrEqual(t, kept, DefaultConfig().MaxBytes)
			assert.LessOrEqual(t, most, DefaultConfig().MaxBytes)
			assert.InEpsilon(t, kept, tracker.bytes, 0.25)
			checkBooks(t, tracker)
			tracker.Shutdown()
			assert.Zero(t, tracker.bytes)
			checkBooks(t, tracker)
			runtime.KeepAlive(tracker)
		})
	}
}

// checkBooks compares what a Tracker says of itself with what is reachable.
func checkBooks(t *testing.T, tracker *Tracker) {
	t.Helper()
	conversations, bytes, requests := 0, 0, 0
	var last *Conversation
	runs := map[*Run]bool{}
	for c := tracker.newest; c != nil; c = c.older {
		require.Same(t, last, c.newer)
		last = c
		conversations++
		bytes += tracker.size(c)
		for _, r := range c.requests[:c.n] {
			require.False(t, r.gone)
			bytes += int(r.size)
			if !runs[r.Run] {
				runs[r.Run] = true
				bytes += r.Run.kept
				require.False(t, r.Run.over && r.Run.kept != 0)
			}
			if r.end != 0 {
				requests++
			}
		}
	}
	require.Same(t, last, tracker.oldest)
	require.Equal(t, conversations, tracker.conversations)
	require.Equal(t, bytes, tracker.bytes)
	indexed := 0
	for _, w := range tracker.ends {
		n := 0
		for r := w.first; r != nil; r = r.twin {
			require.False(t, r.gone)
			n++
		}
		require.Equal(t, int(w.n), n)
		require.Positive(t, n)
		indexed += n
	}
	require.LessOrEqual(t, indexed, requests)
	for _, h := range tracker.ids {
		require.Positive(t, h.holders)
		require.True(t, h.request == nil || !h.request.gone)
	}
	require.LessOrEqual(t, len(tracker.sessions), conversations)
	for i, run := range tracker.due {
		require.Equal(t, i, run.slot)
		require.False(t, run.over)
	}
}

// A request that is forgotten is not kept by those that came after it.
func TestForgottenRequestsGo(t *testing.T) {
	tracker := NewTracker(DefaultConfig())
	var items []any
	items = append(items, user("a task"))
	var all []weak.Pointer[Request]
	for i := range 50 {
		b := tracker.Begin(t0, Sent{Transcript: transcript(t, items...)}, nil)
		all = append(all, weak.Make(b.Request))
		a := answerWith(strconv.Itoa(i), 1)
		tracker.End(t0, b.Request, a)
		items = append(items, callItem(a.Calls[0].ID), outputItem(a.Calls[0].ID))
		if i%7 == 3 { // a fork
			f := tracker.Begin(t0, Sent{Transcript: transcript(t, append(slices.Clip(items), user("also"))...)}, nil)
			all = append(all, weak.Make(f.Request))
			tracker.End(t0, f.Request, Answer{Result: Answered})
		}
	}
	runtime.GC()
	runtime.GC()
	kept := 0
	for _, p := range all {
		if p.Value() != nil {
			kept++
		}
	}
	assert.LessOrEqual(t, kept, maxRequests)
	runtime.KeepAlive(tracker)
}

// What the caller keeps for a run counts until the run is over.
func TestKeep(t *testing.T) {
	c := DefaultConfig()
	c.MaxBytes, c.DataBytes = 10_000, 100
	tracker := NewTracker(c)
	begin := func(task string) Begun {
		return tracker.Begin(t0, Sent{Transcript: transcript(t, user(task))}, nil)
	}
	one := begin("one")
	assert.Empty(t, tracker.Keep(one.Run, 5000))
	assert.Empty(t, tracker.Keep(one.Run, 4000), "it replaces what was kept")
	checkBooks(t, tracker)
	two := begin("two")
	tracker.End(t0, two.Request, calls(id1))
	assert.Empty(t, tracker.Keep(two.Run, 4000))
	assert.Equal(t, []Ended{{one.Run, Evicted}}, tracker.Keep(two.Run, 6000), "the oldest goes")
	checkBooks(t, tracker)
	assert.Empty(t, tracker.Keep(one.Run, 6000), "it is over")
	assert.Empty(t, tracker.Keep(two.Run, 60_000), "one always stays")
	checkBooks(t, tracker)
	assert.Equal(t, []Ended{{two.Run, Evicted}}, begin("three").Ended)
	assert.Less(t, tracker.bytes, 1000)
	checkBooks(t, tracker)
}

// Whatever comes, the bounds hold.
func TestHostile(t *testing.T) {
	n := 200_000 / sample.Every(20)
	var long []any
	for i := range 10_000 {
		id := fmt.Sprintf("call_%d", i)
		long = append(long, callItem(id), outputItem(id))
	}
	same, longer := transcript(t, user("the same")), transcript(t, long...)
	one := transcript(t, user("the same"), callItem("call_0"), outputItem("call_0"))
	calls := Answer{Result: Answered}
	for i := range 10_000 {
		calls.Calls = append(calls.Calls, Call{ID: fmt.Sprintf("call_%d", i), Name: "f"})
	}
	differ := *same
	for _, tt := range []struct {
		name string
		sent func(i int) Sent
		a    Answer
		end  bool
	}{
		{"many conversations", func(i int) Sent { return Sent{Transcript: &differ, Client: uint64(i)} }, Answer{Result: Answered, Calls: []Call{{ID: "call_0"}}}, true},
		{"none of them ends", func(i int) Sent { return Sent{Transcript: &differ, Client: uint64(i)} }, Answer{}, false},
		{"the same body", func(int) Sent { return Sent{Transcript: same} }, Answer{Result: Failed, Way: "reset"}, true},
		{"the same body, answered", func(int) Sent { return Sent{Transcript: same} }, Answer{Result: Answered}, true},
		{"the same body, pending", func(int) Sent { return Sent{Transcript: same} }, Answer{}, false},
		{"the same body of a session, pending", func(int) Sent { return Sent{Transcript: same, Session: 1} }, Answer{}, false},
		{"one session", func(i int) Sent { return Sent{Transcript: same, Session: 1, Client: uint64(i)} }, Answer{Result: Answered, Calls: []Call{{ID: "call_0"}}}, true},
		{"one call id", func(i int) Sent { return Sent{Transcript: one, Client: uint64(i % 100)} }, Answer{Result: Answered, Calls: []Call{{ID: "call_0"}}}, true},
		{"long histories", func(i int) Sent { return Sent{Transcript: longer, Client: uint64(i % 100)} }, Answer{Result: Failed}, true},
		{"many calls", func(i int) Sent { return Sent{Transcript: same, Client: uint64(i % 1000)} }, calls, true},
		{"long ids", func(i int) Sent { return Sent{Transcript: same, Client: uint64(i)} }, Answer{Result: Answered, ResponseID: strings.Repeat("r", 128), Way: strings.Repeat("w", 100)}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := DefaultConfig()
			c.MaxConversations, c.MaxBytes = 1000, 1<<20
			tracker := NewTracker(c)
			before := inUse()
			now, begun, ended := t0, 0, 0
			for i := range n {
				now = now.Add(time.Millisecond)
				b := tracker.Begin(now, tt.sent(i), nil)
				if !b.Relation.Joins() {
					begun++
				}
				ended += len(b.Ended)
				if tt.end {
					ended += len(tracker.End(now, b.Request, tt.a))
				}
				if i%1000 == 0 {
					require.LessOrEqual(t, tracker.bytes, c.MaxBytes)
					require.LessOrEqual(t, tracker.conversations, c.MaxConversations)
					require.LessOrEqual(t, len(tracker.found), maxTwins)
				}
			}
			checkBooks(t, tracker)
			assert.LessOrEqual(t, inUse()-before, 2*c.MaxBytes)
			ended += len(tracker.Shutdown())
			assert.Equal(t, begun, ended, "each run ends once")
		})
	}
}

// BenchmarkTracker is the cost of a request beside the reading of its body, with 10,000
// open conversations.
func BenchmarkTracker(b *testing.B) {
	const open, steps = 10_000, 4
	for _, kind := range []string{"chain", "first", "session"} {
		b.Run(kind, func(b *testing.B) {
			c := DefaultConfig()
			c.MaxBytes = 1 << 30
			tracker := NewTracker(c)
			var agents [100][steps]*wire.Transcript
			for i := range agents {
				items := []any{user(fmt.Sprint("task ", i))}
				for j := range steps {
					agents[i][j] = transcript(b, items...)
					id := fmt.Sprintf("call_%d_%d_0a1b2c3d4e5f", i, j)
					items = append(items, callItem(id), outputItem(id))
				}
			}
			answers := [100][steps]Answer{}
			for i := range answers {
				for j := range steps - 1 {
					answers[i][j] = Answer{Result: Answered, Calls: []Call{{ID: fmt.Sprintf("call_%d_%d_0a1b2c3d4e5f", i, j), Name: "f"}}}
				}
				answers[i][steps-1] = Answer{Result: Answered}
			}
			live := func() Answer { return Answer{} }
			for i := range open {
				r := tracker.Begin(t0, Sent{Transcript: agents[0][0], Client: uint64(i + 1e6)}, live)
				tracker.End(t0, r.Request, answers[0][0])
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s := Sent{Transcript: agents[i/steps%100][i%steps], Client: uint64(i / steps)}
				if kind == "first" {
					s.Client = uint64(i)
				}
				if kind == "session" {
					s.Session = uint64(i/steps) + 1
				}
				r := tracker.Begin(t0, s, live)
				if kind != "first" && r.Relation.Joins() != (i%steps > 0) {
					b.Fatal(i, r.Relation)
				}
				tracker.End(t0, r.Request, answers[i/steps%100][i%steps])
				i++
			}
		})
	}
}
