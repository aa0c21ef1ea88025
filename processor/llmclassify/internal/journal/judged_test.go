package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

const keep = time.Hour

// judgedAt is what was judged of trace n so long after t0.
func judgedAt(n int, after time.Duration) Judged {
	r := Judged{At: t0.Add(after).Truncate(time.Millisecond), Counts: n%2 == 0, Tenant: uint64(n%3) << 60} //nolint:gosec // not negative
	binary.LittleEndian.PutUint32(r.Trace[:], uint32(n+1))                                                 //nolint:gosec // small
	r.Runs = []pcommon.SpanID{{byte(n + 1)}}
	r.Spans = []pcommon.SpanID{{byte(n + 1)}, {1, 2, 3}, {7: 9}}
	return r
}

// recall is a journal of the next process, with what was judged, oldest first.
func recall(t *testing.T, m *memory, now time.Time, bound int) (*Journal, []Judged) {
	t.Helper()
	j, err := Open(t.Context(), m, zap.NewNop())
	require.NoError(t, err)
	var all []Judged
	require.NoError(t, j.Recall(t.Context(), now, keep, bound, func(r *Judged) {
		r.At = r.At.UTC()
		all = append(all, *r)
	}))
	require.NoError(t, j.Replay(t.Context(), t0, func(*Replayed) error { return nil }, func() {}))
	return j, all
}

func note(t *testing.T, j *Journal, list ...Judged) {
	t.Helper()
	var records []byte
	for i := range list {
		records = list[i].Append(records)
	}
	require.NoError(t, j.Update(t.Context(), nil, nil, records))
}

// What was judged is there after each end of a process, in order, however much it is.
func TestRecall(t *testing.T) {
	m := newMemory()
	j, got := recall(t, m, t0, 1<<20)
	assert.Empty(t, got)
	assert.NotContains(t, m.content, judgedKey, "nothing is written where nothing was judged")
	var want []Judged
	for n := range 3000 {
		list := []Judged{judgedAt(n, time.Duration(n)*time.Millisecond)}
		if n%10 == 0 {
			list = append(list, Judged{At: t0.Truncate(time.Millisecond), Trace: pcommon.TraceID{15: 1}, Runs: []pcommon.SpanID{}, Spans: []pcommon.SpanID{{1}}})
		}
		note(t, j, list...)
		want = append(want, list...)
		if n%97 == 0 || n < 5 {
			j, got = recall(t, m, t0, 1<<20)
			require.Equal(t, want, got)
		}
	}
	_, got = recall(t, m, t0, 1<<20)
	require.Equal(t, want, got)
	assert.Less(t, len(m.content), 4+maxParts, "a few keys for thousands of runs")
}

// Nothing is written more than a few times, beside a little for each call.
func TestJudgedAmplification(t *testing.T) {
	m := &counting{memory: newMemory()}
	j, err := Open(t.Context(), m, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, j.Recall(t.Context(), t0, keep, 1<<20, nil))
	const calls = 2000
	records := 0
	for n := range calls {
		r := judgedAt(n, 0)
		encoded := r.Append(nil)
		records += len(encoded)
		require.NoError(t, j.Update(t.Context(), nil, nil, encoded))
	}
	assert.Less(t, records/calls, 64, "a run of three spans")
	assert.Less(t, m.written, 3*records+calls*maxPart*3/4)
}

// counting counts the bytes that are written, and the values that are asked for.
type counting struct {
	*memory
	written, got int
}

func (c *counting) Get(ctx context.Context, key string) ([]byte, error) {
	c.got++
	return c.memory.Get(ctx, key)
}

func (c *counting) Batch(ctx context.Context, ops ...*storage.Operation) error {
	for _, op := range ops {
		c.written += len(op.Value)
	}
	return c.memory.Batch(ctx, ops...)
}

