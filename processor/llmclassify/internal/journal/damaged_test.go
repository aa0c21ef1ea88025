package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// listing is a memory that can list what it has, as file_storage can.
type listing struct{ *memory }

func (l listing) Walk(_ context.Context, fn storage.WalkFunc) error {
	if l.fail != nil {
		return l.fail
	}
	for _, key := range slices.Sorted(maps.Keys(l.content)) {
		if _, err := fn(key, l.content[key]); err != nil {
			return err
		}
	}
	return nil
}

// clients are those of a storage that cannot list what it has, and of one that can.
var clients = map[string]func(*memory) storage.Client{
	"cannot list": func(m *memory) storage.Client { return m },
	"lists":       func(m *memory) storage.Client { return listing{m} },
}

// taken is what a start takes up.
type taken struct {
	spans  []string // that are held
	spent  []string
	judged []Judged
	lost   bool // some of judged are not known
	logs   []string
}

// takeUp starts on a storage.
func takeUp(t *testing.T, client storage.Client) (*Journal, taken) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	j, err := Open(t.Context(), client, zap.New(core))
	require.NoError(t, err)
	var got taken
	require.NoError(t, j.Recall(t.Context(), t0, keep, 1<<20, func(r *Judged) {
		r.At = r.At.UTC()
		if r.MarksLost() {
			got.lost = true
			return
		}
		got.judged = append(got.judged, *r)
	}))
	require.NoError(t, j.Replay(t.Context(), t0, func(r *Replayed) error {
		require.Len(t, r.Tickets, len(r.States))
		for i, name := range names(r) {
			if r.States[i] == Spent {
				got.spent = append(got.spent, name)
			} else {
				got.spans = append(got.spans, name)
			}
		}
		return nil
	}, func() { got.lost = true }))
	for _, l := range logs.All() {
		got.logs = append(got.logs, l.Message)
	}
	return j, got
}

// large is the name of a span that takes three pieces.
var large = strings.Repeat("large", pieceSize/len("large"))

// small is a storage with one of everything.
func small(t *testing.T) (*memory, taken) {
	t.Helper()
	m := newMemory()
	j, _ := takeUp(t, m)
	require.NoError(t, j.SetOwner(t.Context(), "traces/a"))
	first, err := j.Append(t.Context(), t0, map[string][]string{"tenant": {"a"}}, tracesOf("held", "spent", "done"))
	require.NoError(t, err)
	_, err = j.Append(t.Context(), t0, nil, tracesOf("other"))
	require.NoError(t, err)
	_, err = j.Append(t.Context(), t0, nil, tracesOf(large))
	require.NoError(t, err)
	r := judgedAt(1, 0)
	require.NoError(t, j.Update(t.Context(), []Ticket{first(1)}, []Ticket{first(2)}, r.Append(nil)))
	j.judged.part = maxParts // one segment is full
	last := judgedAt(2, 0)
	require.NoError(t, j.Update(t.Context(), nil, nil, last.Append(nil)))
	newest := judgedAt(3, 0)
	require.NoError(t, j.Update(t.Context(), nil, nil, newest.Append(nil)))
	want := taken{spans: []string{"held", "other", large}, spent: []string{"spent"}, judged: []Judged{r, last, newest}}
	_, got := takeUp(t, &memory{content: maps.Clone(m.content)})
	require.Equal(t, want, got)
	require.ElementsMatch(t, []string{
		boundsKey, ownerKey, "0", "states.0", "1", "2", "2.1", "2.2", judgedKey, segmentKey(0), partKey(1, 0),
	}, slices.Collect(maps.Keys(m.content)))
	return m, want
}

// damages are each byte of a value changed, and the value cut at each byte; of a large one,
// at some of them.
func damages(value []byte, yield func(what string, damaged []byte)) {
	for i := 0; i < len(value); i += 1 + len(value)/300 {
		for _, flip := range []byte{1, 0x80, 0xff} {
			damaged := slices.Clone(value)
			damaged[i] ^= flip
			yield(fmt.Sprintf("byte %d is flipped by %#x", i, flip), damaged)
		}
		yield(fmt.Sprintf("cut at %d", i), slices.Clone(value[:i]))
	}
}

