package judge

import (
	"encoding/json"
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/processor/llmclassify/live"
)

// answer is the answer to a line.
type answer struct {
	Ref     json.RawMessage `json:"ref,omitempty"`
	Run     string          `json:"run"`
	Verdict map[string]any  `json:"verdict"`        // on the run; null if nothing is said of one
	Plan    *classify.Plan  `json:"plan,omitempty"` // to go on with the run, if it failed
	ID      string          `json:"id,omitempty"`
	Part    map[string]any  `json:"part,omitempty"` // the verdict on this request or tool, if it failed

	Incomplete bool     `json:"incomplete,omitempty"` // the judge has forgotten something of the run
	Ignored    int      `json:"ignored,omitempty"`    // fields that are not facts of this kind of part
	Invalid    []string `json:"invalid,omitempty"`    // facts whose values the vocabulary does not have
}

// judge fills in the verdicts as of now.
func (a *answer) judge(t *trace, run, part pcommon.SpanID) {
	a.Incomplete = t.Incomplete()
	v, ok := t.JudgeRun(run)
	if !ok {
		return
	}
	if v.Run != nil {
		a.Verdict = live.RunAttributes(v.Run, &v.Plan).AsRaw()
		a.Plan = planOf(&v)
	}
	if d := v.Parts[part]; d != nil {
		a.Part = live.PartAttributes(d).AsRaw()
	}
}

// judgeCall fills in the verdict on a model call and the plan to go on with it, in place of those
// on the run and on a part.
func (a *answer) judgeCall(t *trace, run pcommon.SpanID, attempts []pcommon.SpanID) {
	a.Part, a.Plan = nil, nil
	if d, plan, ok := t.JudgeCall(run, attempts); ok && d.Failed() {
		a.Part, a.Plan = live.PartAttributes(&d).AsRaw(), &plan
	}
}

// planSince fills in the plan to go on with a run by what began since a time, in place of that by all of it.
func (a *answer) planSince(t *trace, run pcommon.SpanID, since pcommon.Timestamp) {
	if a.Plan == nil {
		return // nothing has failed
	}
	if plan, ok := t.PlanSince(run, since); ok {
		a.Plan = &plan
	}
}

// planOf returns the plan to go on with a run that failed, nil for any other.
func planOf(v *live.Verdict) *classify.Plan {
	if v.Run == nil || !v.Run.Failed() {
		return nil
	}
	return &v.Plan
}

// answerOTLP is the answer to a line of OTLP, or to a question about a trace.
type answerOTLP struct {
	Ref      json.RawMessage `json:"ref,omitempty"`
	Verdicts []answerRun     `json:"verdicts"`
}

// answerRun is the verdict on a run of a trace.
type answerRun struct {
	Trace      string         `json:"trace"`
	Run        string         `json:"run"` // the id of the run's span, or of the span above its requests
	Verdict    map[string]any `json:"verdict"`
	Plan       *classify.Plan `json:"plan,omitempty"`  // if it failed
	Parts      []answerPart   `json:"parts,omitempty"` // those that failed
	Incomplete bool           `json:"incomplete,omitempty"`
}

type answerPart struct {
	ID      string         `json:"id"`
	Verdict map[string]any `json:"verdict"`
}

// add adds the verdicts on the runs of a trace.
func (a *answerOTLP) add(trace string, t *trace) {
	for _, v := range t.Judge() {
		run := answerRun{Trace: trace, Run: v.ID.String(), Incomplete: t.Incomplete()}
		if v.Run != nil {
			run.Verdict = live.RunAttributes(v.Run, &v.Plan).AsRaw()
			run.Plan = planOf(&v)
		}
		for id, d := range v.Parts {
			run.Parts = append(run.Parts, answerPart{id.String(), live.PartAttributes(d).AsRaw()})
		}
		slices.SortFunc(run.Parts, func(a, b answerPart) int {
			if a.ID < b.ID {
				return -1
			}
			return 1
		})
		a.Verdicts = append(a.Verdicts, run)
	}
}

// answerError is the answer to a line that is not valid.
type answerError struct {
	Ref   json.RawMessage `json:"ref,omitempty"`
	Error string          `json:"error"`
	Line  int             `json:"line"`
}

// Line answers one line, by its number. It returns nil for an empty line, and if the line
// asks for no answer and is valid. It never fails: the answer to a bad line is an error.
func (j *Judge) Line(raw []byte, number int) []byte {
	if len(raw) == 0 || len(raw) == 1 && raw[0] == '\r' {
		return nil
	}
	l, err := parseLine(raw)
	var a any
	if err == nil {
		a, err = j.answer(&l, raw)
	}
	switch {
	case err != nil:
		a = answerError{l.ref, err.Error(), number}
	case l.silent:
		return nil
	}
	return marshal(a, l.ref, number)
}

// marshal returns the JSON of the answer to a line.
func marshal(answer any, ref json.RawMessage, number int) []byte {
	out, err := json.Marshal(answer)
	if err != nil { // a number that JSON does not have
		out, _ = json.Marshal(answerError{ref, "the verdict has no JSON", number})
	}
	return out
}

func (j *Judge) answer(l *line, raw []byte) (any, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case l.otlp:
		return j.takeOTLP(l, raw)
	case l.trace != "" && l.run == "":
		return j.askTrace(l)
	case l.kind == "":
		return j.ask(l)
	default:
		return j.takeFacts(l)
	}
}
