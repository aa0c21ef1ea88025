package traffic

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// scope is the name of the client's scope.
const scope = "github.com/otelllm/otelllm-go/otelllm"

const (
	kindInternal = 1
	kindClient   = 3
	statusError  = 2
)

// span is a span before its time is known. Times are seconds from the run's start.
type span struct {
	id, parent string
	name       string
	kind       int
	from, to   float64
	failed     bool
	attributes map[string]any
}

// otlp returns the span in OTLP's JSON.
func (s *span) otlp(trace string, start time.Time) map[string]any {
	at := func(seconds float64) string {
		return strconv.FormatInt(start.Add(time.Duration(seconds*float64(time.Second))).UnixNano(), 10)
	}
	out := map[string]any{
		"traceId": trace, "spanId": s.id, "name": s.name, "kind": s.kind,
		"startTimeUnixNano": at(s.from), "endTimeUnixNano": at(s.to), "attributes": attributes(s.attributes),
	}
	if s.parent != "" {
		out["parentSpanId"] = s.parent
	}
	if s.failed {
		out["status"] = map[string]any{"code": statusError}
	}
	return out
}

// request returns the body of an OTLP/HTTP request with the spans.
func request(service, instance, trace string, start time.Time, spans []*span) ([]byte, error) {
	var out []any
	for _, s := range spans {
		out = append(out, s.otlp(trace, start))
	}
	return json.Marshal(map[string]any{"resourceSpans": []any{map[string]any{
		"resource": map[string]any{"attributes": attributes(map[string]any{
			"service.name": service, "service.instance.id": instance,
		})},
		"scopeSpans": []any{map[string]any{"scope": map[string]any{"name": scope}, "spans": out}},
	}}})
}

func attributes(values map[string]any) []any {
	var out []any
	for key, value := range values {
		out = append(out, map[string]any{"key": key, "value": anyValue(value)})
	}
	return out
}

func anyValue(v any) map[string]any {
	switch v := v.(type) {
	case string:
		return map[string]any{"stringValue": v}
	case int:
		return map[string]any{"intValue": strconv.Itoa(v)}
	case float64:
		return map[string]any{"doubleValue": v}
	case bool:
		return map[string]any{"boolValue": v}
	case []string:
		values := []any{}
		for _, s := range v {
			values = append(values, anyValue(s))
		}
		return map[string]any{"arrayValue": map[string]any{"values": values}}
	default:
		panic(fmt.Sprintf("no attribute has the type %T", v))
	}
}
