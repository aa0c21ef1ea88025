package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"strings"
	"sync"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// failOn is a set of outcomes and classes.
type failOn map[string]bool

// parseFailOn checks the names of --fail-on.
func parseFailOn(names []string) (failOn, error) {
	set := failOn{}
	for _, name := range names {
		_, outcome := semconv.ParseRunOutcome(name)
		_, class := semconv.ParseClass(name)
		if !outcome && !class && name != interrupted && name != anything {
			return nil, fmt.Errorf("--fail-on: %q is neither an outcome (%s) nor a class (%s)",
				name, strings.Join(outcomeNames(), ", "), strings.Join(classNames(), ", "))
		}
		if name == interrupted {
			name = semconv.ClassStreamInterrupted.String()
		}
		set[name] = true
	}
	return set, nil
}

const (
	// interrupted is short for the class of interrupted streams.
	interrupted = "interrupted"
	// anything matches whenever the summary does not say "ok": every outcome but succeeded, recovered and waiting, an
	// unknown outcome, a warning, and a command without any model call.
	anything = "any"
)

func outcomeNames() []string { return append(valueNames(semconv.RunOutcomeValues()), anything) }
func classNames() []string   { return append(valueNames(semconv.ClassValues()), interrupted) }

func valueNames[T fmt.Stringer](values []T) []string {
	var list []string
	for _, v := range values {
		if name := v.String(); name != "" {
			list = append(list, name)
		}
	}
	return list
}

// matching returns the name that a run, or a call that belongs to no run, matches; "" for none. A failure from which the
// run recovered does not count, unless recovered does.
func (f failOn) matching(r *report.Record) string {
	for _, name := range []string{text(r, semconv.RunOutcomeKey), text(r, semconv.FailureClassKey)} {
		if f[name] {
			return name
		}
	}
	if f[anything] && (!well(r) || unclear(r) || r.Asked() > 0 || text(r, semconv.RunWarningKey) != "") {
		return anything
	}
	return ""
}

// tally takes every record once, for --json and --fail-on, including records that there is no room for in memory until the
// end. It is safe for concurrent use.
type tally struct {
	failOn failOn

	mu      sync.Mutex
	file    *os.File          // nil: there is no --json
	written map[string]uint64 // hashes of the last lines, by span
	matched string            // the first name that matched; "": none
	err     error             // the first one
}

// open creates the file of --json.
func (t *tally) open(path string) (err error) {
	if path == "" {
		return nil
	}
	if t.file, err = createOutput(path); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	t.written = make(map[string]uint64)
	if err = probe(t.file); err != nil {
		return errors.Join(fmt.Errorf("--json: nothing can be written: %w", err), t.file.Close())
	}
	return nil
}

// take writes records that will not change any more, and compares them with --fail-on.
func (t *tally) take(records []report.Record) {
	t.write(records)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range records {
		t.matched = cmp.Or(t.matched, t.failOn.matching(&records[i]))
	}
}

// write writes each record as a line, unless it equals the last line of the same span: the last line of a span counts.
// Written lines stay if this process is killed.
func (t *tally) write(records []report.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil || t.err != nil {
		return
	}
	var lines bytes.Buffer
	for i := range records {
		line, err := json.Marshal(&records[i])
		if err != nil {
			t.err = err
			return
		}
		span, hash := records[i].TraceID+records[i].SpanID, maphash.Bytes(seed, line)
		if last, ok := t.written[span]; ok && last == hash {
			continue
		}
		t.written[span] = hash
		lines.Write(append(line, '\n'))
	}
	if lines.Len() == 0 {
		return
	}
	if _, t.err = t.file.Write(lines.Bytes()); t.err == nil {
		_ = t.file.Sync() // not possible for a pipe
	}
}

var seed = maphash.MakeSeed()

// close closes the file. It returns the name that matches --fail-on, and the first error of the file.
func (t *tally) close() (matched string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file != nil {
		t.err = cmp.Or(t.err, t.file.Close())
		t.file = nil
	}
	if t.err != nil {
		return t.matched, fmt.Errorf("--json: %w", t.err)
	}
	return t.matched, nil
}
