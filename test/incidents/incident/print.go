package incident

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

var (
	port      = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	requestID = regexp.MustCompile(`req_\w+`)
)

// Plain removes from lines what differs between runs: ports and request ids.
func Plain(lines []string) []string {
	plain := make([]string, len(lines))
	for i, l := range lines {
		plain[i] = requestID.ReplaceAllString(port.ReplaceAllString(l, "127.0.0.1:…"), "req_…")
	}
	return plain
}

// Wrong lists the differences of the act from the expectation. judged is the run under
// otelllm, or nil if there is no verdict.
func (a *Act) Wrong(before *Played, judged *report.Run) (wrong []string) {
	if said := Plain(Lines(before.Spans)); !slices.Equal(said, a.Before) {
		wrong = append(wrong, fmt.Sprintf("the spans before are:\n    %s\n  expected:\n    %s", strings.Join(said, "\n    "), strings.Join(a.Before, "\n    ")))
	}
	switch {
	case judged == nil:
		wrong = append(wrong, "there is no verdict")
	case VerdictOf(judged) != a.After:
		wrong = append(wrong, fmt.Sprintf("the verdict is %s, want %s", VerdictOf(judged), a.After))
	}
	return wrong
}

// WrongAlone returns what is wrong with the verdict on the spans of before: a class
// that they cannot show, or a retry that should not be allowed. It returns "" if
// nothing is.
func (a *Act) WrongAlone(run *report.Run) string {
	if run == nil {
		return "there is no verdict on the spans of before"
	}
	v := VerdictOf(run)
	if v.Class != semconv.ClassUnclassified && v.Class != a.After.Class && !slices.Contains(a.Alone, v.Class) {
		return fmt.Sprintf("on the spans of before the verdict is %s", v)
	}
	if v.Safety < a.After.Safety {
		return fmt.Sprintf("on the spans of before the verdict is %s, and only %s is safe", v, a.After.Safety)
	}
	return ""
}

// Wrong lists the differences of all acts from the expectation.
func (t *PlayedStory) Wrong() (wrong []string) {
	for i := range t.Acts {
		a := &t.Acts[i]
		said := a.Act.Wrong(&a.Before, a.Judged)
		if alone := a.Act.WrongAlone(a.Alone); alone != "" {
			said = append(said, alone)
		}
		for _, s := range said {
			wrong = append(wrong, t.Story.title(a.Act)+": "+s)
		}
	}
	return wrong
}

// String returns the verdict in one line.
func (v Verdict) String() string {
	if v.Class.String() == "" {
		return v.Outcome.String()
	}
	return fmt.Sprintf("%s / %s at %s, origin %s; %s, because of %s", v.Class, v.Cause, v.Phase, v.Origin, v.Safety, v.Reason)
}

// Headline returns the line of the span that was misleading.
func (a *Act) Headline(before *Played) string {
	for _, l := range Lines(before.Spans) {
		if l = strings.TrimSpace(l); strings.HasPrefix(l, a.Misled+"  ") {
			return l
		}
	}
	return ""
}

// Print prints the story.
func (t *PlayedStory) Print(p *report.Printer) {
	s := t.Story
	fmt.Fprintf(p.W, "%s: %s\n\n", s.Name, s.Title)
	paragraph(p.W, "What users saw. "+s.Met)
	paragraph(p.W, "What had happened. "+s.Happened)
	t.Output(p)
	paragraph(p.W, "What to do. "+s.Do)
}

func paragraph(w io.Writer, text string) {
	for _, line := range report.Wrap(text, 96) {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w)
}

// Output prints the traces of each act, before and after. Output that all acts share is
// printed once.
func (t *PlayedStory) Output(p *report.Printer) {
	same := true
	for i := range t.Acts {
		same = same && t.Acts[i].before() == t.Acts[0].before()
	}
	for i := range t.Acts {
		a := &t.Acts[i]
		label := ""
		if a.Act.Label != "" {
			label = ", " + a.Act.Label
		}
		switch {
		case i == 0 && same && len(t.Acts) > 1:
			fmt.Fprintf(p.W, "Before, each time (%s):\n%s\n", t.Story.Telemetry, a.before())
		case i == 0 || !same:
			fmt.Fprintf(p.W, "Before%s (%s):\n%s\n", label, t.Story.Telemetry, a.before())
		}
		p.Detail(report.Row{Label: "After" + label + ":", Run: a.Judged})
		fmt.Fprintln(p.W)
	}
}

// before returns the lines of the spans before, without what differs between acts by
// chance.
func (a *PlayedAct) before() string {
	var b strings.Builder
	for _, l := range Plain(Lines(a.Before.Spans)) {
		fmt.Fprintf(&b, "  %s\n", l)
	}
	if a.Alone != nil {
		fmt.Fprintf(&b, "  llm_classify on these spans alone: %s\n", VerdictOf(a.Alone))
	}
	return b.String()
}
