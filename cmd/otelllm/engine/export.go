package engine

import (
	"context"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// NewExporter returns an exporter of the OpenTelemetry SDK that hands spans to e. Shutting it
// down leaves e running.
func (e *Engine) NewExporter() sdktrace.SpanExporter { return exporter{e} }

// exporter gives the SDK's spans to an Engine.
type exporter struct{ engine *Engine }

// ExportSpans implements sdktrace.SpanExporter.
func (x exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	td := ptrace.NewTraces()
	resources := make(map[attribute.Distinct]ptrace.ResourceSpans)
	scopes := make(map[attribute.Distinct]map[instrumentation.Scope]ptrace.SpanSlice)
	for _, from := range spans {
		resource := from.Resource().Equivalent()
		rs, ok := resources[resource]
		if !ok {
			rs = td.ResourceSpans().AppendEmpty()
			rs.SetSchemaUrl(from.Resource().SchemaURL())
			PutAttributes(rs.Resource().Attributes(), from.Resource().Attributes())
			resources[resource], scopes[resource] = rs, make(map[instrumentation.Scope]ptrace.SpanSlice)
		}
		scope := from.InstrumentationScope()
		list, ok := scopes[resource][scope]
		if !ok {
			ss := rs.ScopeSpans().AppendEmpty()
			ss.SetSchemaUrl(scope.SchemaURL)
			ss.Scope().SetName(scope.Name)
			ss.Scope().SetVersion(scope.Version)
			PutAttributes(ss.Scope().Attributes(), scope.Attributes.ToSlice())
			list = ss.Spans()
			scopes[resource][scope] = list
		}
		put(list.AppendEmpty(), from)
	}
	return x.engine.ConsumeTraces(ctx, td)
}

// Shutdown implements sdktrace.SpanExporter.
func (exporter) Shutdown(context.Context) error { return nil }

// put writes a span of the SDK into one of OTLP.
func put(to ptrace.Span, from sdktrace.ReadOnlySpan) {
	to.SetName(from.Name())
	to.SetStartTimestamp(pcommon.NewTimestampFromTime(from.StartTime()))
	to.SetEndTimestamp(pcommon.NewTimestampFromTime(from.EndTime()))
	PutContext(to, from.SpanContext(), from.Parent())
	PutKind(to, from.SpanKind())
	PutStatus(to, from.Status().Code, from.Status().Description)
	PutAttributes(to.Attributes(), from.Attributes())
	to.SetDroppedAttributesCount(count(from.DroppedAttributes()))
	for _, e := range from.Events() {
		event := to.Events().AppendEmpty()
		event.SetName(e.Name)
		event.SetTimestamp(pcommon.NewTimestampFromTime(e.Time))
		PutAttributes(event.Attributes(), e.Attributes)
	}
	to.SetDroppedEventsCount(count(from.DroppedEvents()))
	for _, l := range from.Links() {
		PutLink(to, l.SpanContext, l.Attributes)
	}
	to.SetDroppedLinksCount(count(from.DroppedLinks()))
}

func count(n int) uint32 {
	return uint32(max(0, n)) //nolint:gosec // far below 1<<32
}

// PutContext writes the ids of a span and of its parent, which need not be valid.
func PutContext(to ptrace.Span, span, parent trace.SpanContext) {
	to.SetTraceID(pcommon.TraceID(span.TraceID()))
	to.SetSpanID(pcommon.SpanID(span.SpanID()))
	to.SetParentSpanID(pcommon.SpanID(parent.SpanID()))
	to.SetFlags(flags(span, parent.IsRemote()))
	if state := span.TraceState(); state.Len() > 0 {
		to.TraceState().FromRaw(state.String())
	}
}

// Bits of OTLP's span flags, above those of W3C.
const hasRemote, isRemote = 0x100, 0x200

func flags(span trace.SpanContext, remote bool) uint32 {
	bits := uint32(span.TraceFlags()) | hasRemote
	if remote {
		bits |= isRemote
	}
	return bits
}

// HasRemoteParent reports whether the parent of a span is known to be in another process.
func HasRemoteParent(s ptrace.Span) bool { return s.Flags()&isRemote != 0 }

// PutKind writes the kind of a span. OTLP counts the kinds as the SDK does.
func PutKind(to ptrace.Span, kind trace.SpanKind) {
	to.SetKind(ptrace.SpanKind(kind)) //nolint:gosec // six small numbers
}

// PutStatus writes the status of a span. OTLP numbers the codes in another order than the SDK.
func PutStatus(to ptrace.Span, code codes.Code, message string) {
	switch code {
	case codes.Ok:
		to.Status().SetCode(ptrace.StatusCodeOk)
	case codes.Error:
		to.Status().SetCode(ptrace.StatusCodeError)
		to.Status().SetMessage(message)
	case codes.Unset:
	}
}

// PutLink adds a link to a span.
func PutLink(to ptrace.Span, context trace.SpanContext, attrs []attribute.KeyValue) {
	link := to.Links().AppendEmpty()
	link.SetTraceID(pcommon.TraceID(context.TraceID()))
	link.SetSpanID(pcommon.SpanID(context.SpanID()))
	link.SetFlags(flags(context, context.IsRemote()))
	if state := context.TraceState(); state.Len() > 0 {
		link.TraceState().FromRaw(state.String())
	}
	PutAttributes(link.Attributes(), attrs)
}

// PutAttributes writes attributes into a map. The last one of a key counts.
func PutAttributes(to pcommon.Map, attrs []attribute.KeyValue) {
	to.EnsureCapacity(len(attrs))
	for i := range attrs {
		key, value := string(attrs[i].Key), attrs[i].Value
		switch value.Type() {
		case attribute.BOOL:
			to.PutBool(key, value.AsBool())
		case attribute.INT64:
			to.PutInt(key, value.AsInt64())
		case attribute.FLOAT64:
			to.PutDouble(key, value.AsFloat64())
		case attribute.STRING:
			to.PutStr(key, value.AsString())
		default:
			putSlice(to.PutEmptySlice(key), value)
		}
	}
}

func putSlice(to pcommon.Slice, value attribute.Value) {
	switch value.Type() {
	case attribute.BOOLSLICE:
		for _, v := range value.AsBoolSlice() {
			to.AppendEmpty().SetBool(v)
		}
	case attribute.INT64SLICE:
		for _, v := range value.AsInt64Slice() {
			to.AppendEmpty().SetInt(v)
		}
	case attribute.FLOAT64SLICE:
		for _, v := range value.AsFloat64Slice() {
			to.AppendEmpty().SetDouble(v)
		}
	case attribute.STRINGSLICE:
		for _, v := range value.AsStringSlice() {
			to.AppendEmpty().SetStr(v)
		}
	default: // kinds that the conventions of model calls do not have
	}
}
