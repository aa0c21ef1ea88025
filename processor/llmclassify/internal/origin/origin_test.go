package origin

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func from(service, scope string) (ptrace.ResourceSpans, ptrace.ScopeSpans) {
	rs := ptrace.NewResourceSpans()
	rs.SetSchemaUrl("https://example.com/resource")
	rs.Resource().Attributes().PutStr("service.name", service)
	ss := rs.ScopeSpans().AppendEmpty()
	ss.SetSchemaUrl("https://example.com/scope")
	ss.Scope().SetName(scope)
	ss.Scope().SetVersion("1")
	return rs, ss
}

func TestIntern(t *testing.T) {
	table := NewTable(time.Minute, 1<<20)
	a := intern(table, t0, "a", "x")
	assert.Same(t, a, intern(table, t0, "a", "x"))
	other := intern(table, t0, "a", "y")
	assert.NotSame(t, a, other)
	assert.Same(t, a.Resource, other.Resource, "two scopes of one resource")
	b := intern(table, t0, "b", "x")
	assert.NotSame(t, a.Resource, b.Resource)
	assert.NotEqual(t, a.Resource.Key, b.Resource.Key)
}

func intern(table *Table, now time.Time, service, scope string) *Scope {
	rs, ss := from(service, scope)
	return table.Intern(now, rs, ss)
}

// What is equal in its attributes and differs in anything else is not one.
func TestInternTellsApart(t *testing.T) {
	table := NewTable(time.Minute, 1<<20)
	seen := map[*Scope]bool{}
	for _, change := range []func(ptrace.ResourceSpans, ptrace.ScopeSpans){
		func(ptrace.ResourceSpans, ptrace.ScopeSpans) {},
		func(rs ptrace.ResourceSpans, _ ptrace.ScopeSpans) { rs.SetSchemaUrl("") },
		func(rs ptrace.ResourceSpans, _ ptrace.ScopeSpans) { rs.Resource().SetDroppedAttributesCount(1) },
		func(_ ptrace.ResourceSpans, ss ptrace.ScopeSpans) { ss.SetSchemaUrl("") },
		func(_ ptrace.ResourceSpans, ss ptrace.ScopeSpans) { ss.Scope().SetVersion("2") },
		func(_ ptrace.ResourceSpans, ss ptrace.ScopeSpans) { ss.Scope().SetDroppedAttributesCount(1) },
		func(_ ptrace.ResourceSpans, ss ptrace.ScopeSpans) { ss.Scope().Attributes().PutInt("a", 1) },
	} {
		rs, ss := from("a", "x")
		change(rs, ss)
		scope := table.Intern(t0, rs, ss)
		assert.False(t, seen[scope])
		seen[scope] = true
	}
}

func TestInternForgets(t *testing.T) {
	table := NewTable(time.Minute, 1<<20)
	a := intern(table, t0, "a", "x")
	kept := intern(table, t0.Add(time.Minute), "a", "x")
	assert.Same(t, a, kept, "asked for within a period")
	intern(table, t0.Add(2*time.Minute), "b", "x")
	intern(table, t0.Add(3*time.Minute), "b", "x")
	anew := intern(table, t0.Add(3*time.Minute), "a", "x")
	assert.NotSame(t, a, anew)

	for i := range 1000 {
		intern(table, t0.Add(3*time.Minute), "a", strconv.Itoa(i))
		require.LessOrEqual(t, table.Bytes(), 1<<20)
	}
	table.Rotate(t0.Add(4 * time.Minute))
	table.Rotate(t0.Add(5 * time.Minute))
	assert.Zero(t, table.Bytes(), "time alone empties it")
}

// A resource that has no room is not shared, and a table of large ones stays small.
func TestInternLargeResources(t *testing.T) {
	table := NewTable(time.Minute, 1<<20)
	for i := range 100 {
		rs, ss := from("a", "x")
		rs.Resource().Attributes().PutStr("large", strings.Repeat(strconv.Itoa(i), 100_000))
		scope := table.Intern(t0, rs, ss)
		assert.Greater(t, scope.Size(), 100_000)
		require.LessOrEqual(t, table.Bytes(), 1<<20)

		slim := scope.Slim()
		assert.Same(t, slim, scope.Slim())
		assert.LessOrEqual(t, slim.Size(), maxSlim)
		assert.Equal(t, scope.Resource.Key, slim.Resource.Key)
		assert.Equal(t, map[string]any{"service.name": "a"}, slim.Resource.resource.Attributes().AsRaw())
		assert.EqualValues(t, 1, slim.Resource.resource.DroppedAttributesCount())
	}
	small := intern(table, t0, "a", "x")
	assert.Same(t, small, small.Slim())

	rs, ss := from(strings.Repeat("s", 1<<20), strings.Repeat("n", 1<<20))
	ss.SetSchemaUrl(strings.Repeat("u", 1<<20))
	scope := table.Intern(t0, rs, ss)
	assert.Greater(t, scope.Size(), 3<<20)
	assert.LessOrEqual(t, scope.Slim().Size(), maxSlim)
}

