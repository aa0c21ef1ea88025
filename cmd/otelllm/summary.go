package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// summaryWidth is the width of the text beside the labels.
const summaryWidth = 84

// maxSummaries bounds the runs that are described one by one.
const maxSummaries = 10

// summary is the text at the end of `otelllm run`.
type summary struct {
	ending   *ending
	records  []report.Record // the first run first; as the command's end corrects them
	requests int             // that went through the proxy, also if they are no model calls
	why      []string        // reasons why none did, each a sentence with the remedy
	dropped  int             // spans of runs that there was no room for in memory
	failOn   string          // the match that makes the exit status statusFailOn; "" for none
	more     string          // how to see more
	now      time.Time
}

// counts are how the runs, and the model calls without a run, ended.
type counts struct {
	runs, calls, tools int
	stopped            int             // by the command, which succeeded
	asked              int             // how often the same was asked although the answer came whole
	unclear            map[string]bool // the ids of runs
	unwell, warned     []*report.Record
	recovered          []*report.Record
}

// count counts the records. A command that succeeded may have stopped a call on purpose that it did not need any more, such
// as the title of a conversation. One that was made to end had no choice.
func (s *summary) count() *counts {
	c := &counts{unclear: make(map[string]bool)}
	for i := range s.records {
		r := &s.records[i]
		c.calls += len(requestsOf(r))
		c.asked = max(c.asked, r.Asked())
		if r.Kind == report.RecordRun {
			c.runs++
			c.tools += len(r.Tools)
		}
		if text(r, semconv.RunWarningKey) != "" {
			c.warned = append(c.warned, r)
		}
		outcome := text(r, semconv.RunOutcomeKey)
		switch {
		case outcome == semconv.RunOutcomeRecovered.String():
			c.recovered = append(c.recovered, r)
		case unclear(r):
			c.unclear[cmp.Or(text(r, semconv.RunIDKey), r.SpanID)] = true // no outcome is claimed for its run
		case s.ending.Code == 0 && text(r, semconv.FailureClassKey) == semconv.ClassLocalAbort.String() && !s.ending.stopped(r):
			c.stopped++
		case !well(r):
			c.unwell = append(c.unwell, r)
		}
	}
	return c
}

// unclear reports whether the outcome of a model call's run is unknown: no outcome is claimed for that run, or the call's
// answer asks for tools and nothing followed, could not be read to its end, or is a redirect.
func unclear(r *report.Record) bool {
	return r.Kind == report.RecordRequest && well(r) && (r.Number(semconv.StreamToolCallsKey) > 0 || r.Attributes[string(semconv.RunInferredKey)] == true || r.Unfollowed() || r.Unreadable())
}

// print prints the outcomes of the runs: one line if all are well, and a paragraph for each of the others.
func (s *summary) print(w io.Writer) {
	c := s.count()
	if len(s.records) == 0 {
		line := "no model call went through the proxy"
		if s.requests > 0 {
			line = counted(s.requests, "request") + " went through the proxy, and no model was called"
		}
		if words := s.ending.words(nil, false); words != "" {
			line += "; " + words
		}
		fmt.Fprintln(w, "otelllm: "+line)
		for _, why := range s.why {
			fmt.Fprintf(w, "otelllm: why: %s\n", why)
		}
	} else {
		line := joined(counted(c.runs, "run"), counted(c.calls, "model call"), counted(c.tools, "tool call"))
		if c.stopped > 0 {
			line += fmt.Sprintf(" (%d stopped by the command)", c.stopped)
		}
		fmt.Fprintf(w, "otelllm: %s; %s\n", line, strings.Join(s.said(c), "; "))
	}
	s.printUnwell(w, append(c.unwell, wellButWarned(c.warned)...))
	if s.dropped > 0 {
		fmt.Fprintf(w, "  the oldest runs are not shown: there were more than are kept in memory\n")
	}
	if s.failOn != "" {
		fmt.Fprintf(w, "otelllm: exit status %d, because of --fail-on %s\n", statusFailOn, s.failOn)
	}
	if len(c.unwell)+len(c.warned) > 0 && s.more != "" {
		fmt.Fprintf(w, "otelllm: %s\n", s.more)
	}
}

