package kinship

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// flight is a request of an agent that has no answer yet.
type flight struct {
	agent   *agent
	request *Request
	answer  Answer // as far as it has come
}

// world is agents that talk to their models at the same time, through one tracker.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	tracker *Tracker
	now     time.Time
	agents  []*agent
	flights []*flight
	runs    int
	find    bool          // all that can be found has to be
	lost    bool          // all agents rely on a server that keeps the history, and loses it
	words   int           // how many different first messages there are
	pace    time.Duration // the longest time between two events

	truth  map[*Run]int         // the task of the first request of each run
	failed map[string]time.Time // when the first request of an agent failed, by its text

	sent, joinable, joined int
	missed                 int // of agents that fell back to other bytes
	inFull, inFullJoined   int // of those that repeat a request with the whole history
}

func newWorld(t *testing.T, seed uint64, c Config) *world {
	t.Helper()
	return &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), tracker: NewTracker(c), now: t0, words: 2, pace: 3 * time.Second,
		truth: map[*Run]int{}, failed: map[string]time.Time{},
	}
}

func (w *world) newAgent(ids idStyle) *agent {
	w.runs++
	a := &agent{rng: w.rng, ids: ids, format: format(w.rng.IntN(int(formats))), run: w.runs}
	if ids == noIDs {
		a.format = []format{gemini, ollama}[w.rng.IntN(2)]
	}
	if a.format == ollama {
		a.ids = noIDs
	}
	a.stored = a.format == responses && w.rng.IntN(2) == 0
	if w.lost {
		a.format, a.stored = responses, true
	}
	a.clock = w.rng.IntN(8) == 0
	a.renames = ids == randomIDs && w.rng.IntN(6) == 0
	a.system, a.tools = a.few("You are agent", 2), a.few("tools", 2)
	if w.rng.IntN(4) == 0 || w.lost {
		a.session = w.rng.Uint64() | 1
	}
	a.history = []message{{role: "user", parts: []string{a.few("do", w.words)}}}
	if a.hidden = !w.find && w.rng.IntN(8) == 0; a.hidden {
		a.history[0].parts[0] = a.few("hidden", 1_000_000) // otherwise others take up what it began
	}
	w.agents = append(w.agents, a)
	return a
}

// busy reports whether an agent waits for an answer.
func (w *world) busy(a *agent) bool {
	return slices.ContainsFunc(w.flights, func(f *flight) bool { return f.agent == a })
}

// send sends the agent's history and checks what the tracker finds.
func (w *world) send(a *agent) {
	if first := &a.history[0]; len(a.history) == 1 && !a.told && w.now.Sub(w.failed[first.parts[0]]) <= DefaultConfig().Settle {
		// A further attempt of one agent and the first request of another with the same
		// words are the same bytes. The one is by far more likely, and is what is found.
		first.parts[0] = a.few("something else", 1_000_000)
	}
	switch last := &a.history[len(a.history)-1]; a.format {
	case chat, messages, bedrock:
		if !a.told && last.role == "user" && len(last.outputs) == 0 && w.rng.IntN(10) == 0 {
			// It looks as if it went on with a part of an answer, of another agent with
			// the same words.
			a.prefill = true
			last.parts = []string{a.few("as JSON", 1_000_000)}
		}
	default:
	}
	var tr wire.Transcript
	body := a.body(w.now)
	require.True(w.t, tr.Read(body), "%s", body)
	f := &flight{agent: a}
	b := w.tracker.Begin(w.now, Sent{Transcript: &tr, Session: a.session}, func() Answer { return f.answer })
	f.request = b.Request
	w.flights = append(w.flights, f)
	w.sent++

	task, known := w.truth[b.Run]
	if !known {
		w.truth[b.Run] = a.run
	}
	if b.Relation.Joins() {
		require.True(w.t, known)
		require.Equal(w.t, task, a.run, "a request of task %d was joined to task %d (%d): %s", a.run, task, b.Relation, body)
	}
	if a.inFull && a.told {
		w.inFull++
		if b.Relation == Again {
			w.inFullJoined++
		}
	}
	if a.told && !a.inFull {
		w.joinable++
		if b.Relation.Joins() {
			w.joined++
		} else if a.fell {
			w.missed++
		} else if w.find {
			require.Fail(w.t, "not found", "%d: %s", b.Relation, body)
		}
	}
	a.told, a.inFull, a.bare = true, false, a.noTools
	if a.once {
		w.agents = slices.DeleteFunc(w.agents, func(b *agent) bool { return b == a })
	}
}

