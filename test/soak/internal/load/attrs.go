package load

import (
	"go.opentelemetry.io/otel/attribute"
)

// put writes attributes as the SDKs' exporters do. It supports the types that the
// shapes use.
func put(s *Span, list ...attribute.KeyValue) {
	attrs := s.Attributes()
	attrs.EnsureCapacity(attrs.Len() + len(list))
	for _, kv := range list {
		key := string(kv.Key)
		switch kv.Value.Type() {
		case attribute.STRING:
			attrs.PutStr(key, kv.Value.AsString())
		case attribute.INT64:
			attrs.PutInt(key, kv.Value.AsInt64())
		case attribute.FLOAT64:
			attrs.PutDouble(key, kv.Value.AsFloat64())
		case attribute.BOOL:
			attrs.PutBool(key, kv.Value.AsBool())
		case attribute.STRINGSLICE:
			slice := attrs.PutEmptySlice(key)
			for _, v := range kv.Value.AsStringSlice() {
				slice.AppendEmpty().SetStr(v)
			}
		default:
			panic("load: unsupported attribute type: " + kv.Value.Type().String())
		}
	}
}
