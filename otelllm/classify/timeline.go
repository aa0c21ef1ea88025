package classify

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// The bounds of a timeline, in lines.
const (
	maxTimeline  = 24
	timelineHead = 8
	timelineTail = 5
)

// line is one line of a timeline before formatting: most lines are never formatted.
type line struct {
	at       time.Duration // since the start
	terminal bool          // says how something failed or how the run ended; omitted only if there are too many such lines
	kind     lineKind
	index    int // of the request, ordered by start, or of the tool
}

type lineKind uint8

const (
	lineRequest lineKind = iota
	lineHeaders
	lineRequestEnd
	lineTool
	lineToolEnd
	lineToolOpen // the run ended while the tool was running
	lineRunEnd
)

// timeline returns the course of the run in at most 24 lines such as `+1.204s request 2:
// headers 200`: the first 8, the last 5 and every line that reports a failure, with one
// line for those omitted. Times count from the start of the run, or from its earliest part
// if the start of the run is not known or later.
func (j *judge) timeline(v *Verdicts) []string {
	start := j.start()
	lines := slices.Grow(j.lines[:0], 3*len(j.run.Requests)+2*len(j.run.Tools)+1)
	for n, i := range j.order {
		r := &j.run.Requests[i]
		began := r.Start.Sub(start)
		lines = append(lines, line{at: began, kind: lineRequest, index: n})
		if r.TimeToHeaders > 0 && r.Status > 0 {
			lines = append(lines, line{at: began + r.TimeToHeaders, kind: lineHeaders, index: n})
		}
		end := r.End
		if end.IsZero() { // it is open, as far as was observed last
			end = r.Start.Add(max(r.TimeToHeaders, r.LastProgress))
		}
		if over := end.Sub(j.run.End); j.run.Ended == Yes && over > 0 && over <= clockGrain {
			end = j.run.End // their clocks may differ by that much
		}
		lines = append(lines, line{at: end.Sub(start), kind: lineRequestEnd, index: n, terminal: j.classifications[i].class != semconv.ClassUnset})
	}
	ofRequests := len(lines)
	for t := range j.run.Tools {
		tool := &j.run.Tools[t]
		lines = append(lines, line{at: tool.Start.Sub(start), kind: lineTool, index: t})
		switch {
		case !tool.End.IsZero():
			lines = append(lines, line{at: tool.End.Sub(start), kind: lineToolEnd, index: t, terminal: v.Tools[t].Failed()})
		case j.run.Ended == Yes:
			lines = append(lines, line{at: j.run.End.Sub(start), kind: lineToolOpen, index: t, terminal: true})
		}
	}
	if j.run.Ended == Yes {
		lines = append(lines, line{at: j.run.End.Sub(start), kind: lineRunEnd, terminal: true})
	}
	j.sortLines(lines, ofRequests)
	j.lines = lines

	kept, gap := selectLines(lines)
	var ends [maxTimeline + 1]int // end offsets of the lines in one string: a single allocation
	n, b := 0, j.text[:0]
	end := func() { ends[n] = len(b); n++ }
	for at, l := range kept {
		if at == gap {
			b = append(b, "… "...)
			b = strconv.AppendInt(b, int64(len(lines)-len(kept)), 10)
			b = append(b, " more …"...)
			end()
		}
		b = j.appendLine(b, l, v)
		end()
	}
	j.text = b
	text, out := string(b), make([]string, n)
	for i, from := 0, 0; i < n; i++ {
		out[i], from = text[from:ends[i]], ends[i]
	}
	return out
}

// sortLines sorts lines by time; the sort is stable. The first lines, as many as first
// says, and the other lines are each sorted already unless requests or tools overlap.
// Merging the two is then all that remains.
func (j *judge) sortLines(lines []line, first int) {
	inTime := func(lines []line) {
		byTime := func(a, b line) int { return cmp.Compare(a.at, b.at) }
		if !slices.IsSortedFunc(lines, byTime) {
			slices.SortStableFunc(lines, byTime)
		}
	}
	inTime(lines[:first])
	inTime(lines[first:])
	j.others = append(j.others[:0], lines[first:]...)
	others := j.others
	for to := len(lines) - 1; len(others) > 0; to-- {
		if last := len(others) - 1; first == 0 || lines[first-1].at <= others[last].at {
			lines[to], others = others[last], others[:last]
		} else {
			first--
			lines[to] = lines[first]
		}
	}
}

// start returns the start of the run, or of its earliest part if that is earlier. It has no
// monotonic clock reading: what is subtracted from it is measured by the wall clock, as it
// is between the times of spans, so that the timeline of a live run is that of its spans.
func (j *judge) start() time.Time {
	start := j.run.Start.Round(0)
	earlier := func(t time.Time) {
		if start.IsZero() || t.Before(start) {
			start = t.Round(0)
		}
	}
	if len(j.order) > 0 {
		earlier(j.run.Requests[j.order[0]].Start)
	}
	for t := range j.run.Tools {
		earlier(j.run.Tools[t].Start)
	}
	return start
}