// answer ends a request in some way, and lets its agent go on.
func (w *world) answer(f *flight) {
	a := f.agent
	w.flights = slices.DeleteFunc(w.flights, func(g *flight) bool { return g == f })
	if a.once {
		f.answer = []Answer{{Result: Answered, Text: true}, {Result: Failed, Way: "reset"}, {Result: Stopped, Text: true}}[w.rng.IntN(3)]
		w.tracker.End(w.now, f.request, f.answer)
		return
	}
	if w.again(f) {
		return
	}
	answer := Answer{Result: Answered}
	n := w.rng.IntN(21)
	if a.noTools {
		n = max(n, 8) // no calls
	}
	a.noTools = false
	switch {
	case n == 20: // a pause
		answer.Continues = true
		a.history = append(a.history, message{role: "assistant", parts: []string{a.few("working on it", 2)}, part: true})
	case n < 8: // calls
		m := message{role: "assistant"}
		a.counter = 0
		for range 1 + w.rng.IntN(4) {
			c := toolCall{a.newID(), "tool", a.few("input", 3)}
			m.calls = append(m.calls, c)
			answer.Calls = append(answer.Calls, Call{c.id, c.name})
		}
		a.history = append(a.history, m)
	case n < 13: // a text
		a.history = append(a.history, message{role: "assistant", parts: []string{a.few("answer", 2)}})
	case n < 17:
		answer.Result, answer.Way, answer.Text = Failed, "reset", w.rng.IntN(2) == 0
	default:
		answer.Result = Stopped
	}
	if answer.Result != Answered && len(a.history) == 1 {
		w.failed[a.history[0].parts[0]] = w.now
	}
	if a.failed = answer.Result != Answered; !a.failed {
		if last := &a.history[len(a.history)-1]; a.prefill {
			last.parts = []string{strings.Join(append([]string{"{"}, last.parts...), "")}
		}
		if a.stored {
			answer.ResponseID = fmt.Sprintf("resp_%016x", w.rng.Uint64())
			a.previous, a.known = answer.ResponseID, len(a.history)
		}
	}
	seen := answer
	if a.hidden {
		seen = Answer{Result: Unobserved}
	}
	f.answer = seen
	w.tracker.End(w.now, f.request, seen)

	last := &a.history[len(a.history)-1]
	switch {
	case answer.Text && !a.prefill && w.rng.IntN(2) == 0: // with what had come of the answer
		if a.stored && len(a.history) == a.known {
			a.told = false // after a pause, which the server has: only the words could tell
		}
		a.history = append(a.history, message{role: "assistant", parts: []string{a.few("part", 9)}, part: true}, message{role: "user", parts: []string{"go on"}})
	case answer.Result == Failed && !a.prefill && last.role == "user" && len(last.parts) > 0 && w.rng.IntN(4) == 0:
		last.parts = append(slices.Clone(last.parts), "please")
	case answer.Result != Answered && !a.stored && len(last.outputs) > 0 && w.rng.IntN(4) == 0: // without an output
		last.outputs = slices.Clone(last.outputs[1:])
		if len(last.outputs)+len(last.parts) == 0 {
			a.history = a.history[:len(a.history)-1]
		}
		a.told = false
	case answer.Result != Answered: // the same again
		w.fallBack(a)
	case answer.Continues:
	case len(answer.Calls) > 0:
		out := message{role: "user"}
		for _, c := range last.calls {
			out.outputs = append(out.outputs, toolOutput{c.id, c.name, a.few("output", 3)})
		}
		if w.rng.IntN(5) == 0 {
			out.parts = []string{a.few("by the way", 2)}
		}
		a.history = append(a.history, out)
	default: // the next task of the conversation
		a.history = append(a.history, message{role: "user", parts: []string{a.few("then", 3)}})
		w.runs++
		a.run, a.told = w.runs, false
	}
	if a.prefill && !a.failed {
		a.prefill, a.told = false, a.told && a.proves()
	}
}

