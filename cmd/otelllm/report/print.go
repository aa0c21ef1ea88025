package report

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/otelllm/otelllm-go/semconv"
)

// Printer prints runs, whose names may be foreign: what they contain is [Printable] first. It
// ignores errors of the writer.
type Printer struct {
	W     io.Writer
	Color bool
}

// NewPrinter returns a printer to f, with color if f is a terminal that supports it.
func NewPrinter(f *os.File) *Printer {
	info, err := f.Stat()
	tty := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &Printer{W: f, Color: tty && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// Row is one run with the label that the reader knows. A nil Run has no verdict yet.
type Row struct {
	Label string
	Run   *Run
}

var columns = [...]string{"outcome", "class", "cause", "phase", "retry"}

// Cells returns the columns of the table after the label.
func (r Row) Cells() [len(columns)]string {
	if r.Run == nil {
		return [len(columns)]string{"no verdict", "-", "-", "-", "-"}
	}
	v := &r.Run.Verdict
	cells := [len(columns)]string{v.Outcome.String(), v.Class.String(), v.Cause.String(), v.Phase.String(), v.Safety.String()}
	for i := range cells {
		if cells[i] == "" {
			cells[i] = "-"
		}
	}
	return cells
}

// Table prints one line per run, in aligned columns.
func (p *Printer) Table(rows []Row) {
	label := 0
	var widths [len(columns)]int
	for i, c := range columns {
		widths[i] = len(c)
	}
	for _, r := range rows {
		label = max(label, utf8.RuneCountInString(Printable(r.Label)))
		for i, c := range r.Cells() {
			widths[i] = max(widths[i], len(c))
		}
	}
	p.line(p.paint(dim, "%s", pad("", label)), func(i int) string { return p.paint(dim, "%s", pad(columns[i], widths[i])) })
	for _, r := range rows {
		cells := r.Cells()
		p.line(pad(Printable(r.Label), label), func(i int) string {
			text := pad(cells[i], widths[i])
			switch columns[i] {
			case "outcome":
				return p.paint(outcomeColor(r.Run), "%s", text)
			case "retry":
				return p.paint(safetyColor(r.Run), "%s", text)
			default:
				return text
			}
		})
	}
}

func (p *Printer) line(label string, cell func(int) string) {
	var b strings.Builder
	b.WriteString(label)
	for i := range columns {
		b.WriteString("  ")
		b.WriteString(cell(i))
	}
	fmt.Fprintln(p.W, strings.TrimRight(b.String(), " "))
}

// Detail prints what an operator needs to know about one run: what broke, what can be
// done, what happened when, and where to look next.
func (p *Printer) Detail(r Row) {
	fmt.Fprintln(p.W, p.paint(bold, "%s", Printable(r.Label)))
	if r.Run == nil {
		fmt.Fprintln(p.W, "  no verdict has come for it")
		return
	}
	v := &r.Run.Verdict
	for _, line := range Wrap(v.Summary, 96) {
		fmt.Fprintf(p.W, "  %s\n", Printable(line))
	}
	before := ": "
	if v.Outcome == semconv.RunOutcomeUnset { // a call without a run
		before = ""
	}
	p.field("what", p.paint(outcomeColor(r.Run), "%s", v.Outcome)+optional(before, v.Class.String())+optional(" / ", v.Cause.String())+
		optional(", phase ", v.Phase.String())+optional(", origin ", v.Origin.String())+optional(", confidence ", v.Confidence.String()))
	if v.Safety != semconv.RetrySafetyUnset {
		p.field("retry", p.paint(safetyColor(r.Run), "%s", v.Safety)+optional(", because of ", v.Reason.String()))
	}
	if v.Recovered > 0 {
		p.field("made good", plural(v.Recovered, "failure"))
	}
	if len(v.MissingOutputs) > 0 {
		p.field("lost", "the output of "+Printable(strings.Join(v.MissingOutputs, ", ")))
	}
	p.Field("warning", v.Warning)
	for i := range r.Run.Served {
		if s := &r.Run.Served[i]; s.Verdict.Failed() {
			p.field("beneath", Printable(s.Service)+optional(", ", s.Name)+": "+s.Verdict.Class.String()+optional(" / ", s.Verdict.Cause.String()))
		}
	}
	for i, line := range v.Timeline {
		name := ""
		if i == 0 {
			name = "timeline"
		}
		p.field(name, Printable(line))
	}
	p.field("trace", r.Run.TraceID.String())
}

// Field prints one more line of a detail, if there is a text.
func (p *Printer) Field(name, text string) {
	if text != "" {
		p.field(name, Printable(text))
	}
}

func (p *Printer) field(name, text string) {
	fmt.Fprintf(p.W, "  %s %s\n", p.paint(dim, "%-9s", name), text)
}

func optional(before, text string) string {
	if text == "" {
		return ""
	}
	return before + Printable(text)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func pad(s string, width int) string {
	if n := width - utf8.RuneCountInString(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}

// Wrap breaks a text into lines of at most width runes, between words if possible.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
