package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

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

// any reports whether a run, or a call that belongs to no run, matches. A failure from which
// the run recovered does not count, unless recovered does.
func (f failOn) any(records []report.Record) bool {
	for i := range records {
		if f[text(&records[i], semconv.RunOutcomeKey)] || f[text(&records[i], semconv.FailureClassKey)] {
			return true
		}
	}
	return false
}

// jsonFile is the file of --json, or nil.
type jsonFile struct{ *os.File }

func createJSON(path string) (*jsonFile, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--json: %w", err)
	}
	return &jsonFile{f}, nil
}

// write writes one record a line.
func (f *jsonFile) write(records []report.Record) error {
	if f == nil {
		return nil
	}
	lines := json.NewEncoder(f)
	for i := range records {
		if err := lines.Encode(&records[i]); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
	}
	return nil
}

// Close closes the file.
func (f *jsonFile) Close() error {
	if f == nil {
		return nil
	}
	return f.File.Close()
}