// fork adds an agent that goes on from a place that another one has left behind.
func (w *world) fork() {
	from := w.agents[w.rng.IntN(len(w.agents))]
	var places []int
	for i, m := range from.history {
		// What follows a part of an answer is what a further attempt looks like. So does what
		// follows an answer that is forgotten, if another agent with the same words failed.
		if i > len(from.history)-maxRequests && i > 0 && i < len(from.history)-2 && m.role == "user" && len(m.outputs) == 0 && !from.history[i-1].part {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return
	}
	at := places[w.rng.IntN(len(places))]
	a := *from
	w.runs++
	a.run, a.told = w.runs, false
	a.history = slices.Clone(from.history[:at+1])
	a.history[at] = message{role: "user", parts: []string{a.few("instead", 100_000)}}
	a.prefill = false
	a.resend()
	w.agents = append(w.agents, &a)
}

// compact replaces the beginning of an agent's history by a summary.
func (w *world) compact(a *agent) {
	for at := len(a.history) - 1; at > 1; at-- {
		if a.history[at].role == "assistant" && len(a.history[at].calls) > 0 {
			a.history = append([]message{{role: "user", parts: []string{a.few("summary", 1000)}}}, a.history[at:]...)
			a.told = a.told && a.proves()
			a.resend()
			return
		}
	}
}

// edit replaces an older output of an agent's history.
func (w *world) edit(a *agent) {
	for at := range len(a.history) - 1 {
		if m := &a.history[at]; len(m.outputs) > 0 {
			m.outputs = slices.Clone(m.outputs)
			m.outputs[0].text = a.few("removed", 1_000_000)
			a.told = a.told && a.proves()
			a.resend()
			return
		}
	}
}

// lose lets an agent repeat a request with the whole history, as if the server had lost what
// the request refers to.
func (w *world) lose(a *agent) {
	if !w.busy(a) && a.failed && a.known > 0 {
		a.resend()
		a.inFull = true
	}
}

func (w *world) step(ids func() idStyle) {
	w.now = w.now.Add(time.Duration(w.rng.Int64N(int64(w.pace))))
	switch n := w.rng.IntN(100); {
	case n < 4 || len(w.agents) == 0:
		w.newAgent(ids())
	case n < 6:
		w.fork()
	case n < 8:
		if a := w.agents[w.rng.IntN(len(w.agents))]; !w.busy(a) {
			w.compact(a)
		}
	case n < 10 && !w.lost:
		w.aside(w.agents[w.rng.IntN(len(w.agents))])
	case n < 12 && w.lost:
		w.lose(w.agents[w.rng.IntN(len(w.agents))])
	case n < 11:
		if a := w.agents[w.rng.IntN(len(w.agents))]; !w.busy(a) {
			w.edit(a)
		}
	case n < 50 && len(w.flights) > 0:
		w.answer(w.flights[w.rng.IntN(len(w.flights))])
	default:
		if a := w.agents[w.rng.IntN(len(w.agents))]; !w.busy(a) {
			w.send(a)
		}
	}
}

// No request is ever joined to the run of another agent, or to another task, whatever they
// have in common. Those of agents whose ids tell them apart are joined to their own.
func TestNeverAWrongJoin(t *testing.T) {
	seeds := uint64(400 / sample.Every(40)) //nolint:gosec // positive
	sent, joinable, joined := 0, 0, 0
	for seed := range seeds {
		w := newWorld(t, seed, DefaultConfig())
		w.words = []int{1, 2, 2, 50}[w.rng.IntN(4)]
		w.pace = []time.Duration{20 * time.Millisecond, 3 * time.Second, 3 * time.Second, time.Minute}[w.rng.IntN(4)]
		for range 1000 {
			w.step(func() idStyle { return idStyle(w.rng.IntN(3)) })
		}
		checkBooks(t, w.tracker)
		sent, joinable, joined = sent+w.sent, joinable+w.joinable, joined+w.joined
	}
	t.Logf("%d requests, %d that belong to an earlier one's run, %d of them joined", sent, joinable, joined)
}

// TestNeverAWrongJoinInFull is TestNeverAWrongJoin of agents whose histories the server keeps and loses, with
// forks that say the same things in one session.
func TestNeverAWrongJoinInFull(t *testing.T) {
	seeds := uint64(400 / sample.Every(40)) //nolint:gosec // positive
	repeated, joined := 0, 0
	for seed := range seeds {
		w := newWorld(t, seed, DefaultConfig())
		w.lost, w.words, w.pace = true, 2, []time.Duration{20 * time.Millisecond, 3 * time.Second}[w.rng.IntN(2)]
		for range 300 {
			w.step(func() idStyle { return idStyle(w.rng.IntN(2)) })
			if w.rng.IntN(20) == 0 {
				w.fork()
			}
		}
		repeated, joined = repeated+w.inFull, joined+w.inFullJoined
	}
	require.Greater(t, joined, repeated/5, "of %d that repeat a request in full", repeated)
	t.Logf("%d requests that repeat one in full, %d of them joined", repeated, joined)
}

// Agents that begin with words of their own are all found again.
func TestKinAreFound(t *testing.T) {
	joined, missed := 0, 0
	defer func() {
		require.Less(t, 200*missed, joined, "of those that fell back to another protocol or to fewer tools")
		t.Logf("%d joined, %d that fell back were not found", joined, missed)
	}()
	for seed := range uint64(40) {
		c := DefaultConfig()
		c.Repeat = time.Hour
		w := newWorld(t, seed, c)
		w.words, w.pace, w.find = 1_000_000, 50*time.Millisecond, true
		for range 600 {
			w.step(func() idStyle { return idStyle(w.rng.IntN(3)) })
		}
		require.Equal(t, w.joined+w.missed, w.joinable, "seed %d: %d of %d", seed, w.joined, w.joinable)
		joined, missed = joined+w.joined, missed+w.missed
	}
}
