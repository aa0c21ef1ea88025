package harness

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/golden"
	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/ptracetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// Testdata is a path below the processor's testdata, for the packages of internal.
func Testdata(path ...string) string {
	return filepath.Join("..", "..", "testdata", filepath.Join(path...))
}

var update = flag.Bool("update", false, "write the golden files")

// CheckVerdicts demands these verdicts of the spans, and none of the others.
func CheckVerdicts(t *testing.T, out ptrace.Traces, want map[byte]Verdict) {
	t.Helper()
	for id, span := range SpansOf(out) {
		assert.Equal(t, want[id[7]], VerdictOf(span), "%s (span %d)", span.Name(), id[7])
		if v := VerdictOf(span); v.Class != semconv.ClassUnset {
			summary, ok := span.Attributes().Get(string(semconv.FailureSummaryKey))
			assert.True(t, ok)
			assert.NotEmpty(t, summary.Str())
		}
	}
	for id := range want {
		assert.Contains(t, SpansOf(out), SpanID(id))
	}
}

// merged is td with each resource and each scope once, however many calls it came out in.
func merged(td ptrace.Traces) ptrace.Traces {
	all := ptrace.NewTraces()
	for _, rs := range td.ResourceSpans().All() {
		resource, found := rs, false
		for _, before := range all.ResourceSpans().All() {
			if before.SchemaUrl() == rs.SchemaUrl() && before.Resource().Attributes().Equal(rs.Resource().Attributes()) {
				resource, found = before, true
			}
		}
		if !found {
			resource = all.ResourceSpans().AppendEmpty()
			rs.Resource().CopyTo(resource.Resource())
			resource.SetSchemaUrl(rs.SchemaUrl())
		}
		for _, ss := range rs.ScopeSpans().All() {
			scope, found := ss, false
			for _, before := range resource.ScopeSpans().All() {
				if before.SchemaUrl() == ss.SchemaUrl() && before.Scope().Name() == ss.Scope().Name() && before.Scope().Version() == ss.Scope().Version() {
					scope, found = before, true
				}
			}
			if !found {
				scope = resource.ScopeSpans().AppendEmpty()
				ss.Scope().CopyTo(scope.Scope())
				scope.SetSchemaUrl(ss.SchemaUrl())
			}
			for _, span := range ss.Spans().All() {
				span.CopyTo(scope.Spans().AppendEmpty())
			}
		}
	}
	return all
}

// CheckGolden compares a trace, as it goes in and as it comes out, with testdata.
func CheckGolden(t *testing.T, name string, in, out ptrace.Traces) {
	t.Helper()
	for _, f := range []struct {
		file string
		td   ptrace.Traces
	}{{"in.yaml", in}, {"out.yaml", out}} {
		path := Testdata("traces", name, f.file)
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			sortAttributes(f.td)
			require.NoError(t, golden.WriteTracesToFile(path, f.td))
		}
		want, err := golden.ReadTraces(path)
		require.NoError(t, err)
		assert.NoError(t, ptracetest.CompareTraces(merged(want), merged(f.td),
			ptracetest.IgnoreResourceSpansOrder(), ptracetest.IgnoreScopeSpansOrder(), ptracetest.IgnoreSpansOrder()), path)
	}
}

func sortAttributes(td ptrace.Traces) {
	for _, span := range SpansOf(td) {
		sorted := pcommon.NewMap()
		raw := span.Attributes().AsRaw()
		keys := make([]string, 0, len(raw))
		for key := range raw {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			v, _ := span.Attributes().Get(key)
			v.CopyTo(sorted.PutEmpty(key))
		}
		sorted.CopyTo(span.Attributes())
	}
}
