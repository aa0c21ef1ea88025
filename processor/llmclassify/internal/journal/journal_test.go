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
	require.NoError(t, j.Replay(t.Context(), func(r *Replayed) error {
		replayed = append(replayed, r)
		return nil
	}))
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

// tickets are those of all spans of a call.
func tickets(r *Replayed) (list []Ticket) {
	for i := range r.Traces.SpanCount() {
		list = append(list, r.Tickets(i))
	}
	return list
}

// After a crash the spans of a call come back that are not done, with what was forwarded of them.
func TestReplay(t *testing.T) {
	m := newMemory()
	j, replayed := reopen(t, m)
	assert.Empty(t, replayed)
	first, err := j.Put(t.Context(), t0, map[string][]string{"tenant": {"a", "b"}}, tracesOf("1", "2", "3"))
	require.NoError(t, err)
	second, err := j.Put(t.Context(), t0.Add(time.Second), nil, tracesOf("4"))
	require.NoError(t, err)
	_, err = j.Put(t.Context(), t0.Add(2*time.Second), nil, tracesOf("5", "6"))
	require.NoError(t, err)
	require.NoError(t, j.Sent(t.Context(), []Ticket{first(0), {}}))
	require.NoError(t, j.Delete(t.Context(), []Ticket{first(1), second(0), first(1), {}}))

	j, replayed = reopen(t, m) // after a crash
	require.Len(t, replayed, 2)
	r := replayed[0]
	assert.True(t, t0.Equal(r.At))
	assert.Equal(t, map[string][]string{"tenant": {"a", "b"}}, r.Metadata)
	assert.Equal(t, []string{"1", "3"}, names(r))
	assert.Equal(t, []bool{true, false}, []bool{r.Sent(0), r.Sent(1)})
	service, _ := r.Traces.ResourceSpans().At(2).Resource().Attributes().Get("service.name")
	assert.Equal(t, "of 3", service.Str())
	assert.Equal(t, []string{"5", "6"}, names(replayed[1]))
	assert.Nil(t, replayed[1].Metadata)

	require.NoError(t, j.Delete(t.Context(), append(tickets(r), replayed[1].Tickets(1))))
	assert.Equal(t, 1, openEntries(j))
	j, replayed = reopen(t, m)
	require.Len(t, replayed, 1)
	third, err := j.Put(t.Context(), t0, nil, tracesOf("7"))
	require.NoError(t, err)
	require.NoError(t, j.Delete(t.Context(), append(tickets(replayed[0]), third(0))))
	assert.Empty(t, m.keys(), "nothing is left")
	require.NoError(t, j.Close(t.Context()))
	assert.True(t, m.closed)
	_, replayed = reopen(t, m)
	assert.Empty(t, replayed)
}

// A call stays until each of its spans was forwarded and its facts are of no use any more, in any order.
func TestSpanIsDoneWhenSentAndFree(t *testing.T) {
	m := newMemory()
	j, _ := reopen(t, m)
	of, err := j.Put(t.Context(), t0, nil, tracesOf("1", "2"))
	require.NoError(t, err)
	require.NoError(t, j.Sent(t.Context(), []Ticket{of(0)}))
	require.NoError(t, j.Forget(t.Context(), []Ticket{of(0), of(1), {}}))
	assert.Equal(t, 1, openEntries(j), "a span is still to be forwarded")
	require.NoError(t, j.Sent(t.Context(), []Ticket{of(1)}))
	assert.Zero(t, openEntries(j))
	_, replayed := reopen(t, m)
	assert.Empty(t, replayed)
}

// The states of a call with many spans are in several values. What is unreadable of them comes again.
func TestStates(t *testing.T) {
	m := newMemory()
	j, _ := reopen(t, m)
	var all []string
	for i := range 2*blockSpans + 1 {
		all = append(all, strconv.Itoa(i))
	}
	of, err := j.Put(t.Context(), t0, nil, tracesOf(all...))
	require.NoError(t, err)
	require.NoError(t, j.Delete(t.Context(), []Ticket{of(0), of(blockSpans), of(2 * blockSpans)}))
	for _, again := range []int{0, 1} { // as it was written, and with an unreadable block
		_, replayed := reopen(t, m)
		require.Len(t, replayed, 1)
		left := names(replayed[0])
		require.Len(t, left, 2*blockSpans-2+again)
		require.NotContains(t, left, strconv.Itoa(0))
		if value := m.content[blockKey(0, 1)]; again == 0 {
			value[len(value)-1] ^= 1
		}
	}
	j, replayed := reopen(t, m)
	require.NoError(t, j.Delete(t.Context(), tickets(replayed[0])))
	assert.Equal(t, []string{"aside." + blockKey(0, 1)}, m.keys())
}

