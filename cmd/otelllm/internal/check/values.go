package check

import (
	"encoding/hex"
	"fmt"
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// The checks of values. Each returns what is wrong, or "".

func isText(v pcommon.Value) string {
	if v.Type() != pcommon.ValueTypeStr || v.Str() == "" {
		return "has to be a string that is not empty, is " + kindOfValue(v)
	}
	return ""
}

func isTexts(v pcommon.Value) string {
	if v.Type() != pcommon.ValueTypeSlice {
		return "has to be an array of strings, is " + kindOfValue(v)
	}
	for _, e := range v.Slice().All() {
		if e.Type() != pcommon.ValueTypeStr {
			return "has to be an array of strings, has " + kindOfValue(e) + " in it"
		}
	}
	return ""
}

func isCount(v pcommon.Value) string {
	if v.Type() != pcommon.ValueTypeInt || v.Int() < 0 {
		return "has to be an int, 0 or above, is " + kindOfValue(v)
	}
	return ""
}

func isSeconds(v pcommon.Value) string {
	if v.Type() != pcommon.ValueTypeDouble || !(v.Double() >= 0) || math.IsInf(v.Double(), 1) {
		return "has to be a double, in seconds, is " + kindOfValue(v)
	}
	return ""
}

func isBool(v pcommon.Value) string {
	if v.Type() != pcommon.ValueTypeBool {
		return "has to be a bool, is " + kindOfValue(v)
	}
	return ""
}

// isSpanID requires 16 hexadecimal digits.
func isSpanID(v pcommon.Value) string {
	if v.Type() == pcommon.ValueTypeStr {
		if raw, err := hex.DecodeString(v.Str()); err == nil && len(raw) == len(pcommon.SpanID{}) {
			return ""
		}
	}
	return "has to be a span id of 16 hexadecimal digits, is " + kindOfValue(v)
}

func isEnum[T any](parse func(string) (T, bool)) func(pcommon.Value) string {
	return func(v pcommon.Value) string {
		if problem := isText(v); problem != "" {
			return problem
		}
		if _, ok := parse(v.Str()); !ok {
			return fmt.Sprintf("is %q, which is not a value of the vocabulary", cut(v.Str()))
		}
		return ""
	}
}

// kindOfValue describes a value by its type, and by the value itself if it is short and
// of a type that holds no text.
func kindOfValue(v pcommon.Value) string {
	switch v.Type() {
	case pcommon.ValueTypeInt, pcommon.ValueTypeDouble, pcommon.ValueTypeBool:
		return fmt.Sprintf("the %s %s", v.Type(), v.AsString())
	case pcommon.ValueTypeStr:
		if v.Str() == "" {
			return "an empty string"
		}
		return "a string"
	default:
		return "of type " + v.Type().String()
	}
}

// cut shortens a value of any length.
func cut(text string) string {
	const most = 40
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
