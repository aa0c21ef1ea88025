package journal

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"
)

// memory is a storage client whose content outlives its journals.
type memory struct {
	mu      sync.Mutex
	content map[string][]byte
	fail    error
	closed  bool
}

func newMemory() *memory { return &memory{content: map[string][]byte{}} }

func (m *memory) Get(ctx context.Context, key string) ([]byte, error) {
	op := storage.GetOperation(key)
	err := m.Batch(ctx, op)
	return op.Value, err
}

func (m *memory) Set(ctx context.Context, key string, value []byte) error {
	return m.Batch(ctx, storage.SetOperation(key, value))
}

func (m *memory) Delete(ctx context.Context, key string) error {
	return m.Batch(ctx, storage.DeleteOperation(key))
}

func (m *memory) Batch(_ context.Context, ops ...*storage.Operation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	for _, op := range ops {
		switch op.Type {
		case storage.Get:
			op.Value = m.content[op.Key]
		case storage.Set:
			m.content[op.Key] = slices.Clone(op.Value)
		case storage.Delete:
			delete(m.content, op.Key)
		}
	}
	return nil
}

func (m *memory) Close(context.Context) error { m.closed = true; return nil }

// keys are those of entries and what stands beside them.
func (m *memory) keys() []string {
	keys := slices.Sorted(maps.Keys(m.content))
	return slices.DeleteFunc(keys, func(key string) bool { return key == boundsKey })
}

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)

func tracesOf(names ...string) ptrace.Traces {
	td := ptrace.NewTraces()
	for _, name := range names {
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", "of "+name)
		rs.ScopeSpans().AppendEmpty().Spans().AppendEmpty().SetName(name)
	}
	return td
}

// encoded is an entry in one value.
func encoded(tb testing.TB, at time.Time, metadata map[string][]string, td ptrace.Traces) []byte {
	tb.Helper()
	pieces, err := encode(at, metadata, td)
	require.NoError(tb, err)
	return slices.Concat(pieces...)
}

// reopen is a journal of the next process, with what it is given.
func reopen(t *testing.T, m *memory) (j *Journal, replayed []*Replayed) {
	t.Helper()
	j, err := Open(t.Context(), m, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, j.Replay(t.Context(), t0, func(r *Replayed) error {
		replayed = append(replayed, r)
		return nil
	}, func() {}))
	return j, replayed
}

func names(r *Replayed) (list []string) {
	for _, rs := range r.Traces.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				list = append(list, span.Name())
			}
		}
	}
	return list
}

// What was written and is not done comes back after a crash, as it was left.
func TestReplay(t *testing.T) {
	m := newMemory()
	j, replayed := reopen(t, m)
	assert.Empty(t, replayed)
	first, err := j.Append(t.Context(), t0, map[string][]string{"tenant": {"a", "b"}}, tracesOf("1", "2", "3"))
	require.NoError(t, err)
	second, err := j.Append(t.Context(), t0.Add(time.Second), nil, tracesOf("4"))
	require.NoError(t, err)
	third, err := j.Append(t.Context(), t0.Add(2*time.Second), nil, tracesOf("5", "6"))
	require.NoError(t, err)
	require.NoError(t, j.Update(t.Context(), []Ticket{first(0)}, []Ticket{first(1), second(0)}, nil))
	require.NoError(t, j.Update(t.Context(), []Ticket{first(1), {}}, nil, nil), "what is done stays done")

	j, replayed = reopen(t, m) // after a crash
	require.Len(t, replayed, 2)
	r := replayed[0]
	assert.True(t, t0.Equal(r.At))
	assert.Equal(t, map[string][]string{"tenant": {"a", "b"}}, r.Metadata)
	assert.Equal(t, []string{"1", "3"}, names(r))
	assert.Equal(t, []State{Spent, Held}, r.States)
	require.Len(t, r.Tickets, 2)
	service, _ := r.Traces.ResourceSpans().At(2).Resource().Attributes().Get("service.name")
	assert.Equal(t, "of 3", service.Str())
	assert.Equal(t, []string{"5", "6"}, names(replayed[1]))
	assert.Nil(t, replayed[1].Metadata)

	// The tickets of before are of no use any more; those that came are.
	_ = third
	require.NoError(t, j.Update(t.Context(), nil, append(r.Tickets, replayed[1].Tickets[1]), nil))
	assert.Equal(t, 1, openEntries(j))
	j, replayed = reopen(t, m)
	require.Len(t, replayed, 1)
	assert.Equal(t, []string{"5"}, names(replayed[0]))
	fourth, err := j.Append(t.Context(), t0, nil, tracesOf("7"))
	require.NoError(t, err)
	require.NoError(t, j.Update(t.Context(), nil, append(replayed[0].Tickets, fourth(0)), nil))
	assert.Empty(t, m.keys(), "nothing is left")
	require.NoError(t, j.Close(t.Context()))
	assert.True(t, m.closed)
	_, replayed = reopen(t, m)
	assert.Empty(t, replayed)
}