// Whichever byte of a storage is wrong, and wherever one of its values ends: what is
// damaged is set aside and logged, all else is taken up, and the next start is clean.
func TestAnyDamage(t *testing.T) {
	m, whole := small(t)
	for name, client := range clients {
		lists := name == "lists"
		for damagedKey, value := range m.content {
			want := whole
			want.logs = nil
			switch {
			case damagedKey == "0":
				want.spans, want.spent, want.lost = []string{"other", large}, nil, true
			case damagedKey == "states.0": // comes again
				want.spans, want.spent = []string{"held", "spent", "done", "other", large}, nil
			case damagedKey == "1":
				want.spans, want.lost = []string{"held", large}, true
			case strings.HasPrefix(damagedKey, "2"): // with all its pieces
				want.spans, want.lost = []string{"held", "other"}, true
			case damagedKey == boundsKey && !lists:
				want.spans, want.spent, want.lost = nil, nil, true
			case damagedKey == judgedKey && !lists:
				want.judged, want.lost = nil, true
			case damagedKey == segmentKey(0):
				want.judged, want.lost = want.judged[2:], true
			case damagedKey == partKey(1, 0):
				want.judged, want.lost = want.judged[:2], true
			}
			t.Run(name+", "+damagedKey, func(t *testing.T) {
				damages(value, func(what string, damaged []byte) {
					m := &memory{content: maps.Clone(m.content)}
					m.content[damagedKey] = damaged
					j, got := takeUp(t, client(m))
					if damagedKey == ownerKey {
						owner, err := ReadOwner(t.Context(), client(m))
						require.NoError(t, err)
						require.Error(t, owner.Unreadable, what)
						require.Empty(t, owner.Name)
						require.True(t, owner.Used)
						require.NoError(t, j.SetOwner(t.Context(), "traces/b"))
					} else {
						require.Len(t, got.logs, 1, what)
					}
					got.logs = nil
					require.Equal(t, want, got, what)
					require.Equal(t, damaged, m.content[asidePrefix+damagedKey], what)
					if strings.HasPrefix(damagedKey, "2") {
						require.NotContains(t, m.content, "2")
						require.NotContains(t, m.content, "2.1")
						require.NotContains(t, m.content, "2.2")
					}

					// It is of use.
					tickets, err := j.Append(t.Context(), t0, nil, tracesOf("new"))
					require.NoError(t, err)
					r := judgedAt(9, 0)
					require.NoError(t, j.Update(t.Context(), []Ticket{tickets(0)}, nil, r.Append(nil)))
					require.NoError(t, j.Close(t.Context()))
					_, got = takeUp(t, client(m))
					require.Empty(t, got.logs, what)
					require.Equal(t, append(slices.Clone(want.spent), "new"), got.spent, what)
					require.Equal(t, append(slices.Clone(want.judged), r), got.judged, what)
					require.Equal(t, want.lost, got.lost, what)
				})
			})
		}
	}
}

// A second damage does not delete what the first one left.
func TestAsideStays(t *testing.T) {
	m, _ := small(t)
	for _, damage := range []string{"one", "two", "two", "three"} {
		m.content[boundsKey] = []byte(damage)
		takeUp(t, m)
	}
	var aside []string
	for key, value := range m.content {
		if strings.HasPrefix(key, asidePrefix+boundsKey) {
			aside = append(aside, string(value))
		}
	}
	assert.ElementsMatch(t, []string{"one", "two", "three"}, aside)
}

func littleEndian(numbers ...uint64) (value []byte) {
	for _, n := range numbers {
		value = binary.LittleEndian.AppendUint64(value, n)
	}
	return value
}

