package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// undetermined compares a turn, of which nothing is said, with --fail-on.
func (t *tally) undetermined(state turns.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if state == turns.Undetermined && t.failOn[anything] && t.matched == "" {
		t.matched = anything
	}
}

// sessionTable is what is printed of many sessions.
type sessionTable struct {
	now  time.Time
	plan string // the beginning of the id of the session whose plan is wanted

	sessions, running, waiting, fine, failed, stopped, died, undetermined int

	lines   []sessionLine
	hiding  string                  // the agent whose last answers may have had calls; "" for none
	strange map[string]int          // sessions of versions that are not known, by agent and version
	resume  map[string]string       // what a resume does that may lead to a repetition, by agent
	planned []*sessionfiles.Session // those that the plan may be of
}

// sessionLine is a line about one session that is not well.
type sessionLine struct {
	at              time.Time
	agent, id, what string
}

// add counts a session, and describes it if it is not well. Last is the record of its last turn.
func (t *sessionTable) add(s *sessionfiles.Session, last *report.Record) {
	if t.plan != "" {
		if strings.HasPrefix(s.ID, t.plan) {
			t.planned = append(t.planned, s)
		}
		return
	}
	t.sessions++
	if !s.Known && s.Version != "" {
		if t.strange == nil {
			t.strange = make(map[string]int)
		}
		t.strange[s.Agent.Title+" "+s.Version]++
	}
	j := s.Last()
	switch j.State {
	case turns.Well:
		t.fine++
	case turns.Running:
		t.running++
	case turns.Waits:
		t.waiting++
	case turns.Died:
		t.died++
	case turns.Undetermined:
		t.undetermined++
	case turns.Unwell:
		if j.Aborted {
			t.stopped++
		} else {
			t.failed++
		}
	}
	line, unwell := lineOf(s, last)
	if !unwell {
		return
	}
	if hidesCalls(s) {
		t.hiding = s.Agent.Title
		return
	}
	t.lines = append(t.lines, line)
	if warning := sessionfiles.ResumeWarning(s, j); warning != "" {
		if t.resume == nil {
			t.resume = make(map[string]string)
		}
		t.resume[s.Agent.Title] = warning
	}
}

// hidesCalls reports whether the last answer of a session may have had calls that its agent did not write. Most of such sessions
// are well: they are not listed.
func hidesCalls(s *sessionfiles.Session) bool {
	return s.Agent.Profile.HidesCalls && s.Last().Ending == turns.Unclear
}

// lineOf describes the last turn of a session that is not well, or that followed on one that died. R is
// its record, nil if nothing is said of it.
func lineOf(s *sessionfiles.Session, r *report.Record) (sessionLine, bool) {
	j := s.Last()
	line := sessionLine{at: j.End, agent: s.Agent.Name, id: s.ID}
	if told := sessionfiles.Resumed(s); told != "" {
		line.what = "fine, but it died before, while " + toolNames(s.Turns[len(s.Turns)-2].Unanswered()) + " may have been running, and " + told
		return line, true
	}
	switch j.State {
	case turns.Died:
		line.what = "died: " + diedWords(s, j)
	case turns.Unwell:
		line.what = unwellWords(j, r)
	case turns.Undetermined:
		line.what = "undetermined: " + undeterminedWords(s, j)
	default:
		return line, false
	}
	if r != nil && !j.Aborted {
		if todo := retryWords[text(r, semconv.RetrySafetyKey)]; todo != "" {
			line.what += "; " + todo
		}
	}
	return line, true
}

// diedWords say what was going on when a process died.
func diedWords(s *sessionfiles.Session, j *turns.Judged) string {
	if names := toolNames(j.Waiting()); names != "" {
		return names + " may have run"
	}
	words := "before the model had answered"
	switch n := len(j.Requests); {
	case n > 0 && j.Requests[n-1].Ended():
		words = "after the model had answered"
	case n > 0:
		words = "while the model was answering"
	}
	if !s.Agent.Profile.CallsFirst {
		words += "; a tool may have run that its file does not show"
	}
	return words
}

// unwellWords say how a turn failed or was stopped.
func unwellWords(j *turns.Judged, r *report.Record) string {
	if j.Aborted {
		if names := toolNames(cutCalls(j)); names != "" {
			return "stopped by a person while " + names + " was running"
		}
		return "stopped by a person"
	}
	cause := ""
	if r != nil {
		cause = causeWords(r)
	}
	if cause == "" || cause == semconv.ClassUnclassified.String() {
		return "failed: its file does not show why"
	}
	return "failed: " + report.Printable(cause)
}