// said returns the statements about all runs together. "ok" is only said if all runs ended well, and there is nothing else
// to say.
func (s *summary) said(c *counts) (said []string) {
	allWell := len(c.unwell) == 0 && len(c.unclear) == 0
	if len(c.unwell) > 0 {
		said = append(said, did(len(c.unwell))+" not end well")
	}
	if n := len(c.unclear); n > 0 {
		said = append(said, "it is not known how "+counted(n, "run")+" ended")
	}
	words := s.ending.words(s.records, allWell)
	if allWell && words == "" && len(c.warned) == 0 && c.asked == 0 {
		said = append(said, "ok")
	}
	if len(c.recovered) > 0 {
		said = append(said, recoveredFrom(c.recovered))
	}
	if c.asked > 0 {
		said = append(said, fmt.Sprintf("the same was asked %d times although the answer came whole", c.asked))
	}
	if n := len(c.warned); n > 0 {
		said = append(said, counted(n, "warning"))
	}
	if words != "" {
		said = append(said, words)
	}
	return said
}

// recoveredFrom names the failures that runs recovered from.
func recoveredFrom(runs []*report.Record) string {
	times := make(map[string]int)
	var causes []string
	for _, run := range runs {
		for _, r := range run.Requests {
			cause := causeWords(&r)
			if cause == "" {
				continue
			}
			if times[cause]++; times[cause] == 1 {
				causes = append(causes, cause)
			}
		}
	}
	if len(causes) == 0 {
		return "recovered from failures on the way"
	}
	for i, cause := range causes {
		causes[i] = fmt.Sprintf("%d × %s", times[cause], cause)
	}
	return "recovered from " + strings.Join(causes, ", ")
}

// causeWords returns the cause of a failure, or else its class, in words; "" if nothing failed.
func causeWords(r *report.Record) string {
	class, cause := text(r, semconv.FailureClassKey), text(r, semconv.FailureCauseKey)
	if class != "" && (cause == "" || cause == semconv.CauseUnknown.String()) {
		cause = class
	}
	return strings.ReplaceAll(cause, "_", " ")
}

// wellButWarned returns the runs with a warning that ended well.
func wellButWarned(warned []*report.Record) (list []*report.Record) {
	for _, r := range warned {
		if well(r) {
			list = append(list, r)
		}
	}
	return list
}

// printUnwell describes runs that did not end well, or that have a warning. Runs whose descriptions differ in the id of the
// request alone are described once.
func (s *summary) printUnwell(w io.Writer, list []*report.Record) {
	times := make(map[string]int)
	var texts []string
	var firsts []*report.Record
	for _, r := range list {
		var b strings.Builder
		s.describe(&b, r, false)
		if times[b.String()]++; times[b.String()] == 1 {
			texts, firsts = append(texts, b.String()), append(firsts, r)
		}
	}
	for i, r := range firsts {
		if i == maxSummaries {
			fmt.Fprintf(w, "  and %d more; --json FILE has them all\n", len(firsts)-i)
			return
		}
		head := verdictOf(r)
		if n := times[texts[i]]; n > 1 {
			head += fmt.Sprintf(" (%d times)", n)
		}
		field(w, r.Start.Local().Format(time.TimeOnly), head, 1)
		s.describe(w, r, true)
		fmt.Fprintln(w)
	}
}

// verdictOf returns the verdict of a record in the vocabulary's words.
func verdictOf(r *report.Record) string {
	var verdict []string
	for _, key := range []attribute.Key{semconv.RunOutcomeKey, semconv.FailureClassKey, semconv.FailureCauseKey} {
		if value := text(r, key); value != "" {
			verdict = append(verdict, value)
		}
	}
	return strings.Join(verdict, " / ")
}

