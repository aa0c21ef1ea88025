package judge

import (
	"encoding/binary"
	"strconv"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/dialect"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/origin"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/trace"
	"github.com/otelllm/otelllm-go/semconv"
)

func idOf(n int) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], uint64(n)) //nolint:gosec // small
	return id
}

// releaseOf is a release of n spans in a run, whose span is the first one. change sets what
// the others are; span n has the id n.
func releaseOf(n int, change func(i int, m *trace.Member, f *dialect.Facts)) *trace.Release {
	from := &origin.Scope{Resource: &origin.Resource{Key: [16]byte{1}}}
	release := &trace.Release{Reason: trace.Complete, Final: true, RunID: idOf(1), Named: true, Members: make([]trace.Member, n)}
	for i := range n {
		m := &release.Members[i]
		*m = trace.Member{Item: &trace.Item{
			ID: idOf(i + 1), Parent: idOf(1), Run: idOf(1), Start: at(i), End: at(i + 1), Known: trace.Known{Origin: from},
		}, Out: true, Span: ptrace.NewSpan()}
		var facts dialect.Facts
		if i == 0 {
			m.Role, m.Run, m.Parent, m.End = trace.Run, pcommon.SpanID{}, pcommon.SpanID{}, at(2*n)
			facts = dialect.Facts{Run: &classify.Run{Start: t0, End: at(2 * n).AsTime(), Ended: classify.Yes, Failed: classify.Yes}}
			release.Run = m.Item
		} else {
			facts = request(*overloaded.Request)
			change(i, m, &facts)
		}
		if facts.Request != nil {
			facts.Request.Start, facts.Request.End = m.Start.AsTime(), m.End.AsTime()
		}
		if facts.Tool != nil {
			m.Role = trace.Tool
			facts.Tool.Start, facts.Tool.End = m.Start.AsTime(), m.End.AsTime()
		}
		m.Known.Reading = dialect.Reading{Dialect: given{facts: facts}}
	}
	return release
}

func aTool(callID string) dialect.Facts {
	return dialect.Facts{Tool: &classify.Tool{CallID: callID, Name: "bash", Outcome: semconv.ToolOutcomeSucceeded}}
}

var benchmarks = []struct {
	name    string
	release func(n int) *trace.Release
}{
	{"requests that fail", func(n int) *trace.Release {
		return releaseOf(n, func(int, *trace.Member, *dialect.Facts) {})
	}},
	{"requests and tools", func(n int) *trace.Release {
		return releaseOf(n, func(i int, _ *trace.Member, f *dialect.Facts) {
			if *f = request(*stopped.Request); i%2 == 0 {
				*f = aTool("call_" + strconv.Itoa(i))
			}
		})
	}},
	{"a gateway beneath each request", func(n int) *trace.Release {
		gateway := &origin.Scope{Resource: &origin.Resource{Key: [16]byte{2}}}
		return releaseOf(n, func(i int, m *trace.Member, _ *dialect.Facts) {
			if i%2 == 0 {
				m.Run, m.Above, m.Known.Origin = pcommon.SpanID{}, idOf(i), gateway
			}
		})
	}},
	{"a gateway meanwhile", func(n int) *trace.Release {
		gateway := &origin.Scope{Resource: &origin.Resource{Key: [16]byte{2}}}
		return releaseOf(n, func(i int, m *trace.Member, _ *dialect.Facts) {
			if m.Start, m.End = at(1), at(2); i%2 == 0 {
				m.Run, m.Known.Origin, m.Parent = pcommon.SpanID{}, gateway, idOf(n+i)
			}
		})
	}},
	{"a chain", func(n int) *trace.Release {
		return releaseOf(n, func(i int, m *trace.Member, _ *dialect.Facts) {
			if i > 1 {
				m.Run, m.Above, m.Known.Server = pcommon.SpanID{}, idOf(i), true
			}
		})
	}},
	{"attempts of one call", func(n int) *trace.Release {
		release := releaseOf(n, func(i int, m *trace.Member, _ *dialect.Facts) {
			if m.Run = (pcommon.SpanID{}); i > 1 {
				m.Above = idOf(2)
			}
		})
		release.Run, release.Named, release.Members = nil, false, release.Members[1:]
		return release
	}},
	{"tools beneath one another", func(n int) *trace.Release {
		return releaseOf(n, func(i int, m *trace.Member, f *dialect.Facts) {
			if *f = aTool("call"); i > 1 {
				m.Run, m.Above = pcommon.SpanID{}, idOf(i)
			}
		})
	}},
	{"observed tools of one name", func(n int) *trace.Release {
		return releaseOf(n, func(i int, m *trace.Member, f *dialect.Facts) {
			if *f = aTool(""); i > n/2 {
				m.Run, m.Start, m.End = idOf(n+1), at(2*n), at(2*n+i)
			}
		})
	}},
	{"observed calls of one id", func(n int) *trace.Release {
		return releaseOf(n, func(i int, m *trace.Member, f *dialect.Facts) {
			*f, m.Run = aTool("call"), idOf(n+1)
			m.Start, m.End = at(n-i), at(n-i)+1
			m.Start, m.End = m.Start*2, m.End*2
		})
	}},
}

// BenchmarkDiagnose shows what a release costs for each of its spans, by its shape. The
// cost stays nearly the same, however large the release is.
func BenchmarkDiagnose(b *testing.B) {
	for _, shape := range benchmarks {
		for _, n := range []int{1_000, 10_000, 100_000} {
			b.Run(shape.name+"/"+strconv.Itoa(n), func(b *testing.B) {
				release := shape.release(n)
				var j Judge
				b.ReportAllocs()
				for b.Loop() {
					j.Diagnose(release, trace.Inner{})
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/span")
			})
		}
	}
}
