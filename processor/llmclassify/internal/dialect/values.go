package dialect

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// Bounds of strings in facts, in bytes. Producers keep to them; what comes over the wire
// may not.
const (
	maxString = 256
	maxWord   = 80
)

// text is a string value, see [truncated]; empty if it is not a string.
func text(v pcommon.Value) string {
	if v.Type() != pcommon.ValueTypeStr {
		return ""
	}
	return truncated(v.Str())
}

// truncated truncates a string to maxString bytes. What it truncates it clones, so that
// facts never keep a huge string in memory.
func truncated(s string) string {
	if len(s) > maxString {
		s = strings.Clone(strings.ToValidUTF8(s[:maxString], ""))
	}
	return s
}

// id is an id that may be written into a verdict, see [classify.SanitizeID]: producers in
// other languages record ids that a model or a provider made up.
func id(v pcommon.Value) string {
	if v.Type() != pcommon.ValueTypeStr {
		return ""
	}
	return classify.SanitizeID(v.Str())
}

// codeValue is a code or a reason that may be written into a verdict, see
// [classify.SanitizeCode].
func codeValue(v pcommon.Value) string {
	if v.Type() != pcommon.ValueTypeStr {
		return ""
	}
	return classify.SanitizeCode(v.Str())
}

// typeName is the name of an error's type that may be written into a verdict: some
// producers record a message in its place. Of one of Go's status lines it is the status.
func typeName(name string) string {
	if code := statusOf(name); code != 0 {
		return strconv.Itoa(code)
	}
	return classify.SanitizeErrorType(name)
}

// count is an observed count, not observed for a value that is not an integer or is
// negative.
func count(v pcommon.Value) classify.Count {
	if v.Type() != pcommon.ValueTypeInt || v.Int() < 0 {
		return 0
	}
	return classify.Counted(int(min(v.Int(), math.MaxUint32)))
}

// seconds is a duration given in seconds, 0 if it is not one. Integers are accepted:
// JavaScript exporters write doubles without a fraction as integers.
func seconds(v pcommon.Value) time.Duration {
	var s float64
	switch v.Type() {
	case pcommon.ValueTypeDouble:
		s = v.Double()
	case pcommon.ValueTypeInt:
		s = float64(v.Int())
	default:
		return 0
	}
	const most = float64(math.MaxInt64 / int64(time.Second))
	if !(s > 0 && s < most) { // NaN fails both
		return 0
	}
	return time.Duration(math.Round(s * float64(time.Second)))
}

// status is an HTTP status code, 0 if it is not one.
func status(v pcommon.Value) int {
	if v.Type() != pcommon.ValueTypeInt || v.Int() < 100 || v.Int() > 599 {
		return 0
	}
	return int(v.Int())
}

func boolean(v pcommon.Value) bool {
	return v.Type() == pcommon.ValueTypeBool && v.Bool()
}

// notFalse reports whether a value is true, or cannot be read: what is careful of a
// fact that makes a repetition less safe.
func notFalse(v pcommon.Value) bool {
	return v.Type() != pcommon.ValueTypeBool || v.Bool()
}

// fact is Yes or No for a boolean, not observed for other values.
func fact(v pcommon.Value) classify.Fact {
	if v.Type() != pcommon.ValueTypeBool {
		return classify.NotObserved
	}
	return classify.FactOf(v.Bool())
}

// enum parses an enum value with its generated parser, unset if it is not one.
func enum[E any](v pcommon.Value, parse func(string) (E, bool)) (e E) {
	if v.Type() == pcommon.ValueTypeStr {
		if parsed, ok := parse(v.Str()); ok {
			return parsed
		}
	}
	return e
}

// enumOr is enum for a fact that makes a repetition less safe: a value that is not known here,
// of a newer version for example, is this one.
func enumOr[E comparable](v pcommon.Value, parse func(string) (E, bool), unknown E) E {
	var unset E
	if e := enum(v, parse); e != unset {
		return e
	}
	return unknown
}

// list is a list of strings, nil if v is not a list or has an element of another type: a
// list that cannot be read completely proves nothing. Of more than [classify.MaxIDs] the
// last ones, which are the newest, are kept.
func list(v pcommon.Value, room *Lists) []string {
	return listOf(v, room, text)
}