// What was judged is written in one with what became of its spans.
func TestJudgedWithItsSpans(t *testing.T) {
	m := newMemory()
	j, _ := recall(t, m, t0, 0)
	tickets, err := j.Append(t.Context(), t0, nil, tracesOf("1"))
	require.NoError(t, err)
	r := judgedAt(1, 0)

	before := maps.Clone(m.content)
	require.NoError(t, j.Update(t.Context(), nil, []Ticket{tickets(0)}, r.Append(nil)))
	_, got := recall(t, m, t0, 0)
	assert.Equal(t, []Judged{r}, got)
	_, replayed := reopen(t, m)
	assert.Empty(t, replayed)

	_, got = recall(t, &memory{content: before}, t0, 0)
	assert.Empty(t, got)
	_, replayed = reopen(t, &memory{content: before})
	assert.Len(t, replayed, 1)
}

// No call that says what became of other spans of an entry writes that one's are done
// without what was judged for them.
func TestJudgedConcurrently(t *testing.T) {
	m := &watching{memory: newMemory()}
	j, err := Open(t.Context(), m, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, j.Recall(t.Context(), t0, keep, 1<<20, nil))
	var want []Judged
	for n := range 200 {
		tickets, err := j.Append(t.Context(), t0, nil, tracesOf("1", "2", "3", "4"))
		require.NoError(t, err)
		// Whenever the entry is gone, so many were judged.
		m.gone = func() {
			got, err := Open(t.Context(), m.memory, zap.NewNop())
			assert.NoError(t, err)
			count := 0
			assert.NoError(t, got.Recall(t.Context(), t0, keep, 1<<20, func(*Judged) { count++ }))
			assert.Equal(t, 4*(n+1), count)
		}
		var done sync.WaitGroup
		for i := range 4 {
			r := judgedAt(4*n+i, 0)
			want = append(want, r)
			done.Go(func() { assert.NoError(t, j.Update(t.Context(), nil, []Ticket{tickets(i)}, r.Append(nil))) })
		}
		done.Wait()
	}
	_, got := recall(t, m.memory, t0, 1<<20)
	assert.ElementsMatch(t, want, got)
}

// watching tells when an entry has been deleted.
type watching struct {
	*memory
	gone func()
}

func (w *watching) Batch(ctx context.Context, ops ...*storage.Operation) error {
	err := w.memory.Batch(ctx, ops...)
	if slices.ContainsFunc(ops, func(op *storage.Operation) bool {
		return op.Type == storage.Delete && !strings.HasPrefix(op.Key, judgedKey) && !strings.HasPrefix(op.Key, statesPrefix)
	}) {
		w.gone()
	}
	return err
}

// What is too old is deleted, in pieces, with what comes next.
func TestJudgedExpires(t *testing.T) {
	m := newMemory()
	j, _ := recall(t, m, t0, 1<<20)
	for n := range 100 {
		note(t, j, judgedAt(n, time.Duration(n)*keep/10))
		if n%7 == 0 {
			j, _ = recall(t, m, t0, 1<<20)
		}
		assert.Less(t, len(m.content), 4+maxParts)
	}
	_, got := recall(t, m, t0, 1<<20)
	assert.Equal(t, judgedAt(99, 99*keep/10), got[len(got)-1])
	oldest := got[0].At.Sub(t0)
	assert.LessOrEqual(t, oldest, 90*keep/10, "none that is younger is gone")
	assert.Greater(t, oldest, 80*keep/10)
}

// Of more than there is room for the oldest are deleted.
func TestJudgedBound(t *testing.T) {
	m := newMemory()
	const bound = 8 * maxSegment
	j, _ := recall(t, m, t0, bound)
	size := func() (n int) {
		for _, value := range m.content {
			n += len(value)
		}
		return n
	}
	const runs = 40_000
	for n := 0; n < runs; n += 100 {
		var list []Judged
		for i := range 100 {
			list = append(list, judgedAt(n+i, 0))
		}
		note(t, j, list...)
		require.Less(t, size(), bound+2*maxSegment)
	}
	assert.Greater(t, size(), bound-2*maxSegment)
	_, got := recall(t, m, t0, bound)
	assert.Equal(t, judgedAt(runs-1, 0), got[len(got)-1])
	assert.Equal(t, judgedAt(runs-len(got), 0), got[0], "those that were judged last")

	// Less room the next time.
	j, _ = recall(t, m, t0, 0)
	note(t, j, judgedAt(0, 0))
	assert.Less(t, size(), (minSegments+1)*maxSegment)
}

