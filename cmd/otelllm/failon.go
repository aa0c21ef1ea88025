package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// statusFailOn is the exit status if --fail-on matches.
const statusFailOn = 3

// failOn are outcomes and classes.
type failOn map[string]bool

// parseFailOn checks the names that --fail-on is given.
func parseFailOn(names []string) (failOn, error) {
	set := failOn{}
	for _, name := range names {
		_, outcome := semconv.ParseRunOutcome(name)
		_, class := semconv.ParseClass(name)
		if !outcome && !class && name != interrupted {
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

// interrupted is short for the class of interrupted streams.
const interrupted = "interrupted"

func outcomeNames() []string { return names(semconv.RunOutcomeValues()) }
func classNames() []string   { return append(names(semconv.ClassValues()), interrupted) }

func names[T fmt.Stringer](values []T) []string {
	var list []string
	for _, v := range values {
		if name := v.String(); name != "" {
			list = append(list, name)
		}
	}
	return list
}

// matches reports whether a run, or a call that belongs to no run, matches. A failure from
// which the run recovered does not count, unless recovered does.
func (f failOn) matches(r *report.Record) bool {
	return f[text(r, semconv.RunOutcomeKey)] || f[text(r, semconv.FailureClassKey)]
}

// tally takes every record once: for --json and --fail-on, also those for which there is no
// room in memory until the end. It is safe for concurrent use.
type tally struct {
	failOn failOn

	mu      sync.Mutex
	file    *os.File // nil: there is no --json
	matched bool
	err     error // the first one
}

// open creates the file of --json.
func (t *tally) open(path string) (err error) {
	if path == "" {
		return nil
	}
	if t.file, err = createOutput(path); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	return nil
}

// take writes one record a line, and compares it with --fail-on.
func (t *tally) take(records []report.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range records {
		t.matched = t.matched || t.failOn.matches(&records[i])
		if t.file != nil && t.err == nil {
			t.err = json.NewEncoder(t.file).Encode(&records[i])
		}
	}
}

// close closes the file. It returns whether a record matches --fail-on, and what went wrong
// with the file.
func (t *tally) close() (matched bool, err error) {
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