// selectLines returns the lines to write, in the memory of lines, and the position of the
// line that says how many are omitted, or -1 if none are.
func selectLines(lines []line) (kept []line, gap int) {
	if len(lines) <= maxTimeline {
		return lines, -1
	}
	room := maxTimeline - 1 - timelineHead - timelineTail
	middle := lines[timelineHead : len(lines)-timelineTail]
	var few [maxTimeline]line
	terminal := few[:0]
	for n := len(middle) - 1; n >= 0 && len(terminal) < room; n-- { // the newest, if there are too many
		if middle[n].terminal {
			terminal = append(terminal, middle[n])
		}
	}
	slices.Reverse(terminal)
	kept = append(lines[:timelineHead], terminal...) // overwrites no more than the middle
	return append(kept, lines[len(lines)-timelineTail:]...), timelineHead
}

func (j *judge) appendLine(b []byte, l line, v *Verdicts) []byte {
	b = appendOffset(b, l.at)
	switch l.kind {
	case lineRequest:
		r := &j.run.Requests[j.order[l.index]]
		b = appendRequest(b, l.index)
		if r.sent() == No {
			b = append(b, "started"...)
		} else {
			b = append(b, "sent"...)
		}
		if r.Attempt > 1 {
			b = append(b, ", attempt "...)
			b = strconv.AppendInt(b, int64(r.Attempt), 10)
		}
	case lineHeaders:
		b = appendRequest(b, l.index)
		b = append(b, "headers "...)
		b = strconv.AppendInt(b, int64(j.run.Requests[j.order[l.index]].Status), 10)
	case lineRequestEnd:
		i := j.order[l.index]
		b = appendRequest(b, l.index)
		b = appendRequestEnd(b, &j.run.Requests[i], &v.Requests[i], j.states[i])
	case lineTool:
		b = appendTool(b, &j.run.Tools[l.index])
		b = append(b, "started"...)
	case lineToolEnd:
		tool := &j.run.Tools[l.index]
		b = appendTool(b, tool)
		b = appendToolEnd(b, tool)
	case lineToolOpen:
		b = appendTool(b, &j.run.Tools[l.index])
		b = append(b, "never ended"...)
	case lineRunEnd:
		b = append(b, "run: ended"...)
		switch {
		case j.run.Abort.Source != semconv.AbortSourceUnset:
			b = append(b, ", stopped by "...)
			b = append(b, j.run.Abort.Source.String()...)
		case j.run.Failed == Yes:
			b = append(b, " in failure"...)
		}
	}
	return b
}

// appendOffset appends a duration in the form +1.204s.
func appendOffset(b []byte, d time.Duration) []byte {
	sign, ms := byte('+'), d.Round(time.Millisecond).Milliseconds()
	if ms < 0 {
		sign, ms = '-', -ms
	}
	b = strconv.AppendInt(append(b, sign), ms/1000, 10)
	return append(b, '.', byte('0'+ms/100%10), byte('0'+ms/10%10), byte('0'+ms%10), 's', ' ')
}

func appendRequest(b []byte, n int) []byte {
	b = append(b, "request "...)
	b = strconv.AppendInt(b, int64(n+1), 10)
	return append(b, ": "...)
}

func appendTool(b []byte, t *Tool) []byte {
	b = append(b, "tool"...)
	if name := safeName(t.Name); name != "" {
		b = append(b, ' ')
		b = append(b, name...)
	}
	return append(b, ": "...)
}

func appendRequestEnd(b []byte, r *Request, d *Diagnosis, s state) []byte {
	switch {
	case d.Failed():
		b = append(b, d.Class.String()...)
		b = append(b, " ("...)
		b = append(b, d.Cause.String()...)
		b = append(b, ") at "...)
		b = append(b, d.Phase.String()...)
	case s == stateOK && r.ToolCalls.N() > 0:
		b = append(b, "complete, "...)
		b = strconv.AppendInt(b, int64(r.ToolCalls.N()), 10)
		b = append(b, " tool call"...)
		if r.ToolCalls.N() > 1 {
			b = append(b, 's')
		}
	case s == stateOK:
		b = append(b, "complete"...)
	case s == stateWaiting:
		b = append(b, "complete, waiting"...)
	case r.Open:
		b = append(b, "still open"...)
	default:
		b = append(b, "ended, outcome unknown"...)
	}
	return b
}

func appendToolEnd(b []byte, t *Tool) []byte {
	if t.Outcome == semconv.ToolOutcomeUnset {
		b = append(b, "ended, outcome unknown"...)
	} else {
		b = append(b, t.Outcome.String()...)
	}
	switch {
	case t.Delivery == semconv.OutputDeliveryFailed:
		b = append(b, ", sending its output failed"...)
	case t.Delivery == semconv.OutputDeliverySent && t.DeliveryError != "":
		b = append(b, ", output sent after a failed attempt"...)
	case t.Delivery == semconv.OutputDeliverySent:
		b = append(b, ", output sent"...)
	}
	return b
}
