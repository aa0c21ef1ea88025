package page

import (
	"slices"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// The bounds of a row. What is longer is cut: the record itself has it whole.
const (
	maxRowText = 128 // bytes of a string
	maxRowList = 8   // entries of a list
)

// row is what the list of runs shows of a record, and what its filters read.
type row struct {
	Trace     string   `json:"trace"`
	Span      string   `json:"span"`
	Lone      bool     `json:"lone,omitempty"` // a model call that belongs to no run
	Start     int64    `json:"start"`          // microseconds since 1970
	Duration  int64    `json:"dur"`            // microseconds
	Open      bool     `json:"open,omitempty"` // it has no end yet
	Outcome   string   `json:"outcome"`
	Class     string   `json:"class,omitempty"`
	Cause     string   `json:"cause,omitempty"`
	Agent     string   `json:"agent,omitempty"` // the agent, else the service
	Models    []string `json:"models,omitempty"`
	Requests  int      `json:"requests,omitempty"`
	Tools     int      `json:"tools,omitempty"`
	Recovered int64    `json:"recovered,omitempty"`
	Warning   bool     `json:"warning,omitempty"`
	Asked     int      `json:"asked,omitempty"` // how often, although the answer came whole
	IDs       []string `json:"ids,omitempty"`   // that a search finds, beside the trace and the span

	// In a file: where the record is, from 1 on; 0 if the file has no room for it.
	Block int `json:"block,omitempty"`
	Line  int `json:"line,omitempty"`
}

// newRow returns the row of a record.
func newRow(r *report.Record) row {
	out := row{
		Trace: cut(r.TraceID), Span: cut(r.SpanID), Lone: r.Kind != report.RecordRun,
		Start: r.Start.UnixMicro(), Duration: max(0, r.End.Sub(r.Start).Microseconds()), Open: r.End.Unix() <= 0,
		Class: text(r, semconv.FailureClassKey), Cause: text(r, semconv.FailureCauseKey),
		Agent:    text(r, otelsemconv.GenAIAgentNameKey),
		Requests: len(r.Requests), Tools: len(r.Tools),
	}
	if out.Agent == "" {
		out.Agent = cut(r.Service)
	}
	if out.Open {
		out.Duration = 0
	}
	out.Outcome = outcome(r, out.Open, out.Class)
	out.Recovered, _ = r.Attributes[string(semconv.RunRecoveredFailuresKey)].(int64)
	out.Asked = r.Asked()
	out.Warning = text(r, semconv.RunWarningKey) != ""
	out.addNames(r)
	for i := range r.Requests {
		out.addNames(&r.Requests[i])
	}
	for i := range r.Tools {
		out.addID(text(&r.Tools[i], otelsemconv.GenAIToolCallIDKey))
	}
	return out
}

// outcomeOpen is the outcome of what has not ended, which no verdict says.
const outcomeOpen = "open"

// outcome returns the run's outcome. A model call that belongs to no run has none: there the
// class of its failure says it.
func outcome(r *report.Record, open bool, class string) string {
	if v := text(r, semconv.RunOutcomeKey); v != "" {
		return v
	}
	switch {
	case open:
		return outcomeOpen
	case r.Unfollowed():
		return semconv.RunOutcomeIncomplete.String()
	case class == "":
		return semconv.RunOutcomeSucceeded.String()
	case class == semconv.ClassLocalAbort.String():
		return semconv.RunOutcomeAborted.String()
	case class == semconv.ClassOutputLimited.String():
		return semconv.RunOutcomeLimited.String()
	default:
		return semconv.RunOutcomeFailed.String()
	}
}

// addNames adds the model and the ids of a run or a request.
func (w *row) addNames(r *report.Record) {
	if model := text(r, otelsemconv.GenAIRequestModelKey); model != "" && len(w.Models) < maxRowList && !slices.Contains(w.Models, model) {
		w.Models = append(w.Models, model)
	}
	for _, key := range []attribute.Key{otelsemconv.GenAIConversationIDKey, semconv.RequestIDKey, otelsemconv.GenAIResponseIDKey} {
		w.addID(text(r, key))
	}
}

func (w *row) addID(id string) {
	if id != "" && len(w.IDs) < maxRowList && !slices.Contains(w.IDs, id) {
		w.IDs = append(w.IDs, id)
	}
}

// text returns a string attribute, cut.
func text(r *report.Record, key attribute.Key) string {
	s, _ := r.Attributes[string(key)].(string)
	return cut(s)
}

// cut returns the first bytes of s, whole runes only.
func cut(s string) string {
	if len(s) <= maxRowText {
		return s
	}
	n := maxRowText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
