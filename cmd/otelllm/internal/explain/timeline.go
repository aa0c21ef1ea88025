package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// The bounds of a timeline, in lines. Of a longer one the first and the last lines are kept, and
// those that say what failed; one line says how many are left out.
const (
	maxLines  = 200
	headLines = 60
	tailLines = 40
)

type line struct {
	at     time.Time
	text   string
	failed bool
}

// timeline returns what happened in a run, in the order of time, by the clocks of the spans.
func timeline(r *report.Record) []string {
	var lines []line
	for _, p := range partsOf(r) {
		if p.record != r || r.Kind != report.RecordRun {
			lines = append(lines, linesOf(p)...)
		}
	}
	if r.Kind == report.RecordRun {
		end := "run: ended"
		if outcome := text(r, string(semconv.RunOutcomeKey)); outcome != "" {
			end += ", " + outcome
		}
		lines = append(lines, line{r.End, end, true})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	kept, gap := selected(lines)
	out := make([]string, 0, len(kept)+1)
	for i, l := range kept {
		if i == gap {
			out = append(out, "… "+strconv.Itoa(len(lines)-len(kept))+" more …")
		}
		out = append(out, fmt.Sprintf("+%.3fs %s", l.at.Sub(r.Start).Seconds(), l.text))
	}
	return out
}

// selected returns the lines that are kept, and before which of them others are missing; -1: none.
func selected(lines []line) (kept []line, gap int) {
	if len(lines) <= maxLines {
		return lines, -1
	}
	room := maxLines - headLines - tailLines - 1
	last := len(lines) - tailLines
	var failed []int
	for i := headLines; i < last; i++ {
		if lines[i].failed {
			failed = append(failed, i)
		}
	}
	failed = failed[max(0, len(failed)-room):]
	kept = append(kept, lines[:headLines]...)
	for _, i := range failed {
		kept = append(kept, lines[i])
	}
	return append(kept, lines[last:]...), headLines
}

// linesOf returns the lines of a request or a tool.
func linesOf(p labelled) []line {
	r := p.record
	name := p.label
	if tool := text(r, string(otelsemconv.GenAIToolNameKey)); tool != "" {
		name += " " + tool
	}
	say := func(at time.Time, what string, failed bool) line { return line{at, name + ": " + what, failed} }
	lines := []line{say(r.Start, "began", false)}
	if after, ok := seconds(r, string(semconv.StreamTimeToHeadersKey)); ok {
		lines = append(lines, say(r.Start.Add(after), strings.TrimSpace("headers "+text(r, string(otelsemconv.HTTPResponseStatusCodeKey))), false))
	}
	for _, e := range r.Events {
		what := strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(e.Name, "llm."), "stream."), "_", " ")
		if call, ok := e.Attributes[string(otelsemconv.GenAIToolNameKey)].(string); ok {
			what += " of " + call
		}
		lines = append(lines, say(e.Time, what, false))
	}
	if after, ok := seconds(r, string(semconv.StreamLastProgressKey)); ok {
		lines = append(lines, say(r.Start.Add(after), "last progress", false))
	}
	end, failed := endOf(r)
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	return append(lines, say(r.End, end, failed))
}

// endOf says how a request or a tool ended.
func endOf(r *report.Record) (end string, failed bool) {
	class, cause := text(r, string(semconv.FailureClassKey)), text(r, string(semconv.FailureCauseKey))
	switch {
	case class != "":
		end = class + " (" + cause + ")"
		if phase := text(r, string(semconv.FailurePhaseKey)); phase != "" {
			end += " at " + phase
		}
		return end, true
	case r.Kind == report.RecordTool:
		return cmp.Or(text(r, string(semconv.ToolOutcomeKey)), "ended, outcome unknown"), false
	default:
		return cmp.Or(strings.ReplaceAll(text(r, string(semconv.StreamEndKey)), "_", " "), "ended"), false
	}
}