// What is forgotten is done once it is spent.
func TestForget(t *testing.T) {
	m := newMemory()
	j, _ := reopen(t, m)
	tickets, err := j.Append(t.Context(), t0, nil, tracesOf("1", "2"))
	require.NoError(t, err)
	require.NoError(t, j.Update(t.Context(), []Ticket{tickets(0)}, nil, nil))
	spent := j.Forget([]Ticket{tickets(0), tickets(1), {}})
	assert.Equal(t, []Ticket{tickets(0)}, spent)
	require.NoError(t, j.Update(t.Context(), nil, spent, nil))
	_, replayed := reopen(t, m)
	require.Len(t, replayed, 1)
	assert.Equal(t, []string{"2"}, names(replayed[0]), "it is still to be forwarded")
	require.NoError(t, j.Update(t.Context(), []Ticket{tickets(1)}, nil, nil))
	assert.Empty(t, openEntries(j))
	_, replayed = reopen(t, m)
	assert.Empty(t, replayed)
}

// Numbers are claimed ahead, and none is used twice, however often a process dies.
func TestNumbers(t *testing.T) {
	m := newMemory()
	seen := map[string]bool{}
	for range 3 {
		j, _ := reopen(t, m)
		for i := range 2*ahead + 5 {
			tickets, err := j.Append(t.Context(), t0, nil, tracesOf(strconv.Itoa(i)))
			require.NoError(t, err)
			name := key(tickets(0).entry.seq)
			require.False(t, seen[name])
			seen[name] = true
			if i%10 > 0 {
				require.NoError(t, j.Update(t.Context(), nil, []Ticket{tickets(0)}, nil))
			}
		}
	}
	_, replayed := reopen(t, m)
	assert.Len(t, replayed, 3*(2*ahead+5+9)/10)
}

// What is no entry is set aside, and what is one is taken up all the same.
func TestForeignEntries(t *testing.T) {
	whole := encoded(t, t0, map[string][]string{"tenant": {"a"}}, tracesOf("1"))
	flipped := slices.Clone(whole)
	flipped[len(flipped)-1] ^= 1
	version := slices.Clone(whole)
	version[magicSize-1]++
	for name, value := range map[string][]byte{
		"empty": {}, "short": whole[:10], "cut": whole[:len(whole)-1], "a bit is wrong": flipped,
		"another version": version, "somebody else's": []byte(strings.Repeat("otlp", 100)),
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			j, _ := reopen(t, m)
			for i := range 3 {
				_, err := j.Append(t.Context(), t0, nil, tracesOf(strconv.Itoa(i)))
				require.NoError(t, err)
			}
			first := key(j.oldest().seq)
			m.content[first] = value
			m.content[statesPrefix+first] = []byte("abc")
			_, replayed := reopen(t, m)
			assert.Len(t, replayed, 2)
			assert.Equal(t, value, m.content[asidePrefix+first])
			assert.NotContains(t, m.content, first)
			assert.NotContains(t, m.content, statesPrefix+first)
			assert.Equal(t, []byte("abc"), m.content[asidePrefix+statesPrefix+first])
		})
	}
	t.Run("states", func(t *testing.T) {
		m := newMemory()
		j, _ := reopen(t, m)
		_, err := j.Append(t.Context(), t0, nil, tracesOf("1", "2"))
		require.NoError(t, err)
		states := statesPrefix + key(j.oldest().seq)
		m.content[states] = []byte("xyz")
		_, replayed := reopen(t, m)
		require.Len(t, replayed, 1)
		assert.Equal(t, []State{Held, Held}, replayed[0].States, "rather twice than never")
		assert.Equal(t, []byte("xyz"), m.content[asidePrefix+states])
	})
	t.Run("bounds", func(t *testing.T) {
		m := newMemory()
		m.content[boundsKey] = []byte("what is this")
		j, replayed := reopen(t, m)
		assert.Empty(t, replayed)
		assert.Equal(t, []byte("what is this"), m.content[asidePrefix+boundsKey])
		_, err := j.Append(t.Context(), t0, nil, tracesOf("1"))
		require.NoError(t, err)
		_, replayed = reopen(t, m)
		assert.Len(t, replayed, 1)
	})
}

