// Package explain makes of the record of one run an export that a person can attach to a report:
// what failed, when what happened, and every fact that decided, also those that were observed not
// to be. It has what the record has: no content and no secrets.
package explain

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// Explanation is the export of one run, or of a model call that belongs to none.
type Explanation struct {
	TraceID  string    `json:"trace_id"`
	SpanID   string    `json:"span_id"`
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	App      App       `json:"app"`
	Summary  string    `json:"summary,omitempty"`
	Verdict  Verdict   `json:"verdict"`
	Timeline []string  `json:"timeline"` // at most 200 lines
	Parts    []Part    `json:"parts"`    // the run, its requests, its tools, and what gateways served
}

// App is what the records say about the application. Each list has its values in the order of
// their first use.
type App struct {
	Service    string   `json:"service,omitempty"`
	Agent      string   `json:"agent,omitempty"`
	UserAgents []string `json:"user_agents,omitempty"` // product/version
	Providers  []string `json:"providers,omitempty"`
	Models     []string `json:"models,omitempty"`
	Protocols  []string `json:"http_versions,omitempty"`
}

// Verdict is the verdict, with the attributes of its names without their prefix.
type Verdict struct {
	Outcome         string   `json:"outcome,omitempty"`
	Class           string   `json:"class,omitempty"`
	Cause           string   `json:"cause,omitempty"`
	Phase           string   `json:"phase,omitempty"`
	Origin          string   `json:"origin,omitempty"`
	Confidence      string   `json:"confidence,omitempty"`
	RetrySafety     string   `json:"retry_safety,omitempty"`
	RetryReason     string   `json:"retry_reason,omitempty"`
	Evidence        []string `json:"evidence,omitempty"`
	MissingEvidence []string `json:"missing_evidence,omitempty"`
	MissingOutputs  []string `json:"missing_outputs,omitempty"`
	Ruleset         string   `json:"ruleset,omitempty"`
}

// Part is a run, a request or a tool with all of its facts.
type Part struct {
	Label   string         `json:"label"` // "request 2", as in the timeline
	Kind    string         `json:"kind"`
	SpanID  string         `json:"span_id"`
	Name    string         `json:"name"`
	Seconds float64        `json:"seconds"` // how long it took
	Facts   map[string]any `json:"facts,omitempty"`
	// Negative are the facts that were observed not to be, as fact=none or fact=0.
	Negative []string `json:"negative,omitempty"`
	// NotObserved are the names of facts of a request that nothing was recorded of.
	NotObserved []string          `json:"not_observed,omitempty"`
	Codes       map[string]string `json:"codes,omitempty"`
	Verdict     *Verdict          `json:"verdict,omitempty"` // its own, if it failed
}

// Of returns the explanation of a record.
func Of(r *report.Record) Explanation {
	e := Explanation{
		TraceID: r.TraceID, SpanID: r.SpanID, Start: r.Start, End: r.End,
		Summary: text(r, string(semconv.FailureSummaryKey)), Verdict: verdictOf(r), Timeline: timeline(r),
	}
	e.App.Service, e.App.Agent = r.Service, text(r, string(otelsemconv.GenAIAgentNameKey))
	for _, p := range partsOf(r) {
		e.App.add(p.record)
		e.Parts = append(e.Parts, partOf(p))
	}
	return e
}

func (a *App) add(r *report.Record) {
	for list, key := range map[*[]string]string{
		&a.UserAgents: string(otelsemconv.UserAgentOriginalKey), &a.Providers: string(otelsemconv.GenAIProviderNameKey),
		&a.Models: string(otelsemconv.GenAIRequestModelKey), &a.Protocols: string(otelsemconv.NetworkProtocolVersionKey),
	} {
		if v := text(r, key); v != "" && !slices.Contains(*list, v) {
			*list = append(*list, v)
		}
	}
}

// labelled is a part of a run with its name in the timeline.
type labelled struct {
	label  string
	record *report.Record
}

// partsOf returns the run itself and its parts.
func partsOf(r *report.Record) []labelled {
	parts := []labelled{{string(r.Kind), r}}
	for what, list := range map[string][]report.Record{"request": r.Requests, "tool": r.Tools, "served": r.Served} {
		for i := range list {
			parts = append(parts, labelled{what + " " + strconv.Itoa(i+1), &list[i]})
		}
	}
	slices.SortStableFunc(parts[1:], func(a, b labelled) int {
		if c := a.record.Start.Compare(b.record.Start); c != 0 {
			return c
		}
		return strings.Compare(a.label, b.label)
	})
	return parts
}

