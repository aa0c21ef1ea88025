package origin

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Memory of the parts of unmarshalled spans on 64-bit systems, in bytes, with the allocator's rounding. A test compares the
// sums with the heap.
const (
	resourceSize  = 256
	scopeSize     = 256
	spanSize      = 272 // struct, and its pointer in the slice
	attributeSize = 72  // key, value header and boxed value; the bytes of strings come on top
	elementSize   = 48
	eventSize     = 112
	linkSize      = 112
	stringSize    = 8 // average rounding of a string by the allocator
)

// SpanSize estimates the memory of a span in bytes.
func SpanSize(span ptrace.Span) int {
	size := spanSize + len(span.Name()) + len(span.TraceState().AsRaw()) + len(span.Status().Message()) +
		MapSize(span.Attributes())
	for _, event := range span.Events().All() {
		size += eventSize + len(event.Name()) + MapSize(event.Attributes())
	}
	for _, link := range span.Links().All() {
		size += linkSize + len(link.TraceState().AsRaw()) + MapSize(link.Attributes())
	}
	return size
}

// MapSize estimates the memory of attributes in bytes.
func MapSize(m pcommon.Map) int {
	size := 0
	for key, v := range m.All() {
		size += attributeSize + stringSize + len(key) + valueSize(v)
	}
	return size
}

func valueSize(v pcommon.Value) int {
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return stringSize + len(v.Str())
	case pcommon.ValueTypeBytes:
		return stringSize + v.Bytes().Len()
	case pcommon.ValueTypeMap:
		return MapSize(v.Map())
	case pcommon.ValueTypeSlice:
		size := 0
		for _, element := range v.Slice().All() {
			size += elementSize + valueSize(element)
		}
		return size
	default:
		return 0
	}
}
