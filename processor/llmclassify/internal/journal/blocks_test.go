package journal

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// manySpans is a call of so many spans, named by their index.
func manySpans(spans int) ptrace.Traces {
	td := ptrace.NewTraces()
	to := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for i := range spans {
		to.AppendEmpty().SetName(strconv.Itoa(i))
	}
	return td
}

// changeEach lets the spans of a call be spent, and then done, one by one, from both ends in
// turn. It returns how many bytes that wrote.
func changeEach(t *testing.T, spans int) int {
	t.Helper()
	c := &counting{memory: newMemory()}
	j, _ := takeUp(t, c)
	tickets, err := j.Append(t.Context(), t0, nil, manySpans(spans))
	require.NoError(t, err)
	c.written = 0
	for _, to := range []State{Spent, Done} {
		for i := range spans {
			index := i / 2
			if i%2 == 1 {
				index = spans - 1 - i/2
			}
			one := []Ticket{tickets(index)}
			if to == Spent {
				require.NoError(t, j.Update(t.Context(), one, nil, nil))
			} else {
				require.NoError(t, j.Update(t.Context(), nil, one, nil))
			}
		}
	}
	assert.Empty(t, c.keys(), "nothing is left of %d spans", spans)
	return c.written
}

// What becomes of the spans of one call costs in proportion to them.
func TestCostOfLargeCall(t *testing.T) {
	for _, spans := range []int{1, 100, blockSpans, blockSpans + 1, 4*blockSpans - 1, 16 * blockSpans} {
		written := changeEach(t, spans)
		assert.LessOrEqual(t, written, 2*spans*(sealSize+min(spans, blockSpans)), "%d spans", spans)
	}
}

// A call has a key for its states for each block in which something changed: a usual one has
// one key of one byte a span.
func TestKeysOfBlocks(t *testing.T) {
	for _, c := range []struct {
		spans   int
		changed []int
		want    map[string]int // sizes
	}{
		{1, []int{0}, map[string]int{"states.0": sealSize + 1}},
		{blockSpans, []int{0, blockSpans - 1}, map[string]int{"states.0": sealSize + blockSpans}},
		{blockSpans + 1, []int{0}, map[string]int{"states.0": sealSize + blockSpans}},
		{blockSpans + 1, []int{blockSpans}, map[string]int{"states.0.1": sealSize + 1}},
		{3*blockSpans + 2, []int{3 * blockSpans, 0, 3*blockSpans + 1}, map[string]int{"states.0": sealSize + blockSpans, "states.0.3": sealSize + 2}},
	} {
		m := &counting{memory: newMemory()}
		j, _ := takeUp(t, m)
		tickets, err := j.Append(t.Context(), t0, nil, manySpans(c.spans))
		require.NoError(t, err)
		m.written = 0
		var changed []Ticket
		for _, i := range c.changed {
			changed = append(changed, tickets(i))
		}
		require.NoError(t, j.Update(t.Context(), changed, nil, nil))
		got, all := map[string]int{}, 0
		for _, key := range m.keys() {
			if strings.HasPrefix(key, statesPrefix) {
				got[key] = len(m.content[key])
				all += got[key]
			}
		}
		assert.Equal(t, all, m.written, "each block once")
		assert.Equal(t, c.want, got, "%d spans", c.spans)
	}
}

// statesOf are the states of the spans of one call after a kill: those that do not come back
// are done.
func statesOf(t *testing.T, content map[string][]byte, spans int, lists bool) []State {
	t.Helper()
	m := &memory{content: maps.Clone(content)}
	var client storage.Client = m
	if lists {
		client = listing{m}
	}
	_, got := takeUp(t, client)
	require.Empty(t, got.logs)
	return stateOfEach(t, got, spans)
}

