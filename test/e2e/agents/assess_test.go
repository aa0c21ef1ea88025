//go:build unix

package agents

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// mark says how good the verdicts of a cell are.
type mark string

const (
	right   mark = "right"
	careful mark = "careful" // nothing that is said is wrong, and less is said than could be known
	nothing mark = "nothing"
	wrong   mark = "wrong"
	unsafe  mark = "unsafe"
)

// worst returns the worse of two marks. Nothing is no mark of its own: any other replaces it.
func worst(a, b mark) mark {
	order := []mark{nothing, right, careful, wrong, unsafe}
	if slices.Index(order, a) > slices.Index(order, b) {
		return a
	}
	return b
}

// words is what is said of a run, or of what belongs to none.
func words(r *report.Record) string {
	said := []string{string(r.Kind)}
	for _, key := range []attribute.Key{semconv.RunOutcomeKey, semconv.FailureClassKey, semconv.FailureCauseKey, semconv.RetrySafetyKey} {
		if v := attr(r, key); v != "" {
			said = append(said, v)
		}
	}
	return strings.Join(said, ", ")
}

// saidOf is what is said of the records, in words.
func saidOf(records []report.Record) (said []string) {
	for i := range records {
		said = append(said, words(&records[i]))
	}
	return said
}

// verdict is what words say. What they do not say is unset.
type verdict struct {
	run     bool // of a run; else of a request or a tool that belongs to none
	outcome semconv.RunOutcome
	class   semconv.Class
	cause   semconv.Cause
	safety  semconv.RetrySafety
}

func verdictOf(words string) (v verdict, err error) {
	kind, rest, _ := strings.Cut(words, ", ")
	v.run = kind == string(report.RecordRun)
	for word := range strings.SplitSeq(rest, ", ") {
		var known bool
		switch {
		case word == "":
			known = true
		case v.outcome == semconv.RunOutcomeUnset && v.run && v.class == semconv.ClassUnset:
			v.outcome, known = semconv.ParseRunOutcome(word)
		case v.class == semconv.ClassUnset:
			v.class, known = semconv.ParseClass(word)
		case v.cause == semconv.CauseUnset:
			v.cause, known = semconv.ParseCause(word)
		default:
			v.safety, known = semconv.ParseRetrySafety(word)
		}
		if !known {
			return v, fmt.Errorf("%q: unknown word %q", words, word)
		}
	}
	return v, nil
}

// went is what an agent did, as far as it decides what may be said of it.
type went struct {
	main, side int
	ran        bool // the tool
	killed     bool
	unread     bool // it could not read the answers
	exit       int  // its status; 0 if it was killed
}

func (o *outcome) went() went {
	w := went{main: o.main, side: o.side, ran: o.toolRuns > 0, killed: o.killed, unread: o.unread}
	if !o.killed {
		w.exit = o.exit
	}
	return w
}

// wentOf reads the words of [outcome.did].
func wentOf(did string, side int) (w went, err error) {
	number, rest, _ := strings.Cut(did, " ")
	w.side, w.ran, w.killed = side, strings.Contains(rest, "the tool ran"), strings.HasSuffix(rest, "interrupted")
	w.unread = strings.Contains(rest, unreadWords)
	if _, status, ok := strings.Cut(rest, "exit "); ok {
		if w.exit, err = strconv.Atoi(status); err != nil {
			return w, err
		}
	}
	w.main, err = strconv.Atoi(number)
	return w, err
}