// Each resource and scope counts once, for as long as a span has it.
func TestUses(t *testing.T) {
	table := NewTable(time.Minute, 1<<20)
	scopes := []*Scope{intern(table, t0, "a", "x"), intern(table, t0, "a", "y"), intern(table, t0, "b", "x"), nil}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable on purpose
	var u Uses
	var spans []*Scope
	for range 1000 {
		if len(spans) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(spans))
			u.Remove(spans[i])
			spans = slices.Delete(spans, i, i+1)
		} else {
			n := r.IntN(3)
			s := scopes[r.IntN(len(scopes))]
			u.Add(s, n)
			spans = append(spans, slices.Repeat([]*Scope{s}, n)...)
		}
		seen, want := map[any]bool{}, 0
		for _, s := range spans {
			if s != nil && !seen[s] {
				seen[s] = true
				want += s.size
				if !seen[s.Resource] {
					seen[s.Resource] = true
					want += s.Resource.size
				}
			}
		}
		require.Equal(t, want, u.Bytes())
	}
}

// Interned origins are not those of the spans that are forwarded and changed.
func TestInternCopies(t *testing.T) {
	table := NewTable(time.Minute, 1<<20)
	rs, ss := from("a", "x")
	scope := table.Intern(t0, rs, ss)
	rs.Resource().Attributes().PutStr("service.name", "changed")
	ss.Scope().SetName("changed")

	regroup := NewRegroup()
	regroup.Append(scope).SetName("1")
	regroup.Traces().ResourceSpans().At(0).Resource().Attributes().PutStr("service.name", "changed downstream")
	regroup = NewRegroup()
	regroup.Append(scope).SetName("1")
	other := intern(table, t0, "a", "y")
	regroup.Append(other).SetName("2")
	regroup.Append(scope).SetName("3")
	far := intern(table, t0, "b", "x")
	regroup.Append(far).SetName("4")

	td := regroup.Traces()
	require.Equal(t, 2, td.ResourceSpans().Len())
	wantRS, wantSS := from("a", "x")
	got := td.ResourceSpans().At(0)
	assert.Equal(t, wantRS.Resource().Attributes().AsRaw(), got.Resource().Attributes().AsRaw())
	assert.Equal(t, wantRS.SchemaUrl(), got.SchemaUrl())
	require.Equal(t, 2, got.ScopeSpans().Len())
	assert.Equal(t, wantSS.Scope().Name(), got.ScopeSpans().At(0).Scope().Name())
	assert.Equal(t, wantSS.SchemaUrl(), got.ScopeSpans().At(0).SchemaUrl())
	assert.Equal(t, 2, got.ScopeSpans().At(0).Spans().Len())
	assert.Equal(t, "3", got.ScopeSpans().At(0).Spans().At(1).Name())
}

// The estimate is within a third of what the heap says, for small spans and big ones.
func TestSpanSize(t *testing.T) {
	for _, tt := range []struct {
		name                        string
		attrs, length, list, events int
	}{
		{name: "bare"},
		{name: "usual", attrs: 20, length: 12, list: 2},
		{name: "with events", attrs: 20, length: 12, events: 6},
		{name: "long strings", attrs: 8, length: 4000},
		{name: "long lists", attrs: 4, length: 10, list: 64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			td := ptrace.NewTraces()
			span := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans().AppendEmpty()
			span.SetName("chat some-model")
			value := string(make([]byte, tt.length))
			for i := range tt.attrs {
				key := "llm.some.attribute." + strconv.Itoa(i)
				if i < 2 && tt.list > 0 {
					for range tt.list {
						slice, ok := span.Attributes().GetOrPutEmpty(key)
						if !ok {
							slice.SetEmptySlice()
						}
						slice.Slice().AppendEmpty().SetStr(value)
					}
					continue
				}
				span.Attributes().PutStr(key, value)
			}
			for i := range tt.events {
				event := span.Events().AppendEmpty()
				event.SetName("llm.stream.something")
				event.Attributes().PutInt("n"+strconv.Itoa(i), 1)
			}
			data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
			require.NoError(t, err)

			const copies = 300
			held := make([]ptrace.Span, copies)
			before := heap()
			for i := range held {
				td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data)
				require.NoError(t, err)
				held[i] = td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
			}
			actual := float64(heap()-before) / copies
			estimate := float64(SpanSize(held[0]))
			t.Logf("%s: %.0f bytes, estimated %.0f", tt.name, actual, estimate)
			assert.InEpsilon(t, actual, estimate, 1.0/3)
			runtime.KeepAlive(held)
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // far below the limit
}
