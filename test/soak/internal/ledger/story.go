package ledger

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/semconv"
)

// Tell writes everything that is recorded about a trace, for the analysis of a problem.
// Times are seconds since began.
func (l *Ledger) Tell(w io.Writer, trace pcommon.TraceID, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := func(t moment) string {
		if t.IsZero() {
			return "-"
		}
		return fmt.Sprintf("%.3f", l.time(t).Sub(began).Seconds())
	}
	fmt.Fprintf(w, "trace %s\n", trace)
	for _, s := range l.stops {
		fmt.Fprintf(w, "  the Collector ended: %s to %s, kill %v\n", at(s.began), at(s.ended), s.kill)
	}
	var spans []*span
	for s := range l.all {
		if s.key.Trace == trace {
			spans = append(spans, s)
		}
	}
	slices.SortFunc(spans, func(a, b *span) int {
		return cmp.Or(cmp.Compare(a.first, b.first), slices.Compare(a.key.Span[:], b.key.Span[:]))
	})
	for _, s := range spans {
		owner := ""
		if r := l.runOf(s); r != nil {
			owner = " of run " + r.key.Span.String()
		}
		fmt.Fprintf(w, "  %s %-10s%s: sent %s, acknowledged %s, %d attempts, %d without an answer", s.key.Span, roles[s.role], owner,
			at(s.first), at(s.acked), s.attempts, s.unknown)
		tell(w, l.copies(s), at)
	}
	for _, k := range l.invented {
		if k.Trace == trace {
			fmt.Fprintf(w, "  %s was never sent\n", k.Span)
		}
	}
	for k, r := range l.runs {
		if k.Trace == trace {
			fmt.Fprintf(w, "  %s run, %s, planned %q", k.Span, r.shape, r.plan.Outcome)
			tell(w, r.abandoned, at)
		}
	}
}

func tell(w io.Writer, copies []delivery, at func(moment) string) {
	for _, d := range copies {
		fmt.Fprintf(w, "; out %s", at(d.at))
		if d.trigger != semconv.TriggerUnset {
			fmt.Fprintf(w, " by %s", d.trigger)
		}
		if d.judges() {
			fmt.Fprintf(w, " as %s", d.outcome)
		}
	}
	fmt.Fprintln(w)
}