func stateOfEach(t *testing.T, got taken, spans int) []State {
	t.Helper()
	states := slices.Repeat([]State{Done}, spans)
	for state, names := range map[State][]string{Held: got.spans, Spent: got.spent} {
		for _, name := range names {
			i, err := strconv.Atoi(name)
			require.NoError(t, err)
			states[i] = state
		}
	}
	return states
}

// Killed after any write, and whichever writes failed before: each span is as the last write
// that succeeded left it, in whichever block it is; and nothing is left when all are done.
func TestKilledBetweenBlocks(t *testing.T) {
	const spans = 2*blockSpans + 100
	for seed := range uint64(4) {
		g := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable on purpose
		m := newMemory()
		j, _ := takeUp(t, m)
		tickets, err := j.Append(t.Context(), t0, nil, manySpans(spans))
		require.NoError(t, err)
		now := make([]State, spans)
		written := slices.Clone(now)
		ticket := tickets
		for len(m.keys()) > 0 {
			var spent, done []Ticket
			for range 1 + g.IntN(200) {
				i := g.IntN(spans)
				switch now[i] {
				case Held:
					spent = append(spent, ticket(i))
					now[i] = Spent
				case Spent:
					done = append(done, ticket(i))
					now[i] = Done
				case Done:
				}
			}
			m.fail = nil
			if g.IntN(3) == 0 {
				m.fail = storage.ErrStorageFull
			}
			err := j.Update(t.Context(), spent, done, nil)
			m.fail = nil
			if err == nil && len(spent)+len(done) > 0 {
				copy(written, now)
			}
			require.Equal(t, written, statesOf(t, m.content, spans, seed%2 == 0))

			if g.IntN(8) == 0 { // killed: the next process goes on
				var replayed []*Replayed
				j, replayed = reopen(t, m)
				copy(now, written)
				if len(replayed) == 0 {
					break
				}
				byIndex := map[int]Ticket{}
				for n, name := range names(replayed[0]) {
					i, err := strconv.Atoi(name)
					require.NoError(t, err)
					byIndex[i] = replayed[0].Tickets[n]
				}
				ticket = func(i int) Ticket { return byIndex[i] }
			}
			if !slices.ContainsFunc(now, func(s State) bool { return s != Done }) {
				require.NoError(t, j.Close(t.Context())) // what failed last
				break
			}
		}
		assert.Empty(t, m.keys())
	}
}

// largeCall is a storage with a call of three blocks. Of each block the first span is held,
// the next one spent, and all others done.
func largeCall(t *testing.T) (m *memory, states []State) {
	t.Helper()
	const spans = 3 * blockSpans
	m = newMemory()
	j, _ := takeUp(t, m)
	tickets, err := j.Append(t.Context(), t0, nil, manySpans(spans))
	require.NoError(t, err)
	states = make([]State, spans)
	var spent, done []Ticket
	for i := range states {
		switch i % blockSpans {
		case 0:
		case 1:
			spent = append(spent, tickets(i))
			states[i] = Spent
		default:
			done = append(done, tickets(i))
			states[i] = Done
		}
	}
	require.NoError(t, j.Update(t.Context(), spent, done, nil))
	require.Equal(t, []string{"0", "0.1", "0.2", "states.0", "states.0.1", "states.0.2"}, m.keys())
	require.Equal(t, states, statesOf(t, m.content, spans, true))
	return m, states
}

