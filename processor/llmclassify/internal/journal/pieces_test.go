package journal

import (
	"slices"
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
			_, err := j.Put(t.Context(), t0, metadata, tracesOf(name))
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
			require.NoError(t, j.Delete(t.Context(), tickets(replayed[0])))
			require.Empty(t, m.keys())
		}
	}
}

// An entry of which a piece is missing is unreadable: what is left of it is set aside. A storage
// that cannot list what it has does not show what follows the missing piece.
func TestMissingPiece(t *testing.T) {
	for name, client := range clients {
		for _, missing := range []string{"2", "2.1", "2.2"} {
			t.Run(name+", "+missing, func(t *testing.T) {
				m, _ := small(t)
				delete(m.content, missing)
				_, got := takeUp(t, client(m))
				assert.Equal(t, []string{"one", "two", "three", "other"}, got.spans)
				if seen := name == "lists" || missing != "2"; seen {
					assert.Len(t, got.logs, 1)
				}
				if name == "lists" {
					for _, key := range []string{"2", "2.1", "2.2"} {
						assert.NotContains(t, m.content, key)
						if key != missing {
							assert.Contains(t, m.content, asidePrefix+key)
						}
					}
				}
				_, got = takeUp(t, client(m))
				assert.Empty(t, got.logs)
			})
		}
	}
}

// A second damage does not overwrite what the first one left of an entry with the same number.
func TestPiecesAsideStay(t *testing.T) {
	m := newMemory()
	for i, last := range []string{"first damage", "second damage"} {
		m.content["0"], m.content["0.1"] = slices.Repeat([]byte{byte(i)}, pieceSize), []byte(last)
		takeUp(t, listing{m})
	}
	var aside []string
	for key, value := range m.content {
		if strings.HasPrefix(key, asidePrefix+"0.1") {
			aside = append(aside, string(value))
		}
	}
	assert.ElementsMatch(t, []string{"first damage", "second damage"}, aside)
}

// What an entry of an earlier process left behind is no part of one with its number.
func TestPieceOfAnotherEntry(t *testing.T) {
	around := len(encoded(t, t0, nil, tracesOf("")))
	for size := (pieceSize-around)/2 - 20; size < (pieceSize-around)/2; size++ { // around one piece
		m := newMemory()
		m.content["0.1"] = []byte("of an entry of which the rest, and the bounds, are lost")
		j, _ := takeUp(t, m)
		name := strings.Repeat("x", size)
		_, err := j.Put(t.Context(), t0, nil, tracesOf(name))
		require.NoError(t, err)
		j, got := takeUp(t, m)
		require.Equal(t, []string{name}, got.spans)
		require.NoError(t, j.Delete(t.Context(), []Ticket{{Entry: j.oldest()}}))
		require.Empty(t, m.keys())
	}
}

// No call is written while the journal closes: its number would not be in the bounds.
func TestPutWhileClosing(t *testing.T) {
	m := newMemory()
	j, _ := takeUp(t, m)
	require.NoError(t, j.Close(t.Context()))
	_, err := j.Put(t.Context(), t0, nil, tracesOf("late"))
	require.ErrorIs(t, err, errClosed)
}

// Metadata may be any bytes.
func TestMetadataBytes(t *testing.T) {
	for _, metadata := range []map[string][]string{
		{"tenant": {"a", "ä"}}, {"tenant-bin": {"a\xff", ""}, "tenant": {"b"}}, {"none": nil},
	} {
		m := newMemory()
		j, _ := reopen(t, m)
		_, err := j.Put(t.Context(), t0, metadata, tracesOf("x"))
		require.NoError(t, err)
		_, replayed := reopen(t, m)
		require.Len(t, replayed, 1)
		assert.Equal(t, metadata, replayed[0].Metadata)
	}
}

// Nothing is left of a call that could not be written.
func TestPiecesOfFailedWrite(t *testing.T) {
	m := newMemory()
	j, _ := reopen(t, m)
	m.fail = storage.ErrStorageFull
	_, err := j.Put(t.Context(), t0, nil, tracesOf(large))
	require.ErrorIs(t, err, storage.ErrStorageFull)
	m.fail = nil
	require.NoError(t, j.Close(t.Context()))
	assert.Empty(t, m.keys())
}