// assess holds what is said against what the server and the agent did. Where there is a run,
// its verdict decides, and of several the worst; a request beside it counts if what is said of
// it is wrong. Without a run the cell is careful at best.
func (f *fault) assess(w went, said []string) (mark, error) {
	var runs, parts []verdict
	for _, words := range said {
		v, err := verdictOf(words)
		if err != nil {
			return wrong, err
		}
		if v.run {
			runs = append(runs, v)
		} else {
			parts = append(parts, v)
		}
	}
	runs = f.withoutSide(w, runs)
	healed, got := f.healed(w), nothing
	recovered := slices.ContainsFunc(runs, func(v verdict) bool { return v.outcome == semconv.RunOutcomeRecovered })
	for _, v := range runs {
		m := f.ofRun(w, v)
		if recovered && healed && v.outcome == semconv.RunOutcomeSucceeded {
			m = right // one request failed, and it was of another run
		}
		got = worst(got, m)
	}
	ofRuns := got
	for _, v := range parts {
		m := f.ofPart(w, v)
		if m == wrong || m == unsafe || ofRuns == nothing {
			got = worst(got, m)
		}
	}
	return got, nil
}

// withoutSide leaves out as many runs that went well as there were requests beside the prompt,
// which the server answers well, such as for a title.
func (f *fault) withoutSide(w went, runs []verdict) (rest []verdict) {
	if f.healed(w) {
		return runs
	}
	for _, v := range runs {
		if v.well() && w.side > 0 {
			w.side--
			continue
		}
		rest = append(rest, v)
	}
	return rest
}

func (v verdict) well() bool {
	return v.outcome == semconv.RunOutcomeSucceeded || v.outcome == semconv.RunOutcomeRecovered
}

func (f *fault) ofRun(w went, v verdict) mark {
	healed := f.healed(w)
	switch {
	case v.safety == semconv.RetrySafetySafeAutoRetry && (f.shows && !healed || w.ran):
		return unsafe
	case v.outcome == semconv.RunOutcomeUnset && v.class == semconv.ClassUnset:
		return nothing
	case w.unread && !v.well():
		return careful // that it cannot read them is in no signal
	case !healed && v.well() && f.decides:
		return careful // every answer came whole, and the agent failed
	case !healed && v.well():
		return wrong
	case !healed:
		return f.ofFailure(w, v)
	case !v.well() && w.killed:
		return careful
	case !v.well() || v.class != semconv.ClassUnset:
		return wrong
	case f.decides, f.breaks() == (v.outcome == semconv.RunOutcomeRecovered):
		return right
	case f.breaks():
		return careful // and something had failed before
	default:
		return wrong // nothing had
	}
}

// breaks reports whether something fails, if only at first.
func (f *fault) breaks() bool { return len(f.classes) > 0 }

func (f *fault) ofPart(w went, v verdict) mark {
	switch {
	case v.safety == semconv.RetrySafetySafeAutoRetry && (f.shows && !f.healed(w) || f.races && w.ran):
		return unsafe
	case v.class == semconv.ClassUnset:
		return nothing
	case w.unread:
		return careful
	case !f.breaks() && !w.killed:
		return wrong
	}
	return worst(careful, f.ofFailure(w, v))
}

// ofFailure is for what is said of a failure that happened.
func (f *fault) ofFailure(w went, v verdict) mark {
	classes, causes := f.classes, f.causes
	if w.killed && f.stop == nil {
		classes = append(slices.Clone(classes), semconv.ClassLocalAbort)
		causes = append(slices.Clone(causes), semconv.CauseConsumerClosed, semconv.CauseShutdown)
	}
	switch {
	case v.class == semconv.ClassUnset, v.class == semconv.ClassUnclassified:
		return careful
	case !slices.Contains(classes, v.class):
		return wrong
	case v.cause == semconv.CauseUnset, v.cause == semconv.CauseUnknown, slices.Contains(causes, v.cause):
		return right
	case slices.Contains(f.vague, v.cause):
		return careful
	default:
		return wrong
	}
}