// Where records are deleted to make room, or cannot be written for so long that there is no
// room for them, it stays known that they are missing if they say that something of a trace
// was forgotten, until a record of that would be too old.
func TestMarksLost(t *testing.T) {
	lostAt := func(t *testing.T, m *memory) (at time.Time) {
		_, got := recall(t, m, t0, 0)
		for i := range got {
			if got[i].MarksLost() {
				at = got[i].At
			}
		}
		return at
	}
	forgot := Judged{At: t0, Trace: pcommon.TraceID{1}, Forgot: true}
	fill := func(t *testing.T, j *Journal, after time.Duration) {
		for n := 0; n < 2*minSegments*maxSegment/50; n += 100 {
			var list []Judged
			for i := range 100 {
				list = append(list, judgedAt(n+i, after))
			}
			note(t, j, list...)
		}
	}
	t.Run("for want of room", func(t *testing.T) {
		m := newMemory()
		j, _ := recall(t, m, t0, 0)
		note(t, j, forgot)
		fill(t, j, time.Second)
		assert.True(t, lostAt(t, m).Equal(judgedAt(0, time.Second).At))
		j, _ = recall(t, m, t0, 0)
		fill(t, j, 2*time.Second)
		assert.True(t, lostAt(t, m).Equal(judgedAt(0, 2*time.Second).At), "also if that is deleted")
		for n := range 4 {
			note(t, j, judgedAt(n, keep*time.Duration(n+1)))
		}
		assert.Zero(t, lostAt(t, m))
	})
	t.Run("of no mark", func(t *testing.T) {
		m := newMemory()
		j, _ := recall(t, m, t0, 0)
		fill(t, j, time.Second)
		assert.Zero(t, lostAt(t, m))
	})
	t.Run("as the storage fails", func(t *testing.T) {
		m := newMemory()
		j, _ := recall(t, m, t0, 0)
		tickets, err := j.Append(t.Context(), t0, nil, tracesOf("1"))
		require.NoError(t, err)
		m.fail = storage.ErrStorageFull
		many := judgedAt(1, 0)
		many.Spans = make([]pcommon.SpanID, 1000)
		for range 2 * minSegments * maxSegment / 8000 {
			require.Error(t, j.Update(t.Context(), nil, nil, many.Append(nil)))
		}
		last := forgot
		last.At = t0.Add(time.Minute)
		for range 1000 { // some of these are too many
			require.Error(t, j.Update(t.Context(), nil, []Ticket{tickets(0)}, last.Append(nil)))
		}
		m.fail = nil
		require.NoError(t, j.Close(t.Context()))
		assert.True(t, lostAt(t, m).Equal(last.At.Truncate(time.Millisecond)))
		_, replayed := reopen(t, m)
		assert.Empty(t, replayed)
	})
}

