package report

import (
	"encoding/hex"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/semconv"
)

// Traces returns the spans of which a record was made, with what the record has of them. Its ids
// may be foreign: a span whose own ids are no ids is left out.
func (r *Record) Traces() ptrace.Traces {
	td := ptrace.NewTraces()
	for i, one := range slices.Concat([]Record{*r}, r.Requests, r.Tools, r.Served) {
		if i > 0 && one.SpanID == r.SpanID { // the run is represented by its only request
			continue
		}
		one.span(td)
	}
	return td
}

// span adds the record's own span to td.
func (r *Record) span(td ptrace.Traces) {
	var trace pcommon.TraceID
	var id, parent pcommon.SpanID
	if !readID(trace[:], r.TraceID) || !readID(id[:], r.SpanID) {
		return
	}
	readID(parent[:], r.ParentID)
	rs := td.ResourceSpans().AppendEmpty()
	if r.Service != "" {
		rs.Resource().Attributes().PutStr(serviceName, r.Service)
	}
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName(r.Scope)
	span := ss.Spans().AppendEmpty()
	span.SetTraceID(trace)
	span.SetSpanID(id)
	span.SetParentSpanID(parent)
	span.SetName(r.Name)
	span.SetKind(spanKinds[r.SpanKind])
	span.SetStartTimestamp(pcommon.NewTimestampFromTime(r.Start))
	span.SetEndTimestamp(pcommon.NewTimestampFromTime(r.End))
	if r.Failed {
		span.Status().SetCode(ptrace.StatusCodeError)
	}
	putValues(span.Attributes(), r.Attributes)
	for _, e := range r.Events {
		event := span.Events().AppendEmpty()
		event.SetName(e.Name)
		event.SetTimestamp(pcommon.NewTimestampFromTime(e.Time))
		putValues(event.Attributes(), e.Attributes)
	}
}

// readID reads an id, and reports whether it is one.
func readID(into []byte, id string) bool {
	if len(id) != hex.EncodedLen(len(into)) {
		return false
	}
	_, err := hex.Decode(into, []byte(id))
	return err == nil
}

// spanKinds are the names of kinds in a record.
var spanKinds = map[string]ptrace.SpanKind{
	"internal": ptrace.SpanKindInternal, "server": ptrace.SpanKindServer, "client": ptrace.SpanKindClient,
	"producer": ptrace.SpanKindProducer, "consumer": ptrace.SpanKindConsumer,
}

// nameOfKind returns the name of a kind; "" for an unknown one.
func nameOfKind(kind ptrace.SpanKind) string {
	for name, k := range spanKinds {
		if k == kind {
			return name
		}
	}
	return ""
}

// durations are the attributes of the vocabulary that are no whole numbers, though JSON may write
// them as such.
var durations = keySet(
	semconv.WatchdogLimitKey, semconv.RetryAfterKey, semconv.StreamTimeToHeadersKey, semconv.StreamLastProgressKey,
	semconv.StreamLongestGapKey, semconv.ConnectionIdleKey,
)

// putValues writes the attributes of a record into an empty map.
func putValues(to pcommon.Map, attrs map[string]any) {
	for key, value := range attrs {
		if !recordKeys[key] {
			continue
		}
		if number, ok := value.(float64); ok && !durations[key] && number == float64(int64(number)) {
			value = int64(number)
		}
		if to.PutEmpty(key).FromRaw(value) != nil {
			to.Remove(key) // of no type that an attribute has
		}
	}
}
