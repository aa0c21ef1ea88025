package journal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"

	"github.com/otelllm/otelllm-go/internal/sample"
)

var errUnsure = errors.New("the connection broke")

// unsure is a storage that may have written what it reports as failed.
type unsure struct {
	*memory
	before, after bool // fail before or after the write
}

func (u *unsure) Batch(ctx context.Context, ops ...*storage.Operation) error {
	writes := len(ops) > 0 && ops[0].Type != storage.Get
	if writes && u.before {
		return errUnsure
	}
	if err := u.memory.Batch(ctx, ops...); err != nil {
		return err
	}
	if writes && u.after {
		return errUnsure
	}
	return nil
}

// Whatever fails, and whenever the process is killed: a span that is not done comes again, as one that was sent only if it was,
// and once all are done and that was written, nothing is left.
func TestStatesWhateverFails(t *testing.T) {
	for seed := range uint64(3 / sample.Every(3)) {
		r := rand.New(rand.NewPCG(seed, 7))
		u := &unsure{memory: newMemory()}
		want := map[string]state{} // by the name of a span that was acknowledged
		tickets := map[string]Ticket{}
		var j *Journal
		open := func() {
			u.before, u.after = false, false
			var err error
			j, err = Open(t.Context(), u, zap.NewNop())
			require.NoError(t, err)
			clear(tickets)
			require.NoError(t, j.Replay(t.Context(), func(rep *Replayed) error {
				i := 0
				for _, rs := range rep.Traces.ResourceSpans().All() {
					for _, ss := range rs.ScopeSpans().All() {
						for _, s := range ss.Spans().All() {
							name := s.Name()
							if st, ok := want[name]; ok {
								if rep.Sent(i) {
									require.NotZero(t, st&sent, "seed %d: %s was not sent", seed, name)
								}
							}
							tickets[name] = rep.Tickets(i)
							i++
						}
					}
				}
				return nil
			}))
			for name, st := range want {
				if st != done {
					require.Contains(t, tickets, name, "seed %d: lost", seed)
				}
			}
		}
		open()
		n := 0
		for range 60 {
			u.before, u.after = r.IntN(6) == 0, r.IntN(6) == 0
			switch r.IntN(8) {
			case 0, 1:
				u.after = false // a call that was written and refused is no one's
				var names []string
				for range 1 + r.IntN(2500)*r.IntN(2) {
					names = append(names, fmt.Sprint(seed, "-", n))
					n++
				}
				get, err := j.Put(t.Context(), t0, nil, tracesOf(names...))
				if err != nil {
					continue
				}
				for i, name := range names {
					want[name], tickets[name] = 0, get(i)
				}
			case 2:
				if r.IntN(2) == 0 {
					_ = j.Close(t.Context())
				}
				open()
			default:
				as := []state{sent, free, done}[r.IntN(3)]
				var some []Ticket
				names := make([]string, 0, len(tickets))
				for name := range tickets {
					names = append(names, name)
				}
				slices.Sort(names)
				all := r.IntN(3) == 0
				for _, name := range names {
					if all || r.IntN(10) == 0 {
						some = append(some, tickets[name])
						want[name] |= as
					}
				}
				_ = j.mark(t.Context(), some, as)
			}
		}
		open()
		var rest []Ticket
		for _, ticket := range tickets {
			rest = append(rest, ticket)
		}
		require.NoError(t, j.Delete(t.Context(), rest))
		require.Empty(t, u.keys(), "seed %d", seed)
		require.NoError(t, j.Close(t.Context()))
	}
}

// States that were written though the storage reported an error go with their entry.
func TestUnsureStatesGo(t *testing.T) {
	u := &unsure{memory: newMemory()}
	j, err := Open(t.Context(), u, zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, j.Replay(t.Context(), func(*Replayed) error { return nil }))
	get, err := j.Put(t.Context(), t0, nil, tracesOf("a", "b"))
	require.NoError(t, err)
	u.after = true
	require.ErrorIs(t, j.Sent(t.Context(), []Ticket{get(0)}), errUnsure)
	u.after = false
	require.NoError(t, j.Delete(t.Context(), []Ticket{get(0), get(1)}))
	assert.Empty(t, u.keys())
}