// What is unreadable is set aside, and the rest is known.
func TestJudgedUnreadable(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"empty":           func([]byte) []byte { return []byte{} },
		"cut":             func(v []byte) []byte { return v[:len(v)-1] },
		"a bit is wrong":  func(v []byte) []byte { v[len(v)-1] ^= 1; return v },
		"another version": func(v []byte) []byte { v[magicSize-1]++; return v },
		"no records":      func([]byte) []byte { return seal(judgedMagic, []byte("what is this, which has a checksum?")) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			j, _ := recall(t, m, t0, 1<<20)
			const runs = 3000
			for n := range runs {
				note(t, j, judgedAt(n, 0))
			}
			for _, key := range slices.Sorted(maps.Keys(m.content)) {
				if !strings.HasPrefix(key, judgedPart) {
					continue
				}
				spoilt := &memory{content: maps.Clone(m.content)}
				value := spoil(slices.Clone(m.content[key]))
				spoilt.content[key] = value
				core, logs := observer.New(zap.WarnLevel)
				j, err := Open(t.Context(), spoilt, zap.New(core))
				require.NoError(t, err)
				known := 0
				require.NoError(t, j.Recall(t.Context(), t0, keep, 1<<20, func(*Judged) { known++ }))
				assert.Less(t, known, runs, key)
				assert.Positive(t, known, key)
				assert.Equal(t, value, spoilt.content[asidePrefix+key])
				assert.NotContains(t, spoilt.content, key)
				assert.Equal(t, 1, logs.Len())
				note(t, j, judgedAt(runs, 0))
				_, got := recall(t, spoilt, t0, 1<<20)
				assert.Len(t, got, known+1)
			}
		})
	}
	for name, index := range map[string][]byte{
		"empty": {}, "short": make([]byte, 15), "long": make([]byte, 17),
		"no range": binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 5), 4),
		"too many": binary.LittleEndian.AppendUint64(make([]byte, 8), 1<<60),
	} {
		t.Run("index "+name, func(t *testing.T) {
			m := newMemory()
			m.content[judgedKey] = index
			j, got := recall(t, m, t0, 0)
			lost := Judged{At: t0.Truncate(time.Millisecond), Forgot: true, Runs: []pcommon.SpanID{}, Spans: []pcommon.SpanID{}}
			require.Len(t, got, 1)
			assert.True(t, got[0].MarksLost())
			assert.Equal(t, index, m.content[asidePrefix+judgedKey])
			note(t, j, judgedAt(1, 0))
			_, got = recall(t, m, t0, 0)
			assert.Equal(t, []Judged{judgedAt(1, 0), lost}, got)
		})
	}
}

// What could not be written is written with what comes next, also where it would have
// begun another segment; what there is no room for is not.
func TestJudgedWhileStorageFails(t *testing.T) {
	m := newMemory()
	j, _ := recall(t, m, t0, 0)
	var want []Judged
	for n := range 3000 {
		r := judgedAt(n, 0)
		want = append(want, r)
		m.fail = nil
		if n%3 > 0 {
			m.fail = storage.ErrStorageFull
		}
		err := j.Update(t.Context(), nil, nil, r.Append(nil))
		require.Equal(t, n%3 > 0, err != nil)
	}
	m.fail = nil
	tickets, err := j.Append(t.Context(), t0, nil, tracesOf("1"))
	require.NoError(t, err)
	require.NoError(t, j.Update(t.Context(), nil, []Ticket{tickets(0)}, nil))
	_, got := recall(t, m, t0, 0)
	assert.Equal(t, want, got)

	m.fail = storage.ErrStorageFull
	many := judgedAt(1, 0)
	many.Spans = make([]pcommon.SpanID, 1000)
	for range 2 * minSegments * maxSegment / 8000 {
		require.Error(t, j.Update(t.Context(), nil, nil, many.Append(nil)))
	}
	assert.LessOrEqual(t, len(j.judged.records), minSegments*maxSegment)
	_, err = Open(t.Context(), m, zap.NewNop())
	require.ErrorIs(t, err, storage.ErrStorageFull)
	require.ErrorIs(t, j.Recall(t.Context(), t0, keep, 0, nil), storage.ErrStorageFull)
}

// FuzzRecall: whatever stands in the storage, it is records or an error.
func FuzzRecall(f *testing.F) {
	first, second := judgedAt(1, 0), judgedAt(2, time.Hour)
	f.Add(seal(judgedMagic, second.Append(first.Append(nil))))
	f.Add(seal(judgedMagic, first.Append(nil)[:20]))
	f.Add([]byte(judgedMagic))
	f.Fuzz(func(t *testing.T, value []byte) {
		if len(value) >= sealSize { // get past the checksum
			value = bytes.Clone(value)
			copy(value, judgedMagic)
			sealed(value)
		}
		var all []Judged
		records, err := readRecords(value, func(r *Judged) { all = append(all, *r) })
		if err != nil {
			require.Empty(t, all)
			return
		}
		require.Equal(t, value[sealSize:], records)
		var again []byte
		for i := range all {
			again = all[i].Append(again)
		}
		var same []Judged
		_, err = readRecords(seal(judgedMagic, again), func(r *Judged) { same = append(same, *r) })
		require.NoError(t, err)
		require.Equal(t, all, same)
		l := judgedLog{keep: keep, bound: 1}
		l.add(records)
		require.Equal(t, records, append([]byte{}, l.records...))
	})
}
