package runs

import (
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// request is a model call in a trace.
func request(trace, n int) ptrace.Traces {
	td := ptrace.NewTraces()
	s := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
	var id pcommon.TraceID
	binary.BigEndian.PutUint64(id[:], uint64(trace))
	var spanID pcommon.SpanID
	binary.BigEndian.PutUint64(spanID[:], uint64(n)+1)
	s.SetTraceID(id)
	s.SetSpanID(spanID)
	s.SetStartTimestamp(pcommon.Timestamp(1_700_000_000_000_000_000 + int64(n)))
	s.Attributes().PutStr("gen_ai.operation.name", "chat")
	return td
}

func TestStoreKeepsTheNewest(t *testing.T) {
	s := NewStore(10, nil)
	for i := range 25 {
		changed := s.Changed()
		s.Add(request(i, i))
		select {
		case <-changed:
		default:
			t.Fatal("a change is not reported")
		}
	}
	records := s.Records()
	require.Len(t, records, 10)
	assert.Equal(t, 15, s.Dropped())
	for i := 1; i < len(records); i++ {
		assert.False(t, records[i-1].Start.Before(records[i].Start), "the newest first")
	}
	s.Add(request(15, 30)) // the oldest trace changes, and stays
	for i := range 8 {
		s.Add(request(100+i, 40+i))
	}
	assert.Equal(t, 3, countTrace(s, request(15, 0))+countTrace(s, request(107, 0)), "2 spans of the one, 1 of the other")
}

func countTrace(s *Store, td ptrace.Traces) (n int) {
	id := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).TraceID().String()
	for _, r := range s.Records() {
		if r.TraceID == id {
			n++
		}
	}
	return n
}

// Every record is either there or has been given away.
func TestStoreGivesAwayWhatItForgets(t *testing.T) {
	given := make(map[string]int)
	s := NewStore(10, func(records []report.Record) {
		for i := range records {
			given[records[i].SpanID]++
		}
	})
	for i := range 100 {
		s.Add(request(i/2, i))
	}
	assert.Len(t, given, 90)
	assert.Zero(t, s.Cut())
	for _, r := range s.Records() {
		given[r.SpanID]++
	}
	assert.Len(t, given, 100)
	for id, n := range given {
		assert.Equal(t, 1, n, id)
	}
}

// One trace without end takes no more than many.
func TestStoreBoundsOneTrace(t *testing.T) {
	s := NewStore(100, nil)
	for i := range 1000 {
		s.Add(request(1, i))
		require.LessOrEqual(t, s.spans, 100)
	}
	records := s.Records()
	assert.NotEmpty(t, records)
	assert.LessOrEqual(t, len(records), 100)
	assert.Equal(t, 1000, s.Dropped()+s.spans)
	assert.Equal(t, s.Dropped(), s.Cut())
}

// The work for a span, and for the records of what has not changed, does not grow with what is
// there.
func TestStoreIsLinear(t *testing.T) {
	fill := func(n int) time.Duration {
		best := time.Hour
		for range 3 {
			s := NewStore(1<<20, nil)
			begin := time.Now()
			for i := range n {
				s.Add(request(i/4, i))
			}
			require.Len(t, s.Records(), n)
			best = min(best, time.Since(begin))
		}
		return best
	}
	small, large := fill(1000), fill(16_000)
	assert.Less(t, large, 80*small, "16 times as many spans took %s instead of %s", large, small)
}

func TestStoreConcurrently(t *testing.T) {
	s := NewStore(50, nil)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 200 {
				s.Add(request(w*1000+i/3, i))
				s.Records()
				s.Dropped()
			}
		})
	}
	all.Wait()
	assert.Equal(t, 4*200, s.Dropped()+s.spans)
}