// A block that is damaged, cut or missing lets its own spans go out again, and no others.
func TestDamagedBlock(t *testing.T) {
	whole, states := largeCall(t)
	for block, damagedKey := range []string{"states.0", "states.0.1", "states.0.2"} {
		want := slices.Clone(states)
		clear(want[block*blockSpans:][:blockSpans]) // held
		check := func(what string, damaged []byte) {
			m := &memory{content: maps.Clone(whole.content)}
			m.content[damagedKey] = damaged
			if damaged == nil {
				delete(m.content, damagedKey)
			}
			j, got := takeUp(t, m)
			require.Equal(t, want, stateOfEach(t, got, len(want)), what)
			if damaged != nil {
				require.Len(t, got.logs, 1, what)
				require.Equal(t, damaged, m.content[asidePrefix+damagedKey], what)
				delete(m.content, asidePrefix+damagedKey)
			}
			require.Equal(t, want, statesOf(t, m.content, len(want), true), "at the next start")
			e := j.oldest()
			for i := range e.states { // it is of use
				require.NoError(t, j.Update(t.Context(), nil, []Ticket{{e, uint32(i)}}, nil)) //nolint:gosec // small
			}
			require.Empty(t, m.keys(), what)
		}
		check("missing", nil)
		n := 0
		damages(whole.content[damagedKey], func(what string, damaged []byte) {
			if n++; n%101 == 1 || len(damaged) == 0 {
				check(what, damaged)
			}
		})
		check("the next block", append(slices.Clone(whole.content[damagedKey]), 0))
	}
}

// The states of an unreadable call are set aside with it, all blocks of them.
func TestBlocksOfUnreadable(t *testing.T) {
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			m, _ := largeCall(t)
			want := map[string][]byte{}
			m.content["0"][20] ^= 1
			for _, key := range m.keys() {
				want[asidePrefix+key] = m.content[key]
			}
			_, got := takeUp(t, client(m))
			assert.Empty(t, append(got.spans, got.spent...))
			assert.Len(t, got.logs, 1)
			delete(m.content, boundsKey)
			assert.Equal(t, want, m.content)
		})
	}
}

// An earlier version kept the states of a call of any size under one key. Those of a call
// that has several blocks now are set aside: its spans go out again.
func TestStatesInOneBlock(t *testing.T) {
	for name, seal := range map[string]func([]State) []byte{
		"sealed":   sealStates,
		"unsealed": func(states []State) []byte { return sealStates(states)[sealSize:] },
	} {
		t.Run(name, func(t *testing.T) {
			m, states := largeCall(t)
			delete(m.content, "states.0.1")
			delete(m.content, "states.0.2")
			m.content["states.0"] = seal(states)
			_, got := takeUp(t, m)
			assert.Len(t, got.spans, len(states))
			assert.Len(t, got.logs, 1)
			assert.Equal(t, seal(states), m.content["aside.states.0"])
			_, got = takeUp(t, m)
			assert.Len(t, got.spans, len(states))
			assert.Empty(t, got.logs)
		})
	}
}

// Earlier versions stored states beside their entry. They are read, added to what is stored
// since, and go with the entry.
func TestFormerKeys(t *testing.T) {
	m, _ := largeCall(t)
	for block, now := range []string{"states.0", "states.0.1", "states.0.2"} {
		m.content[formerKey(0, uint32(block))] = m.content[now] //nolint:gosec // 2 at most
		delete(m.content, now)
	}
	require.Equal(t, []string{"0", "0.1", "0.2", "0.states", "0.states.1", "0.states.2"}, m.keys())
	counts := func() (held, spent int, tickets []Ticket, j *Journal) {
		j, replayed := reopen(t, m)
		require.Len(t, replayed, 1)
		for _, state := range replayed[0].States {
			if state == Spent {
				spent++
			} else {
				held++
			}
		}
		return held, spent, replayed[0].Tickets, j
	}
	held, spent, tickets, j := counts()
	assert.Equal(t, []int{3, 3}, []int{held, spent})
	require.NoError(t, j.Update(t.Context(), tickets[:1], nil, nil)) // of the first block
	held, spent, tickets, j = counts()
	assert.Equal(t, []int{2, 4}, []int{held, spent})
	assert.Contains(t, m.content, "states.0")

	require.NoError(t, j.Update(t.Context(), nil, tickets, nil))
	assert.Equal(t, []string{}, m.keys())
	_, replayed := reopen(t, m)
	assert.Empty(t, replayed)
}