func TestStorageFails(t *testing.T) {
	m := newMemory()
	j, _ := reopen(t, m)
	kept, err := j.Append(t.Context(), t0, nil, tracesOf("1"))
	require.NoError(t, err)
	m.fail = storage.ErrStorageFull
	_, err = j.Append(t.Context(), t0, nil, tracesOf("2"))
	require.ErrorIs(t, err, storage.ErrStorageFull)
	require.ErrorIs(t, j.Update(t.Context(), nil, []Ticket{kept(0)}, nil), storage.ErrStorageFull)
	assert.Equal(t, 1, openEntries(j))
	_, err = Open(t.Context(), m, zap.NewNop())
	require.ErrorIs(t, err, storage.ErrStorageFull)
	m.fail = nil
	again, err := j.Append(t.Context(), t0, nil, tracesOf("3"))
	require.NoError(t, err)
	_, replayed := reopen(t, m)
	assert.Len(t, replayed, 2, "what could not be deleted comes again")
	require.NoError(t, j.Update(t.Context(), nil, []Ticket{again(0)}, nil))
	assert.Zero(t, openEntries(j))
	assert.Empty(t, m.keys(), "what could not be deleted is deleted with the next update")

	kept, err = j.Append(t.Context(), t0, nil, tracesOf("4", "5"))
	require.NoError(t, err)
	_, err = j.Append(t.Context(), t0, nil, tracesOf("6"))
	require.NoError(t, err)
	m.fail = storage.ErrStorageFull
	require.Error(t, j.Update(t.Context(), []Ticket{kept(0)}, nil, nil))
	require.Error(t, j.Update(t.Context(), nil, []Ticket{kept(0)}, nil))
	m.fail = nil
	require.NoError(t, j.Close(t.Context()))
	j, replayed = reopen(t, m)
	require.Len(t, replayed, 2, "or at the end")
	assert.Equal(t, []string{"5"}, names(replayed[0]))
	require.NoError(t, j.Close(t.Context()))

	// A start that stops half way loses nothing of the rest.
	j, err = Open(t.Context(), m, zap.NewNop())
	require.NoError(t, err)
	errStop := errors.New("stop")
	require.ErrorIs(t, j.Replay(t.Context(), t0, func(r *Replayed) error {
		require.NoError(t, j.Update(t.Context(), nil, r.Tickets, nil))
		return errStop
	}, func() {}), errStop)
	require.NoError(t, j.Close(t.Context()))
	_, replayed = reopen(t, m)
	require.Len(t, replayed, 1)
	assert.Equal(t, []string{"6"}, names(replayed[0]))
}

// Calls and shards use a journal at the same time.
func TestConcurrent(t *testing.T) {
	m := newMemory()
	j, _ := reopen(t, m)
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			for range 300 {
				tickets, err := j.Append(t.Context(), t0, nil, tracesOf("1", "2"))
				if err != nil {
					t.Error(err)
					return
				}
				var halves sync.WaitGroup
				for i := range 2 {
					halves.Go(func() {
						assert.NoError(t, j.Update(t.Context(), []Ticket{tickets(i)}, nil, nil))
						assert.NoError(t, j.Update(t.Context(), nil, []Ticket{tickets(i)}, nil))
					})
				}
				halves.Wait()
			}
		})
	}
	done.Wait()
	assert.Zero(t, openEntries(j))
	assert.Empty(t, m.keys())
}

// FuzzDecode: whatever stands in the storage, it is an entry or an error.
func FuzzDecode(f *testing.F) {
	whole := encoded(f, t0, map[string][]string{"tenant": {"a"}}, tracesOf("1", "2"))
	f.Add(whole, []byte{0, 2})
	f.Add(whole[:20], []byte{})
	f.Fuzz(func(t *testing.T, value, states []byte) {
		if len(value) >= sealSize && len(states)%2 == 0 { // get past the checksum
			value = bytes.Clone(value)
			copy(value, entryMagic)
			sealed(value)
		}
		r, err := decode(value)
		if err != nil {
			return
		}
		require.Len(t, r.States, r.Traces.SpanCount())
		_, err = decode(encoded(t, r.At, r.Metadata, r.Traces))
		require.NoError(t, err)
	})
}

// openEntries is how many calls there are of which spans are not Done.
func openEntries(j *Journal) int { return j.live.Len() }