// cutCalls returns the calls of tools that were stopped.
func cutCalls(j *turns.Judged) []*turns.Call {
	return slices.DeleteFunc(slices.Clone(j.Calls), func(c *turns.Call) bool { return !c.MayHaveBeenCut() })
}

// undeterminedWords say why it is not known how a turn ended.
func undeterminedWords(s *sessionfiles.Session, j *turns.Judged) string {
	switch {
	case j.Ending == turns.Open && j.Writer == turns.WriterUnknown:
		return "it may still be running"
	case len(j.LeftRunning()) > 0:
		return "it answered, and what " + toolNames(j.LeftRunning()) + " began in the background may have been cut off"
	case j.Ending == turns.Unclear && len(j.Waiting()) > 0:
		return "it answered, and the output of " + toolNames(j.Waiting()) + " is not in its file"
	case j.MaybeOwed:
		return "it answered, and the model may have been asked once more"
	case s.Agent.Profile.HidesCalls:
		return "its last answer may have had a call, which is written when its tool has ended"
	default:
		return "its file does not show how it ended"
	}
}

// toolNames names the tools of calls: "bash", "bash and edit", "bash, edit and 3 more".
func toolNames(calls []*turns.Call) string {
	var list []string
	for _, c := range calls {
		name := c.Name
		if name == "" {
			name = "a tool"
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	const most = 3
	switch n := len(list); {
	case n == 0:
		return ""
	case n == 1:
		return list[0]
	case n <= most:
		return strings.Join(list[:n-1], ", ") + " and " + list[n-1]
	default:
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), n-most)
	}
}

// maxSessionLines bounds the sessions that are described one by one.
const maxSessionLines = 200

// print prints a line for each session that is not well, the newest first, and the totals.
func (t *sessionTable) print(w io.Writer) {
	slices.SortStableFunc(t.lines, func(a, b sessionLine) int { return b.at.Compare(a.at) })
	for i := range t.lines {
		if i == maxSessionLines {
			fmt.Fprintf(w, "and %d more; --json FILE has them all\n", len(t.lines)-i)
			break
		}
		t.lines[i].print(w, t.now)
	}
	if len(t.lines) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, t.totals())
	if t.hiding != "" {
		fmt.Fprintf(w, "%s writes a call when its tool has ended: a session that ends with an answer is undetermined, and not listed\n", t.hiding)
	}
	for _, name := range slices.Sorted(maps.Keys(t.strange)) {
		fmt.Fprintf(w, "%s of %s, a version that is not known: what is said of them is more careful\n", count(t.strange[name], "session"), report.Printable(name))
	}
	for _, agent := range slices.Sorted(maps.Keys(t.resume)) {
		fmt.Fprintf(w, "%s: %s\n", agent, t.resume[agent])
	}
	if t.died+t.failed+t.stopped > 0 {
		fmt.Fprintln(w, "What ran, and what to tell the model before you resume one: otelllm sessions --plan ID")
	}
}

// totals counts the sessions: "41 sessions, 38 fine, 2 died, 1 undetermined".
func (t *sessionTable) totals() string {
	if t.sessions == 0 {
		return "no sessions were found; --since 0 reads old ones, too"
	}
	parts := []string{count(t.sessions, "session")}
	for _, p := range []struct {
		n    int
		what string
	}{
		{t.fine, "fine"},
		{t.running, "running"},
		{t.waiting, "waiting for you"},
		{t.failed, "failed"},
		{t.stopped, "stopped"},
		{t.died, "died"},
		{t.undetermined, "undetermined"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

// print prints a line: when, which agent, which session, what happened.
func (l *sessionLine) print(w io.Writer, now time.Time) {
	format := "15:04:05"
	if local := l.at.Local(); local.YearDay() != now.Local().YearDay() || local.Year() != now.Local().Year() {
		format = "2006-01-02 15:04"
	}
	id := l.id
	if id == "" {
		id = "(no id)"
	}
	fmt.Fprintf(w, "%-16s  %-8s  %s  %s\n", l.at.Local().Format(format), l.agent, report.Printable(id), report.Printable(l.what))
}