// describe prints the description of a run that did not end well, or that has a warning: with its verdict at most 12 lines.
func (s *summary) describe(w io.Writer, r *report.Record, withID bool) {
	decisive := decisiveOf(r)
	place := where(r, decisive)
	if id := text(decisive, semconv.RequestIDKey); !withID {
		place = slices.DeleteFunc(place, func(s string) bool { return s == id })
	}
	field(w, "where", strings.Join(place, " · "), 1)
	field(w, "what", text(r, semconv.FailureSummaryKey), 4)
	field(w, "warning", text(r, semconv.RunWarningKey), 3)
	field(w, "ran", strings.Join(ran(r), ", "), 2)
	retry := retryWordsOf(r, len(s.records) > 1)
	if again := tryAgain(decisive, s.now); again != "" {
		retry = joined(retry, again)
	}
	field(w, "retry", retry, 1)
}

// where returns the model, the tools that the answer asked for, the provider's id of the request, and the number of a later
// attempt.
func where(r, decisive *report.Record) []string {
	list := []string{cmp.Or(text(decisive, otelsemconv.GenAIRequestModelKey), text(r, otelsemconv.GenAIRequestModelKey))}
	list = append(list, names(decisive.Attributes[string(semconv.StreamToolCallNamesKey)])...)
	list = append(list, text(decisive, semconv.RequestIDKey))
	if n := decisive.Number(semconv.RequestAttemptKey); n > 1 {
		list = append(list, fmt.Sprintf("attempt %d", n))
	}
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

// tryAgain says when the provider will take the request again; "" if it did not say, or will now.
func tryAgain(r *report.Record, now time.Time) string {
	seconds, _ := r.Attributes[string(semconv.RetryAfterKey)].(float64)
	at := r.End.Add(time.Duration(seconds * float64(time.Second)))
	left := at.Sub(now)
	if seconds <= 0 || left <= 0 {
		return ""
	}
	format := "15:04"
	switch {
	case left < 10*time.Minute:
		format = time.TimeOnly
	case left > 24*time.Hour:
		format = "15:04 on 2 January"
	}
	return "try again at " + at.Local().Format(format) + " (in " + durationWords(left) + ")"
}

// retryWords are the advice of each level.
var retryWords = map[string]string{
	semconv.RetrySafetySafeAutoRetry.String():      "safe: run it again",
	semconv.RetrySafetyUserConfirmedRetry.String(): "look first, then decide",
	semconv.RetrySafetyNoRetry.String():            "do not run it again as it is",
}

// retryWordsOf returns the advice after a run, or after a model call that belongs to no known run. If there are other
// records, the verdict on such a call does not cover the tools that ran before it.
func retryWordsOf(r *report.Record, besideOthers bool) string {
	safety := text(r, semconv.RetrySafetyKey)
	if r.Kind == report.RecordRequest && besideOthers && safety == semconv.RetrySafetySafeAutoRetry.String() {
		return "safe for this model call alone: look at what ran before it"
	}
	return retryWords[safety]
}

// ran returns the tools of a run, with how each ended.
func ran(r *report.Record) []string {
	var list []string
	counts := make(map[string]int)
	for i := range r.Tools {
		t := &r.Tools[i]
		name := text(t, otelsemconv.GenAIToolNameKey)
		if name == "" {
			name = "a tool"
		}
		if outcome := text(t, semconv.ToolOutcomeKey); outcome != "" {
			name += " (" + outcome + ")"
		} else if t.Scope == turns.ScopeName && t.End.Unix() <= 0 {
			name += " (may have run)"
		}
		if counts[name]++; counts[name] == 1 {
			list = append(list, name)
		}
	}
	for i, name := range list {
		if n := counts[name]; n > 1 {
			list[i] = fmt.Sprintf("%s %d times", name, n)
		}
	}
	return list
}

// field prints a value of at most this many lines beside its name.
func field(w io.Writer, name, value string, lines int) {
	wrapped := report.Wrap(value, summaryWidth)
	if len(wrapped) > lines {
		wrapped = wrapped[:lines]
		wrapped[lines-1] += " …"
	}
	for i, line := range wrapped {
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(w, "  %-8s %s\n", name, report.Printable(line))
	}
}

func did(n int) string {
	if n == 1 {
		return "1 did"
	}
	return fmt.Sprintf("%d did", n)
}