// ofVerdict reports whether an attribute belongs to a verdict and not to the facts.
func ofVerdict(key string) bool {
	switch {
	case strings.HasPrefix(key, "llm.failure."), strings.HasPrefix(key, "llm.classification."):
		return true
	default:
		return slices.Contains([]string{
			string(semconv.RetrySafetyKey), string(semconv.RetryReasonKey), string(semconv.RunOutcomeKey),
			string(semconv.RunTimelineKey), string(semconv.RunRecoveredFailuresKey), string(semconv.HistoryMissingOutputsKey),
		}, key)
	}
}

// codes are the attributes by which a failure is looked up elsewhere.
var codes = []string{
	string(otelsemconv.HTTPResponseStatusCodeKey), string(semconv.ProviderErrorCodeKey), string(semconv.TransportCodeKey),
	string(semconv.TransportCauseKey), string(otelsemconv.ErrorTypeKey), string(semconv.RequestIDKey), string(otelsemconv.GenAIResponseIDKey),
}

func partOf(p labelled) Part {
	r := p.record
	out := Part{
		Label: p.label, Kind: string(r.Kind), SpanID: r.SpanID, Name: r.Name, Seconds: r.End.Sub(r.Start).Seconds(),
		Facts: maps.Clone(r.Attributes),
	}
	maps.DeleteFunc(out.Facts, func(key string, _ any) bool { return ofVerdict(key) })
	for _, key := range codes {
		if v := text(r, key); v != "" {
			if out.Codes == nil {
				out.Codes = map[string]string{}
			}
			out.Codes[key] = v
		}
	}
	if r.Kind == report.RecordRequest {
		out.Negative, out.NotObserved = absent(r)
	}
	if v := verdictOf(r); v.Class != "" {
		out.Verdict = &v
	}
	return out
}

// causes are the facts of which at most one ends a request.
var causes = []string{
	string(semconv.AbortSourceKey), string(semconv.WatchdogKindKey), string(semconv.ProviderErrorKindKey), string(semconv.TransportCauseKey),
}

// counts are the counts that the guards of a retry read.
var counts = []string{
	string(semconv.StreamTextChunksKey), string(semconv.StreamReasoningChunksKey), string(semconv.StreamToolInputsStartedKey),
	string(semconv.StreamToolInputsCompletedKey), string(semconv.StreamToolCallsKey), string(semconv.StreamProviderToolsStartedKey),
}

// absent returns which facts of a request were observed not to be, and of which nothing was
// observed. A producer that does not record how a request ended has observed nothing of the kind.
func absent(r *report.Record) (negative, notObserved []string) {
	recorded := text(r, string(semconv.StreamEndKey)) != ""
	for _, key := range causes {
		switch {
		case text(r, key) != "":
		case recorded:
			negative = append(negative, key+"=none")
		default:
			notObserved = append(notObserved, key)
		}
	}
	for _, key := range counts {
		switch v := text(r, key); v {
		case "":
			notObserved = append(notObserved, key)
		case "0":
			negative = append(negative, key+"=0")
		}
	}
	return negative, notObserved
}

func verdictOf(r *report.Record) Verdict {
	return Verdict{
		Outcome: text(r, string(semconv.RunOutcomeKey)), Class: text(r, string(semconv.FailureClassKey)), Cause: text(r, string(semconv.FailureCauseKey)),
		Phase: text(r, string(semconv.FailurePhaseKey)), Origin: text(r, string(semconv.FailureOriginKey)), Confidence: text(r, string(semconv.FailureConfidenceKey)),
		RetrySafety: text(r, string(semconv.RetrySafetyKey)), RetryReason: text(r, string(semconv.RetryReasonKey)),
		Evidence: list(r, string(semconv.FailureEvidenceKey)), MissingEvidence: list(r, string(semconv.FailureMissingEvidenceKey)),
		MissingOutputs: list(r, string(semconv.HistoryMissingOutputsKey)), Ruleset: text(r, string(semconv.ClassificationRulesetKey)),
	}
}

// text returns an attribute as text, or "".
func text(r *report.Record, key string) string {
	switch v := r.Attributes[key].(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return ""
	}
}

func list(r *report.Record, key string) []string {
	values, _ := r.Attributes[key].([]any)
	var texts []string
	for _, v := range values {
		if s, ok := v.(string); ok {
			texts = append(texts, s)
		}
	}
	return texts
}

func seconds(r *report.Record, key string) (time.Duration, bool) {
	v, ok := r.Attributes[key].(float64)
	return time.Duration(v * float64(time.Second)), ok && v > 0
}