// Numbers are claimed ahead, and none is used twice, however often a process dies.
func TestNumbers(t *testing.T) {
	m := newMemory()
	seen := map[string]bool{}
	for range 3 {
		j, _ := reopen(t, m)
		for i := range 2*ahead + 5 {
			tickets, err := j.Put(t.Context(), t0, nil, tracesOf(strconv.Itoa(i)))
			require.NoError(t, err)
			name := key(tickets(0).Entry.(*entry).seq)
			require.False(t, seen[name])
			seen[name] = true
			if i%10 > 0 {
				require.NoError(t, j.Delete(t.Context(), []Ticket{tickets(0)}))
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
				_, err := j.Put(t.Context(), t0, nil, tracesOf(strconv.Itoa(i)))
				require.NoError(t, err)
			}
			first := key(j.oldest().seq)
			m.content[first] = value
			_, replayed := reopen(t, m)
			assert.Len(t, replayed, 2)
			assert.Equal(t, value, m.content[asidePrefix+first])
			assert.NotContains(t, m.content, first)
		})
	}
	t.Run("bounds", func(t *testing.T) {
		m := newMemory()
		m.content[boundsKey] = []byte("what is this")
		j, replayed := reopen(t, m)
		assert.Empty(t, replayed)
		assert.Equal(t, []byte("what is this"), m.content[asidePrefix+boundsKey])
		_, err := j.Put(t.Context(), t0, nil, tracesOf("1"))
		require.NoError(t, err)
		_, replayed = reopen(t, m)
		assert.Len(t, replayed, 1)
	})
}

func TestStorageFails(t *testing.T) {
	m := newMemory()
	j, _ := reopen(t, m)
	kept, err := j.Put(t.Context(), t0, nil, tracesOf("1"))
	require.NoError(t, err)
	m.fail = storage.ErrStorageFull
	_, err = j.Put(t.Context(), t0, nil, tracesOf("2"))
	require.ErrorIs(t, err, storage.ErrStorageFull)
	require.ErrorIs(t, j.Delete(t.Context(), []Ticket{kept(0)}), storage.ErrStorageFull)
	assert.Equal(t, 1, openEntries(j))
	_, err = Open(t.Context(), m, zap.NewNop())
	require.ErrorIs(t, err, storage.ErrStorageFull)
	m.fail = nil
	again, err := j.Put(t.Context(), t0, nil, tracesOf("3"))
	require.NoError(t, err)
	_, replayed := reopen(t, m)
	assert.Len(t, replayed, 2, "what could not be deleted comes again")
	require.NoError(t, j.Delete(t.Context(), []Ticket{again(0)}))
	assert.Zero(t, openEntries(j))
	assert.Empty(t, m.keys(), "what could not be deleted is deleted with the next")

	kept, err = j.Put(t.Context(), t0, nil, tracesOf("4"))
	require.NoError(t, err)
	for _, name := range []string{"5", "6"} {
		_, err = j.Put(t.Context(), t0, nil, tracesOf(name))
		require.NoError(t, err)
	}
	m.fail = storage.ErrStorageFull
	require.Error(t, j.Delete(t.Context(), []Ticket{kept(0)}))
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
	require.ErrorIs(t, j.Replay(t.Context(), func(r *Replayed) error {
		require.NoError(t, j.Delete(t.Context(), tickets(r)))
		return errStop
	}), errStop)
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
				tickets, err := j.Put(t.Context(), t0, nil, tracesOf("1", "2"))
				if err != nil {
					t.Error(err)
					return
				}
				var halves sync.WaitGroup
				for i := range 2 {
					halves.Go(func() {
						assert.NoError(t, j.Sent(t.Context(), []Ticket{tickets(i)}))
						assert.NoError(t, j.Delete(t.Context(), []Ticket{tickets(i)}))
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
	f.Add(whole, true)
	f.Add(whole[:20], false)
	f.Fuzz(func(t *testing.T, value []byte, seal bool) {
		if len(value) >= sealSize && seal { // get past the checksum
			value = bytes.Clone(value)
			copy(value, entryMagic)
			sealed(value)
		}
		r, err := decode(value)
		if err != nil {
			return
		}
		_, err = decode(encoded(t, r.At, r.Metadata, r.Traces))
		require.NoError(t, err)
	})
}

// openEntries is how many calls there are of which spans are not done.
func openEntries(j *Journal) int { return j.live.Len() }
