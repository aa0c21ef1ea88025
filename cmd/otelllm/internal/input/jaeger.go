package input

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/backend"
)

// jaegerTrace is a trace in the JSON of Jaeger's UI and of its API v2.
type jaegerTrace struct {
	Spans     []jaegerSpan             `json:"spans"`
	Processes map[string]jaegerProcess `json:"processes"`
}

type jaegerSpan struct {
	TraceID       string            `json:"traceID"`
	SpanID        string            `json:"spanID"`
	ParentSpanID  string            `json:"parentSpanID"` // in old versions only
	OperationName string            `json:"operationName"`
	References    []jaegerReference `json:"references"`
	StartTime     int64             `json:"startTime"` // µs since 1970
	Duration      int64             `json:"duration"`  // µs
	Tags          []jaegerTag       `json:"tags"`
	Logs          []struct {
		Timestamp int64       `json:"timestamp"`
		Fields    []jaegerTag `json:"fields"`
	} `json:"logs"`
	ProcessID string `json:"processID"`
}

type jaegerReference struct {
	RefType string `json:"refType"`
	TraceID string `json:"traceID"`
	SpanID  string `json:"spanID"`
}

type jaegerTag struct {
	Key   string          `json:"key"`
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

type jaegerProcess struct {
	ServiceName string      `json:"serviceName"`
	Tags        []jaegerTag `json:"tags"`
}

var errJaeger = errors.New("not Jaeger's JSON: expected data with traces, their spans and processes, as its UI downloads them")

// readJaeger reads the data of Jaeger's JSON: a list of traces.
func readJaeger(data []byte) (ptrace.Traces, error) {
	td := ptrace.NewTraces()
	var traces []jaegerTrace
	if json.Unmarshal(data, &traces) != nil {
		return td, errJaeger
	}
	for i := range traces {
		t := &traces[i]
		places := make(map[[2]string]ptrace.SpanSlice) // by process and scope
		for n := range t.Spans {
			if err := t.Spans[n].read(td, t.Processes, places); err != nil {
				return ptrace.NewTraces(), fmt.Errorf("span %d of trace %d: %w", n+1, i+1, err)
			}
		}
	}
	return td, nil
}

// read adds the span to td.
func (s *jaegerSpan) read(td ptrace.Traces, processes map[string]jaegerProcess, places map[[2]string]ptrace.SpanSlice) error {
	attrs := pcommon.NewMap()
	putTags(attrs, s.Tags)
	scope, version := take(attrs, otelsemconv.OTelScopeNameKey, "otel.library.name"), take(attrs, otelsemconv.OTelScopeVersionKey, "otel.library.version")
	key := [2]string{s.ProcessID, scope + "\x00" + version}
	spans, ok := places[key]
	if !ok {
		rs := td.ResourceSpans().AppendEmpty()
		p := processes[s.ProcessID]
		putTags(rs.Resource().Attributes(), p.Tags)
		rs.Resource().Attributes().PutStr(string(otelsemconv.ServiceNameKey), p.ServiceName)
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName(scope)
		ss.Scope().SetVersion(version)
		spans = ss.Spans()
		places[key] = spans
	}
	span := spans.AppendEmpty()
	if err := s.readIDs(span); err != nil {
		return err
	}
	span.SetName(s.OperationName)
	span.SetStartTimestamp(microseconds(s.StartTime))
	span.SetEndTimestamp(microseconds(s.StartTime + s.Duration))
	span.SetKind(jaegerKinds[take(attrs, "span.kind")])
	setStatus(span, attrs)
	// Jaeger stores the status under the key of older conventions.
	if v, ok := attrs.Get("http.status_code"); ok && v.Type() == pcommon.ValueTypeInt {
		if _, known := attrs.Get(string(otelsemconv.HTTPResponseStatusCodeKey)); !known {
			attrs.PutInt(string(otelsemconv.HTTPResponseStatusCodeKey), v.Int())
		}
	}
	attrs.MoveTo(span.Attributes())
	for _, log := range s.Logs {
		e := span.Events().AppendEmpty()
		e.SetTimestamp(microseconds(log.Timestamp))
		putTags(e.Attributes(), log.Fields)
		e.SetName(take(e.Attributes(), "event"))
	}
	return nil
}

// readIDs reads the ids of the span, of its parent and of its links.
func (s *jaegerSpan) readIDs(span ptrace.Span) error {
	trace, err := backend.ParseTraceID(s.TraceID)
	if err != nil {
		return errJaeger
	}
	id, err := parseSpanID(s.SpanID)
	if err != nil {
		return err
	}
	span.SetTraceID(trace)
	span.SetSpanID(id)
	parent := s.ParentSpanID
	for _, ref := range s.References {
		of, err := backend.ParseTraceID(cmp.Or(ref.TraceID, s.TraceID))
		if err != nil {
			return errJaeger
		}
		if ref.RefType == "CHILD_OF" && of == trace && parent == "" {
			parent = ref.SpanID
			continue
		}
		to, err := parseSpanID(ref.SpanID)
		if err != nil {
			return err
		}
		link := span.Links().AppendEmpty()
		link.SetTraceID(of)
		link.SetSpanID(to)
	}
	if strings.Trim(parent, "0") != "" {
		id, err := parseSpanID(parent)
		if err != nil {
			return err
		}
		span.SetParentSpanID(id)
	}
	return nil
}

// parseSpanID parses an id, whose leading zeros may be missing.
func parseSpanID(text string) (id pcommon.SpanID, err error) {
	const digits = 2 * len(id)
	if len(text) == 0 || len(text) > digits {
		return id, errJaeger
	}
	raw, err := hex.DecodeString(strings.Repeat("0", digits-len(text)) + text)
	if err != nil {
		return id, errJaeger
	}
	return pcommon.SpanID(raw), nil
}

func microseconds(n int64) pcommon.Timestamp {
	return pcommon.NewTimestampFromTime(time.UnixMicro(n))
}

// jaegerKinds are the kinds of spans as Jaeger stores them.
var jaegerKinds = map[string]ptrace.SpanKind{
	"client": ptrace.SpanKindClient, "server": ptrace.SpanKindServer, "producer": ptrace.SpanKindProducer,
	"consumer": ptrace.SpanKindConsumer, "internal": ptrace.SpanKindInternal,
}

// setStatus moves the status from the attributes to the span.
func setStatus(span ptrace.Span, attrs pcommon.Map) {
	failed, isError := attrs.Get("error")
	isError = isError && failed.Type() == pcommon.ValueTypeBool && failed.Bool()
	code := take(attrs, otelsemconv.OTelStatusCodeKey)
	switch {
	case isError || code == "ERROR":
		span.Status().SetCode(ptrace.StatusCodeError)
	case code == "OK":
		span.Status().SetCode(ptrace.StatusCodeOk)
	}
	if isError {
		attrs.Remove("error")
	}
	span.Status().SetMessage(take(attrs, otelsemconv.OTelStatusDescriptionKey))
}

// take removes the first of these attributes that is a string, and returns it.
func take[K ~string](attrs pcommon.Map, keys ...K) string {
	for _, key := range keys {
		if v, ok := attrs.Get(string(key)); ok && v.Type() == pcommon.ValueTypeStr {
			text := v.Str()
			attrs.Remove(string(key))
			return text
		}
	}
	return ""
}

// putTags writes tags as attributes.
func putTags(attrs pcommon.Map, tags []jaegerTag) {
	for _, tag := range tags {
		v := attrs.PutEmpty(tag.Key)
		switch tag.Type {
		case "bool", "int64", "float64":
			putScalar(v, tag.Type, tag.Value)
		case "binary":
			var raw []byte
			_ = json.Unmarshal(tag.Value, &raw)
			v.SetEmptyBytes().FromRaw(raw)
		default:
			var text string
			if json.Unmarshal(tag.Value, &text) != nil {
				text = string(tag.Value)
			}
			if !putList(v, text) {
				v.SetStr(text)
			}
		}
	}
}

// putScalar writes a number or a bool. Jaeger writes integers that JavaScript cannot hold as
// strings.
func putScalar(v pcommon.Value, kind string, raw json.RawMessage) {
	raw = bytes.Trim(raw, `"`)
	var (
		b   bool
		n   int64
		f   float64
		err error
	)
	switch kind {
	case "bool":
		if err = json.Unmarshal(raw, &b); err == nil {
			v.SetBool(b)
		}
	case "int64":
		if err = json.Unmarshal(raw, &n); err == nil {
			v.SetInt(n)
		}
	default:
		if err = json.Unmarshal(raw, &f); err == nil {
			v.SetDouble(f)
		}
	}
	if err != nil {
		v.SetStr(string(raw))
	}
}

// putList writes the text as a list if it is one: Jaeger has no lists, and stores them as
// JSON. A list with objects in it was a text before: messages.
func putList(v pcommon.Value, text string) bool {
	if !strings.HasPrefix(text, "[") || !strings.HasSuffix(text, "]") {
		return false
	}
	var list []any
	if json.Unmarshal([]byte(text), &list) != nil {
		return false
	}
	for _, e := range list {
		switch e.(type) {
		case string, float64, bool:
		default:
			return false
		}
	}
	return v.SetEmptySlice().FromRaw(list) == nil
}
