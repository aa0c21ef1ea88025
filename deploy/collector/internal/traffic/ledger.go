package traffic

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Entry is something that happened, with the labels that metrics give it.
type Entry struct {
	At     time.Time
	Labels map[string]string
	Value  float64
}

// Entries are a part of the ledger.
type Entries []Entry

// Ledger is what really happened in the runs.
type Ledger struct {
	Runs, Requests, Tools Entries
	// Values of runs and requests, with the labels of these.
	LostOutputs, RecoveredFailures, WastedTokens, WastedRequests Entries
	FirstChunks, Gaps, RunSeconds, RequestSeconds, ToolSeconds   Entries
}

// NewLedger counts the runs.
func NewLedger(runs []*Run) *Ledger {
	l := &Ledger{}
	for _, r := range runs {
		l.add(r)
	}
	return l
}

func (l *Ledger) add(r *Run) {
	labels := r.labels()
	labels["service_name"], labels["gen_ai_agent_name"], labels["llm_run_outcome"] = r.Service, r.Agent, r.Outcome
	labels["gen_ai_provider_name"], labels["gen_ai_request_model"] = r.Provider, r.Model
	l.Runs.add(r.Due, labels, 1)
	if r.Outcome != "incomplete" {
		l.RunSeconds.add(r.Due, labels, r.Took)
	}
	if r.Lost > 0 {
		l.LostOutputs.add(r.Due, labels, float64(r.Lost))
	}
	if r.Recovered > 0 {
		l.RecoveredFailures.add(r.Due, labels, float64(r.Recovered))
	}
	for i := range r.Requests {
		q := &r.Requests[i]
		labels := q.labels()
		labels["service_name"] = r.Service
		labels["gen_ai_provider_name"], labels["gen_ai_request_model"], labels["server_address"] = q.Provider, q.Model, q.Address
		labels["llm_watchdog_kind"] = q.Watchdog
		l.Requests.add(r.At, labels, 1)
		l.RequestSeconds.add(r.At, labels, q.Took)
		if q.FirstChunk > 0 {
			l.FirstChunks.add(r.At, labels, q.FirstChunk)
		}
		if q.Gap > 0 {
			l.Gaps.add(r.At, labels, q.Gap)
		}
		if !q.Wasted() {
			continue
		}
		seen := map[bool]string{true: "true", false: "false"}[q.UsageSeen]
		l.WastedRequests.add(r.At, with(labels, "llm_usage_seen", seen), 1)
		if q.UsageSeen {
			l.WastedTokens.add(r.At, with(labels, "gen_ai_token_type", "input"), float64(q.Input))
			l.WastedTokens.add(r.At, with(labels, "gen_ai_token_type", "output"), float64(q.Output))
		}
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		labels := t.labels()
		labels["service_name"], labels["gen_ai_tool_name"], labels["llm_tool_effect"] = r.Service, t.Name, t.Effect
		labels["llm_tool_outcome"], labels["llm_tool_output_delivery"] = t.Outcome, t.Delivery
		l.Tools.add(r.At, labels, 1)
		l.ToolSeconds.add(r.At, labels, t.Took)
	}
}

func (f Failure) labels() map[string]string {
	return map[string]string{
		"llm_failure_class": f.Class, "llm_failure_cause": f.Cause, "llm_failure_phase": f.Phase,
		"llm_failure_origin": f.Origin, "llm_retry_safety": f.Safety,
	}
}

func with(labels map[string]string, key, value string) map[string]string {
	labels = maps.Clone(labels)
	labels[key] = value
	return labels
}

func (e *Entries) add(at time.Time, labels map[string]string, value float64) {
	*e = append(*e, Entry{at, labels, value})
}

// Where returns the entries whose label has one of the values.
func (e Entries) Where(label string, values ...string) Entries {
	return e.filter(func(x *Entry) bool { return slices.Contains(values, x.Labels[label]) })
}

// WhereNot returns the entries whose label has none of the values. An empty value is that of a label that is missing.
func (e Entries) WhereNot(label string, values ...string) Entries {
	return e.filter(func(x *Entry) bool { return !slices.Contains(values, x.Labels[label]) })
}

// Between returns the entries after from, until and with to.
func (e Entries) Between(from, to time.Time) Entries {
	return e.filter(func(x *Entry) bool { return x.At.After(from) && !x.At.After(to) })
}

func (e Entries) filter(keep func(*Entry) bool) Entries {
	var kept Entries
	for i := range e {
		if keep(&e[i]) {
			kept = append(kept, e[i])
		}
	}
	return kept
}

// Sum adds the values up.
func (e Entries) Sum() float64 {
	var sum float64
	for i := range e {
		sum += e[i].Value
	}
	return sum
}

// By adds the values up for each combination of these labels. The key is the values of the labels, joined by a slash.
func (e Entries) By(labels ...string) map[string]float64 {
	sums := map[string]float64{}
	for i := range e {
		sums[Key(e[i].Labels, labels...)] += e[i].Value
	}
	return sums
}

// Key joins the values of labels.
func Key(labels map[string]string, names ...string) string {
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = labels[name]
	}
	return strings.Join(values, "/")
}
