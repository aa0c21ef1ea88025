package origin

import "go.opentelemetry.io/collector/pdata/ptrace"

// Regroup builds traces of spans from any origins, with each resource, and each scope of it, once.
type Regroup struct {
	traces    ptrace.Traces
	resources map[*Resource]ptrace.ResourceSpans
	scopes    map[*Scope]ptrace.SpanSlice

	bytes int // of the resources and scopes

	last      *Scope // spans of one scope mostly follow one another
	lastSpans ptrace.SpanSlice
}

// NewRegroup makes traces without spans.
func NewRegroup() *Regroup {
	return &Regroup{
		traces:    ptrace.NewTraces(),
		resources: make(map[*Resource]ptrace.ResourceSpans, 1),
		scopes:    make(map[*Scope]ptrace.SpanSlice, 1),
	}
}

// Append adds an empty span of this scope.
func (r *Regroup) Append(scope *Scope) ptrace.Span {
	if scope != r.last {
		r.last, r.lastSpans = scope, r.spans(scope)
	}
	return r.lastSpans.AppendEmpty()
}

// Bytes is the estimated memory of the resources and scopes.
func (r *Regroup) Bytes() int { return r.bytes }

// Traces returns the traces built so far.
func (r *Regroup) Traces() ptrace.Traces { return r.traces }

func (r *Regroup) spans(scope *Scope) ptrace.SpanSlice {
	if spans, ok := r.scopes[scope]; ok {
		return spans
	}
	rs, ok := r.resources[scope.Resource]
	if !ok {
		rs = r.traces.ResourceSpans().AppendEmpty()
		rs.SetSchemaUrl(scope.Resource.schemaURL)
		scope.Resource.resource.CopyTo(rs.Resource())
		r.resources[scope.Resource] = rs
		r.bytes += scope.Resource.size
	}
	ss := rs.ScopeSpans().AppendEmpty()
	ss.SetSchemaUrl(scope.schemaURL)
	scope.scope.CopyTo(ss.Scope())
	r.scopes[scope] = ss.Spans()
	r.bytes += scope.size
	return ss.Spans()
}
