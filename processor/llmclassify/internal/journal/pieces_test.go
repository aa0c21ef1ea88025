package journal

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/extension/xextension/storage"
)

// An entry is stored in pieces of the same size, and comes back whole, whatever its size. It
// is deleted with all of them.
func TestPieces(t *testing.T) {
	one := encoded(t, t0, nil, tracesOf("x"))
	around := len(one) - len("xx") // a name is in it twice
	for _, size := range []int{len(one), pieceSize - 1, pieceSize, pieceSize + 1, 2 * pieceSize, 10*pieceSize + 100} {
		for _, metadata := range []map[string][]string{nil, {"tenant": {strings.Repeat("a", 2*pieceSize)}}} {
			m := newMemory()
			j, _ := reopen(t, m)
			name := strings.Repeat("x", max(1, (size-around)/2))
			_, err := j.Append(t.Context(), t0, metadata, tracesOf(name))
			require.NoError(t, err)
			whole := encoded(t, t0, metadata, tracesOf(name))
			values := m.keys()
			require.Len(t, values, (len(whole)+pieceSize-1)/pieceSize)
			for i := range values {
				require.Equal(t, whole[i*pieceSize:min((i+1)*pieceSize, len(whole))], m.content[pieceKey(0, i)])
			}

			j, replayed := reopen(t, m)
			require.Len(t, replayed, 1)
			require.Equal(t, []string{name}, names(replayed[0]))
			require.Equal(t, metadata, replayed[0].Metadata)
			require.NoError(t, j.Update(t.Context(), nil, replayed[0].Tickets, nil))
			require.Empty(t, m.keys())
		}
	}
}

// Earlier versions stored an entry in one value, whatever its size.
func TestEntryInOneValue(t *testing.T) {
	m, want := small(t)
	m.content["2"] = append(append(m.content["2"], m.content["2.1"]...), m.content["2.2"]...)
	delete(m.content, "2.1")
	delete(m.content, "2.2")
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			_, got := takeUp(t, client(&memory{content: maps.Clone(m.content)}))
			assert.Equal(t, want, got)
		})
	}
}

// An entry of which a piece is missing is unreadable. What is left of it is kept.
func TestMissingPiece(t *testing.T) {
	for missing, left := range map[string][]string{"2": {"2.1", "2.2"}, "2.1": {"2.2", "aside.2"}, "2.2": {"aside.2", "aside.2.1"}} {
		m, want := small(t)
		delete(m.content, missing)
		_, got := takeUp(t, m)
		assert.Equal(t, []string{"held", "other"}, got.spans, missing)
		assert.Equal(t, want.judged, got.judged)
		for _, key := range left {
			assert.Contains(t, m.content, key)
		}
		_, got = takeUp(t, m)
		assert.Empty(t, got.logs)
	}
}

// Nothing is left of a call that could not be written.
func TestPiecesOfFailedWrite(t *testing.T) {
	m := newMemory()
	j, _ := reopen(t, m)
	m.fail = storage.ErrStorageFull
	_, err := j.Append(t.Context(), t0, nil, tracesOf(large))
	require.ErrorIs(t, err, storage.ErrStorageFull)
	m.fail = nil
	require.NoError(t, j.Close(t.Context()))
	assert.Empty(t, m.keys())
}
