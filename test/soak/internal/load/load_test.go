package load

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

var pace = Pace{Turn: 250 * time.Millisecond, MaxHold: 2 * time.Second, SpanLimit: 20}

// bytesOf returns the encoded trace.
func bytesOf(t *testing.T, tr *Trace) []byte {
	t.Helper()
	td := ptrace.NewTraces()
	spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for i := range tr.Spans {
		tr.Spans[i].CopyTo(spans.AppendEmpty())
	}
	data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	require.NoError(t, err)
	return data
}

func TestASeedMakesTheSameTraces(t *testing.T) {
	for n := range uint64(50) {
		a, b, other := New(7, n, pace), New(7, n, pace), New(8, n, pace)
		assert.Equal(t, bytesOf(t, &a), bytesOf(t, &b))
		assert.Equal(t, a.Runs, b.Runs)
		assert.NotEqual(t, bytesOf(t, &a), bytesOf(t, &other))
	}
}

func TestTraces(t *testing.T) {
	shapesSeen, ids := make(map[string]int), make(map[pcommon.SpanID]bool)
	nested, several, late, huge := 0, 0, 0, 0
	for n := range uint64(1000) {
		tr := New(1, n, pace)
		shapesSeen[tr.Shape]++
		plans, spans := make(map[pcommon.SpanID]Plan), make(map[pcommon.SpanID]int)
		for _, p := range tr.Runs {
			plans[p.ID] = p
		}
		for i := range tr.Spans {
			s := &tr.Spans[i]
			require.Equal(t, tr.ID, s.TraceID())
			require.False(t, ids[s.SpanID()], "an id is used twice")
			ids[s.SpanID()] = true
			require.Less(t, s.StartTimestamp(), s.EndTimestamp())
			require.True(t, i == 0 || tr.Spans[i-1].At <= s.At, "spans are ordered by the time at which they are sent")
			if s.Role == Other {
				require.True(t, s.RunID.IsEmpty())
				continue
			}
			p, ok := plans[s.RunID]
			require.True(t, ok, "its run is planned")
			require.Equal(t, s.Role == Run, p.Ends && s.SpanID() == p.ID)
			if s.Late {
				late++
				continue
			}
			spans[s.RunID]++
		}
		for id, p := range plans {
			require.Equal(t, p.Spans, spans[id], "%s: the number of spans matches the plan", tr.Shape)
			if p.Spans > pace.SpanLimit {
				huge++
			}
		}
		switch {
		case tr.Shape == "nested" && len(tr.Runs) > 1:
			nested++
		case tr.Shape == "several runs":
			several++
			require.Greater(t, len(tr.Runs), 1)
		}
	}
	for _, shape := range Shapes() {
		assert.Positive(t, shapesSeen[shape], shape)
	}
	assert.Positive(t, nested)
	assert.Positive(t, several)
	assert.Positive(t, late)
	assert.Positive(t, huge)
	total := 0
	for _, s := range shapes {
		total += s.weight
	}
	assert.Equal(t, 100, total)
}
