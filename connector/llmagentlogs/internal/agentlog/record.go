package agentlog

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Reader reads the records of some agents. Its zero value reads all. It has no state, and is safe for concurrent use.
type Reader struct {
	only []string
}

// NewReader makes a reader for the agents with these names; none for all.
func NewReader(agents ...string) Reader { return Reader{only: agents} }

// Read reads a record. It returns false for a record that is not an event of a conversation.
func (r Reader) Read(scope string, lr plog.LogRecord) (e Event, conversation string, ok bool) {
	name := eventName(lr)
	var read func(string, *record) (string, bool)
	rec := record{event: &e, attributes: lr.Attributes()}
	switch {
	case strings.HasPrefix(name, "codex."):
		e.Agent, read = Codex, readCodex
	case strings.HasPrefix(name, "gemini_cli."):
		e.Agent, read = GeminiCLI, readGemini
	case strings.HasPrefix(name, claudePrefix):
		e.Agent, read = ClaudeCode, readClaude
	case scope == claudeScope || lr.Body().Type() == pcommon.ValueTypeStr && lr.Body().Str() == claudePrefix+name:
		// Its records carry the short name as an attribute.
		name, e.Agent, read = claudePrefix+name, ClaudeCode, readClaude
	default:
		return Event{}, "", false
	}
	if len(r.only) > 0 && !slices.Contains(r.only, e.Agent.String()) {
		return Event{}, "", false
	}
	if e.Time = lr.Timestamp(); e.Time == 0 {
		e.Time = lr.ObservedTimestamp()
	}
	if e.Time == 0 {
		return Event{}, "", false
	}
	e.Start, e.Trace, e.Span = e.Time, lr.TraceID(), lr.SpanID()
	e.InputTokens, e.OutputTokens = -1, -1
	conversation, ok = read(name, &rec)
	if !ok || conversation == "" {
		return Event{}, "", false
	}
	return e, conversation, true
}

// maxName is more than the length of any event's name.
const maxName = 64

// eventName returns the name of a record's event: the attribute, which the agents write, or else the field, which some of
// them support in their source.
func eventName(lr plog.LogRecord) string {
	if v, ok := lr.Attributes().Get("event.name"); ok && v.Type() == pcommon.ValueTypeStr {
		if name := v.Str(); len(name) <= maxName {
			return name
		}
		return ""
	}
	if name := lr.EventName(); len(name) <= maxName {
		return name
	}
	return ""
}

// record is a record that is being read.
type record struct {
	event      *Event
	attributes pcommon.Map
}

func (r *record) has(key string) bool {
	v, ok := r.attributes.Get(key)
	return ok && v.Type() != pcommon.ValueTypeEmpty
}

// text returns a string that the reader compares with known words. It must not be carried over.
func (r *record) text(key string) string {
	if v, ok := r.attributes.Get(key); ok && v.Type() == pcommon.ValueTypeStr {
		return v.Str()
	}
	return ""
}

// id returns an id that may be recorded, or id- and its hash if it is of another form.
func (r *record) id(key string) string { return classify.SanitizeID(r.text(key)) }

// code returns a name that others choose: of a model, a tool, a type of error.
func (r *record) code(key string) string { return classify.SanitizeCode(r.text(key)) }

// number returns an integer, also one that is written as a string or a double; -1 if it is not recorded.
func (r *record) number(key string) int64 {
	v, ok := r.attributes.Get(key)
	if !ok {
		return -1
	}
	n := int64(-1)
	switch v.Type() {
	case pcommon.ValueTypeInt:
		n = v.Int()
	case pcommon.ValueTypeDouble:
		if d := v.Double(); d >= 0 && d < 1<<53 {
			n = int64(d)
		}
	case pcommon.ValueTypeStr:
		if parsed, err := strconv.ParseInt(v.Str(), 10, 64); err == nil {
			n = parsed
		}
	default:
	}
	return max(n, -1)
}

// boolean returns a boolean, also one that is written as a string.
func (r *record) boolean(key string) (value, ok bool) {
	v, ok := r.attributes.Get(key)
	if !ok {
		return false, false
	}
	switch v.Type() {
	case pcommon.ValueTypeBool:
		return v.Bool(), true
	case pcommon.ValueTypeStr:
		return v.Str() == "true", v.Str() == "true" || v.Str() == "false"
	default:
		return false, false
	}
}

// maxDuration is longer than any recorded operation may have taken.
const maxDuration = 24 * time.Hour

// took sets the beginning of the operation that ended with the record.
func (r *record) took() {
	if ms := r.number("duration_ms"); ms > 0 && ms < maxDuration.Milliseconds() {
		ns := pcommon.Timestamp(ms) * pcommon.Timestamp(time.Millisecond)
		if ns < r.event.Time {
			r.event.Start = r.event.Time - ns
		}
	}
}

// status returns an HTTP status, 0 if none is recorded.
func (r *record) status(keys ...string) int {
	for _, key := range keys {
		if n := r.number(key); n >= 100 && n < 600 {
			return int(n)
		}
	}
	return 0
}

// attempt returns the number of an attempt, 1 for the first; the argument is the agent's own number of the first one. It
// returns 0 if none is recorded.
func (r *record) attempt(first int64) int {
	const most = 1000
	n := r.number("attempt")
	if n < first {
		return 0
	}
	return int(min(n-first+1, most))
}

// tokens sets the usage of a response, if it is recorded.
func (r *record) tokens(input, output string) {
	r.event.InputTokens, r.event.OutputTokens = r.number(input), r.number(output)
}

// outcome sets whether a tool succeeded.
func (r *record) outcome(key, errorType string) {
	won, known := r.boolean(key)
	switch {
	case !known:
	case won:
		r.event.Outcome = semconv.ToolOutcomeSucceeded
	default:
		r.event.Outcome = semconv.ToolOutcomeFailed
		r.event.ToolErrorType = classify.SanitizeErrorType(r.text(errorType))
	}
}