// The marks that a cell gets.
func TestAssess(t *testing.T) {
	const (
		ok, failed = "run, succeeded", "run, failed, stream_interrupted, connection_reset, user_confirmed_retry"
		provider   = "request, provider_error, server_error, user_confirmed_retry"
		unsure     = "request, unclassified, unknown, user_confirmed_retry"
	)
	for _, tt := range []struct {
		fault, did string
		side       int
		said       []string
		want       mark
	}{
		{"ok_text", "1 request, exit 0", 0, []string{ok}, right},
		{"ok_text", "1 request, exit 0", 0, []string{ok, "request"}, right},
		{"ok_text", "1 request, exit 0", 0, []string{"request"}, nothing},
		{"ok_text", "1 request, exit 0", 0, nil, nothing},
		{"ok_text", "1 request, exit 0", 0, []string{"run"}, nothing},
		{"ok_text", "1 request, exit 0", 0, []string{"run, recovered"}, wrong},
		{"ok_text", "1 request, exit 0", 0, []string{ok, provider}, wrong},
		{"ok_text", "1 request, exit 0", 0, []string{provider}, wrong},
		{"ok_text", "1 request, exit 0", 0, []string{unsure}, wrong},
		{"ok_text", "1 request, exit 0", 0, []string{"run, incomplete, unclassified, unknown, user_confirmed_retry"}, wrong},
		{"gzip_unasked", "3 requests" + unreadWords + ", exit 1", 0, []string{"request", "request"}, nothing},
		{"gzip_unasked", "3 requests" + unreadWords + ", exit 1", 0, []string{"run, incomplete, unclassified, unknown, user_confirmed_retry"}, careful},
		{"gzip_unasked", "3 requests" + unreadWords + ", exit 1", 0, []string{ok}, wrong},
		{"call_reset", "1 request, the tool ran, exit 1", 0, []string{"request, stream_interrupted, connection_reset, safe_auto_retry"}, unsafe},
		{"ok_text", "1 request, interrupted", 0, []string{"run, aborted, local_abort, consumer_closed, no_retry"}, careful},
		{"ok_tool", "2 requests, the tool ran, exit 0", 0, []string{ok, ok}, right},

		{"reset_text", "3 requests, exit 1", 0, []string{failed}, right},
		{"reset_text", "3 requests, exit 1", 0, []string{"run, failed, stream_interrupted, unknown, user_confirmed_retry"}, right},
		{"reset_text", "3 requests, exit 1", 0, []string{"run, failed, stream_interrupted, clean_eof, user_confirmed_retry"}, wrong},
		{"reset_text", "3 requests, exit 1", 0, []string{"run, failed, connection_failed, connect_refused, user_confirmed_retry"}, wrong},
		{"reset_text", "3 requests, exit 1", 0, []string{ok}, wrong},
		{"reset_text", "3 requests, exit 1", 1, []string{ok, failed}, right},
		{"reset_text", "3 requests, exit 1", 1, []string{ok, ok, failed}, wrong},
		{"reset_text", "3 requests, exit 1", 0, []string{failed, "run, incomplete, unclassified, unknown, user_confirmed_retry"}, careful},
		{"reset_text", "3 requests, exit 1", 0, []string{"request, stream_interrupted, unknown, user_confirmed_retry", "request"}, careful},
		{"reset_text", "3 requests, exit 1", 0, []string{"request, stream_interrupted, unknown, user_confirmed_retry", provider}, wrong},
		{"reset_text", "3 requests, exit 1", 0, []string{failed, provider}, wrong},
		{"reset_text", "3 requests, exit 1", 0, []string{failed, unsure}, right},
		{"reset_text", "3 requests, exit 1", 0, []string{strings.Replace(failed, "user_confirmed_retry", "safe_auto_retry", 1)}, unsafe},
		{"reset_text", "3 requests, exit 1", 0, []string{"request, stream_interrupted, unknown, safe_auto_retry"}, unsafe},
		{"reset_headers", "3 requests, exit 1", 0, []string{strings.Replace(failed, "user_confirmed_retry", "safe_auto_retry", 1)}, right},
		{"tool_reset", "3 requests, the tool ran, exit 1", 0, []string{strings.Replace(failed, "user_confirmed_retry", "safe_auto_retry", 1)}, unsafe},

		{"reset_text_once", "2 requests, exit 0", 0, []string{"run, recovered"}, right},
		{"reset_text_once", "2 requests, exit 0", 0, []string{ok}, careful},
		{"reset_text_once", "3 requests, exit 0", 0, []string{"run, recovered", ok}, right},
		{"reset_text_once", "2 requests, exit 0", 0, []string{"run, recovered", "request, stream_interrupted, unknown, user_confirmed_retry"}, right},
		{"reset_text_once", "2 requests, exit 0", 0, []string{"run, recovered", provider}, wrong},
		{"reset_text_once", "2 requests, exit 0", 0, []string{"request, stream_interrupted, unknown, user_confirmed_retry"}, careful},
		{"reset_text_once", "2 requests, exit 0", 0, []string{failed}, wrong},
		{"reset_text_once", "1 request, exit 1", 0, []string{failed}, right},
		{"reset_text_once", "1 request, exit 1", 0, []string{ok}, wrong},

		{"overloaded", "3 requests, exit 1", 0, []string{"run, failed, provider_error, server_error, user_confirmed_retry"}, careful},
		{"unauthorized", "1 request, exit 1", 0, []string{"run, failed, provider_error, invalid_request, no_retry"}, wrong},
		{"stall", "1 request, interrupted", 0, []string{"run, aborted, local_abort, consumer_closed, no_retry"}, right},
		{"reset_after_end", "1 request, exit 0", 0, []string{ok}, right},
		{"reset_after_end", "2 requests, exit 0", 0, []string{"run, recovered"}, right},
		{"reset_after_end", "1 request, exit 0", 0, []string{failed}, wrong},
		{"reset_after_end", "1 request, exit 1", 0, []string{failed}, right},
		{"reset_after_end", "1 request, exit 1", 0, []string{ok}, careful},
		{"ctrl_c_in_tool", "1 request, the tool ran, interrupted", 0, []string{"run, aborted, local_abort, user, no_retry"}, right},
		{"kill_in_tool", "1 request, the tool ran, interrupted", 0, []string{"run, incomplete, run_abandoned, process_died, user_confirmed_retry"}, right},
		{"kill_in_tool", "1 request, the tool ran, interrupted", 0, []string{"run, aborted, local_abort, user, no_retry"}, wrong},
		{"stall", "1 request, exit 1", 0, []string{"run, failed, watchdog_timeout, idle, user_confirmed_retry"}, right},
	} {
		w, err := wentOf(tt.did, tt.side)
		require.NoError(t, err)
		got, err := faultOf("codex", tt.fault).assess(w, tt.said)
		require.NoError(t, err)
		assert.Equal(t, tt.want, got, "%s: %s: %s", tt.fault, tt.did, tt.said)
	}
	w, err := wentOf("1 request, interrupted", 0)
	require.NoError(t, err)
	got, err := faultOf("cline", "kill_in_text").assess(w, []string{"run, aborted, local_abort, consumer_closed, no_retry"})
	require.NoError(t, err)
	assert.Equal(t, careful, got, "otelllm proxy sees no more")
	_, err = verdictOf("run, no such outcome")
	require.Error(t, err)
}

// faultOf is the fault of this name as it is played to an agent.
func faultOf(title, name string) *fault {
	if title == codexWS.title() {
		if i := slices.IndexFunc(wsFaults, func(f wsFault) bool { return f.name == name }); i >= 0 {
			return &wsFaults[i].fault
		}
	}
	i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	if a := slices.IndexFunc(agents, func(a agent) bool { return a.title() == title }); a >= 0 {
		return faults[i].of(&agents[a])
	}
	return &faults[i]
}

// What an agent did can be read from the words for it.
func TestDid(t *testing.T) {
	for _, o := range []outcome{{main: 1}, {main: 12, exit: 1, toolRuns: 2}, {main: 3, killed: true}, {main: 3, toolRuns: 1, killed: true}, {main: 3, exit: 1, unread: true}} {
		w, err := wentOf(o.did(), 4)
		require.NoError(t, err)
		o.side = 4
		assert.Equal(t, o.went(), w, o.did())
	}
	assert.Equal(t, careful, cmp.Or(worst(right, careful), nothing))
}
