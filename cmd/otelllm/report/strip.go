package report

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// Strip returns a copy of td with nothing that a [Record] may not have: of the resource its
// service.name, of each span its ids, kind, times and status, and the attributes and events of
// records. A span that is no run, request or tool keeps its place in the trace and loses its
// name. Messages of a status, links and trace states are left out.
func Strip(td ptrace.Traces) ptrace.Traces {
	out := ptrace.NewTraces()
	for _, rs := range td.ResourceSpans().All() {
		into := out.ResourceSpans().AppendEmpty()
		if v, ok := rs.Resource().Attributes().Get(serviceName); ok {
			into.Resource().Attributes().PutStr(serviceName, v.AsString())
		}
		for _, ss := range rs.ScopeSpans().All() {
			scope := into.ScopeSpans().AppendEmpty()
			scope.Scope().SetName(ss.Scope().Name())
			for _, span := range ss.Spans().All() {
				strip(rs.Resource(), ss.Scope(), span, scope.Spans().AppendEmpty())
			}
		}
	}
	return out
}

func strip(resource pcommon.Resource, scope pcommon.InstrumentationScope, from, to ptrace.Span) {
	to.SetTraceID(from.TraceID())
	to.SetSpanID(from.SpanID())
	to.SetParentSpanID(from.ParentSpanID())
	to.SetKind(from.Kind())
	to.SetStartTimestamp(from.StartTimestamp())
	to.SetEndTimestamp(from.EndTimestamp())
	to.Status().SetCode(from.Status().Code())
	if recorded(resource, scope, from) {
		to.SetName(from.Name())
	}
	stripAttributes(from.Attributes(), to.Attributes())
	for _, e := range from.Events().All() {
		if !recordEvents[e.Name()] {
			continue
		}
		event := to.Events().AppendEmpty()
		event.SetName(e.Name())
		event.SetTimestamp(e.Timestamp())
		stripAttributes(e.Attributes(), event.Attributes())
	}
}

// recorded reports whether a span is in a record.
func recorded(resource pcommon.Resource, scope pcommon.InstrumentationScope, span ptrace.Span) bool {
	if _, ok := span.Attributes().Get(string(semconv.RunOutcomeKey)); ok {
		return true
	}
	return kindIn(resource, scope, span) != kindOther
}

func stripAttributes(from, to pcommon.Map) {
	for key, value := range from.All() {
		if recordKeys[key] {
			value.CopyTo(to.PutEmpty(key))
		}
	}
}