// What earlier versions wrote, without checksums of bounds, states and the index, is read,
// and replaced.
func TestEarlierVersion(t *testing.T) {
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			m, want := small(t)
			m.content[boundsKey] = littleEndian(0, 1025)
			m.content["states.0"] = []byte{0, 1, 2}
			m.content[judgedKey] = littleEndian(0, 1)
			delete(m.content, ownerKey)
			j, got := takeUp(t, client(m))
			require.Equal(t, want, got)
			require.NoError(t, j.Close(t.Context()))
			assert.Equal(t, sealRange(boundsMagic, 0, 1025), m.content[boundsKey])
			_, got = takeUp(t, client(m))
			require.Equal(t, want, got)
		})
	}
}

// Bounds and an index without a checksum may say anything.
func TestAnyRangeOfAnEarlierVersion(t *testing.T) {
	numbers := []uint64{0, 1, 2, 3, 1 << 16, 1<<16 + 1, 1 << 40, maxNumber, 1 << 63, 1<<64 - 1}
	for name, client := range clients {
		for _, first := range numbers {
			for _, end := range numbers {
				small, whole := small(t)
				for _, key := range []string{boundsKey, judgedKey} {
					if key == boundsKey && name == "cannot list" && end > 1<<17 {
						continue // see TestWideBounds
					}
					m := &memory{content: maps.Clone(small.content)}
					m.content[key] = littleEndian(first, end)
					counts := &counting{memory: m}
					var c storage.Client = counts
					if name == "lists" {
						c = client(m)
					}
					j, got := takeUp(t, c)
					require.LessOrEqual(t, counts.got, 1<<17+100)
					if name == "lists" {
						require.Equal(t, whole.spans, got.spans)
						require.Equal(t, whole.judged, got.judged)
					}
					_, err := j.Append(t.Context(), t0, nil, tracesOf("new"))
					require.NoError(t, err)
					r := judgedAt(9, 0)
					require.NoError(t, j.Update(t.Context(), nil, nil, r.Append(nil)))
					require.NoError(t, j.Close(t.Context()))
					if name == "lists" {
						_, got = takeUp(t, c)
						require.Equal(t, append(slices.Clone(whole.spans), "new"), got.spans)
						require.Equal(t, append(slices.Clone(whole.judged), r), got.judged)
					}
				}
			}
		}
	}
}

// A range that is too wide to look for each number of it is looked for at both ends; what
// is left out is said.
func TestWideBounds(t *testing.T) {
	whole := encoded(t, t0, nil, tracesOf("1"))
	const first, end = 5, 1 << 61
	c := &counting{memory: newMemory()}
	c.content[boundsKey] = sealRange(boundsMagic, first, end)
	for _, seq := range []uint64{first, first + maxScan/2 - 1, end - maxScan/2, end - 1} {
		c.content[key(seq)] = whole
	}
	_, got := takeUp(t, c)
	assert.Len(t, got.spans, 4)
	assert.Len(t, got.logs, 1)
	assert.Less(t, c.got, maxScan+100)
	_, got = takeUp(t, listing{c.memory})
	assert.Len(t, got.spans, 4)
	assert.Empty(t, got.logs, "it is listed")

	for width, wantLeft := range map[uint64]uint64{0: 0, 1: 0, maxScan: 0, maxScan + 1: 1, maxScan + 9: 9} {
		var none *found
		numbers, left := none.numbers(first, first+width)
		assert.Equal(t, wantLeft, left)
		n, last := uint64(0), uint64(first-1)
		for seq := range numbers {
			n++
			last = seq
		}
		assert.Equal(t, width-left, n)
		assert.Equal(t, first+width-1, last)
	}
}

// Keys that are not the journal's are left alone.
func TestOtherKeys(t *testing.T) {
	m, want := small(t)
	others := []string{"", ".", "x", "01", "+1", "1.", "1.x", "-1", "1e3", "99999999999999999999", key(endNumber), judgedPart, "judged.x", "judged.1.x", "judged.1.99", "judged.01", "judged..1", "9.states", "states.9"}
	for _, key := range others {
		m.content[key] = []byte("what is this")
	}
	_, got := takeUp(t, listing{m})
	assert.Equal(t, want, got)
	for _, key := range others {
		assert.Equal(t, []byte("what is this"), m.content[key], key)
	}
	m.fail = storage.ErrStorageFull
	_, err := Open(t.Context(), listing{m}, zap.NewNop())
	require.ErrorIs(t, err, storage.ErrStorageFull)
	_, err = ReadOwner(t.Context(), m)
	require.ErrorIs(t, err, storage.ErrStorageFull)
}