// idList is a list of ids, each as [id] leaves it. See [list].
func idList(v pcommon.Value, room *Lists) []string { return listOf(v, room, id) }

// finishReasons are the finish reasons of a response: a list; its JSON in a string, as
// Spring AI, Microsoft's agent-framework and Semantic Kernel for .NET write it; or one reason
// alone, or several with commas. It is nil if no reason is recorded, or if the list cannot be
// read completely.
func finishReasons(v pcommon.Value, room *Lists) []string {
	if v.Type() != pcommon.ValueTypeStr {
		return listOf(v, room, func(v pcommon.Value) string { return finishReason(v.Str()) })
	}
	s := strings.TrimSpace(v.Str())
	if len(s) > maxJSON {
		return nil
	}
	reasons := room.take(1)
	switch {
	case strings.HasPrefix(s, "["):
		var all []*string // null is no reason: the list has a gap, and cannot be read completely
		if json.Unmarshal([]byte(s), &all) != nil || len(all) > classify.MaxIDs || slices.Contains(all, nil) {
			return nil
		}
		if len(all) > 0 && !slices.ContainsFunc(all, func(s *string) bool { return *s != "N/A" }) {
			return nil
		}
		for _, reason := range all {
			reasons = append(reasons, finishReason(*reason))
		}
		return reasons
	case strings.HasPrefix(s, `"`):
		var reason string
		if json.Unmarshal([]byte(s), &reason) != nil {
			return nil
		}
		s = reason
	}
	all := strings.Split(s, ",")
	if len(all) > classify.MaxIDs || !slices.ContainsFunc(all, func(s string) bool { return !isMissing(s) }) {
		return nil
	}
	for _, reason := range all {
		reasons = append(reasons, finishReason(reason))
	}
	return reasons
}

// finishReason is one of several finish reasons: a missing one is unknown, which outweighs
// the others.
func finishReason(s string) string {
	if isMissing(s) {
		return finishUnknown
	}
	return truncated(enumMember(s))
}

// enumMember is a reason as providers write it: without the name of an enum, which Python writes
// with its members ("FinishReason.STOP"), and with the underscores that C# has not ("ToolCalls").
func enumMember(s string) string {
	if enum, member, ok := strings.Cut(s, "."); ok && strings.HasSuffix(enum, "Reason") {
		return member
	}
	if word, ok := enumWords[s]; ok {
		return word
	}
	return s
}

// enumWords are members of enums whose words are not those of any provider: OpenAI's SDK for
// .NET (ChatFinishReason), LangChain4j (FinishReason).
var enumWords = map[string]string{
	"ToolCalls": "tool_calls", "FunctionCall": "function_call", "ContentFilter": "content_filter", "TOOL_EXECUTION": "tool_calls",
}

// isMissing reports whether a string is how languages and producers write a missing value:
// Semantic Kernel for .NET "N/A", VeADK "<no_finish_reason_provided>".
func isMissing(s string) bool {
	return s == "" || s == "None" || s == "null" || s == "N/A" || s[0] == '<'
}

func listOf(v pcommon.Value, room *Lists, read func(pcommon.Value) string) []string {
	if v.Type() != pcommon.ValueTypeSlice {
		return nil
	}
	slice := v.Slice()
	from := max(0, slice.Len()-classify.MaxIDs)
	ids := room.take(slice.Len() - from)
	for i := from; i < slice.Len(); i++ {
		if slice.At(i).Type() != pcommon.ValueTypeStr {
			return nil
		}
		ids = append(ids, read(slice.At(i)))
	}
	return ids
}

// spanID reads a span id of 16 hex digits, empty if it is not one.
func spanID(v pcommon.Value) (id pcommon.SpanID) {
	if v.Type() != pcommon.ValueTypeStr || len(v.Str()) != 2*len(id) {
		return pcommon.SpanID{}
	}
	if _, err := hex.Decode(id[:], []byte(v.Str())); err != nil {
		return pcommon.SpanID{}
	}
	return id
}

// at is the time of a timestamp, zero if it was never set.
func at(ts pcommon.Timestamp) time.Time {
	if ts == 0 {
		return time.Time{}
	}
	return ts.AsTime()
}