// FuzzStates: whatever stands in the storage, it is a state for each span or an error.
func FuzzStates(f *testing.F) {
	f.Add([]byte{0, 1, 2}, 3)
	f.Add(sealStates([]State{Held, Spent, Done}), 3)
	f.Add(sealStates(nil), 0)
	f.Fuzz(func(t *testing.T, value []byte, spans int) {
		spans = min(max(spans, 0), 1<<10)
		for _, value := range [][]byte{value, seal(statesMagic, value)} {
			states, err := readStates(value, spans)
			if err != nil {
				continue
			}
			require.Len(t, states, spans)
			same, err := readStates(sealStates(states), spans)
			require.NoError(t, err)
			require.Equal(t, states, same)
		}
	})
}

// FuzzRange: whatever stands in the storage, it is a range or an error.
func FuzzRange(f *testing.F) {
	f.Add(littleEndian(1, 2))
	f.Add(littleEndian(0, 1<<63))
	f.Add(sealRange(boundsMagic, 1, 2))
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, value := range [][]byte{value, seal(boundsMagic, value)} {
			first, end, err := readRange(boundsMagic, value)
			if err != nil {
				continue
			}
			require.LessOrEqual(t, first, end)
			require.Less(t, end, uint64(endNumber))
			again, last, err := readRange(boundsMagic, sealRange(boundsMagic, first, end))
			require.NoError(t, err)
			require.Equal(t, []uint64{first, end}, []uint64{again, last})
		}
	})
}

// FuzzOpen: whatever stands in the storage, a start ends, and the journal is of use.
func FuzzOpen(f *testing.F) {
	entry := encoded(f, t0, nil, tracesOf("1", "2"))
	r := judgedAt(1, 0)
	cut := len(entry) / 2
	f.Add(sealRange(boundsMagic, 0, 9), entry[:cut], entry[cut:], sealStates([]State{Spent, Done}), sealRange(indexMagic, 0, 1), seal(judgedMagic, r.Append(nil)), "1", "judged.1.0")
	f.Add(sealRange(boundsMagic, 0, 9), entry, []byte(nil), sealStates([]State{Spent, Done}), sealRange(indexMagic, 0, 1), seal(judgedMagic, r.Append(nil)), "1", "judged.1.0")
	f.Add(littleEndian(0, 9), entry, []byte(nil), []byte{1, 2}, littleEndian(0, 1), seal(judgedMagic, r.Append(nil)), "7", "judged.0")
	f.Fuzz(func(t *testing.T, bounds, entry, more, states, index, records []byte, entryKey, recordsKey string) {
		for name, client := range clients {
			if _, end, err := readRange(boundsMagic, bounds); name == "cannot list" && err == nil && end > 1<<12 {
				continue // takes long, see TestWideBounds
			}
			m := newMemory()
			maps.Copy(m.content, map[string][]byte{
				recordsKey: records, entryKey: entry, entryKey + ".1": more, statesPrefix + entryKey: states, boundsKey: bounds, judgedKey: index,
			})
			j, first := takeUp(t, client(m))
			tickets, err := j.Append(t.Context(), t0, nil, tracesOf("new"))
			require.NoError(t, err)
			require.NoError(t, j.Update(t.Context(), []Ticket{tickets(0)}, nil, nil))
			require.NoError(t, j.Close(t.Context()))
			_, second := takeUp(t, client(m))
			require.Equal(t, first.spans, second.spans)
			require.Equal(t, append(slices.Clone(first.spent), "new"), second.spent)
			require.Empty(t, second.logs)
		}
	})
}
