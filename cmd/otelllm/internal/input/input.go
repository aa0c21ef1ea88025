// Package input reads traces from files, standard input and backends, in every form in
// which traces are stored: OTLP as JSON and protobuf, Jaeger's JSON, compressed or not. The
// form is recognised by the content, never by the name.
package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// The bounds of what is read.
const (
	// MaxDocument is the maximum size of one JSON document, or of one message of
	// protobuf, in bytes.
	MaxDocument = 256 << 20
	// DefaultMaxBytes is the default of [Options.MaxBytes].
	DefaultMaxBytes = 128 << 20
	// maxExpanded bounds how many bytes one compressed source expands to.
	maxExpanded = 64 << 30
	// maxProblems is how many problems of one source are reported one by one.
	maxProblems = 5
)

// Problem is something that is wrong with a source. It has no content of the source.
type Problem struct {
	Source string // the name of the file
	Line   int    // 0: not known, or not of a text
	Err    error
	// Skipped: it is nothing but an empty file, or a last document that was not written
	// to its end.
	Skipped bool
}

// Error implements error.
func (p *Problem) Error() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s, line %d: %v", p.Source, p.Line, p.Err)
	}
	return fmt.Sprintf("%s: %v", p.Source, p.Err)
}

// Unwrap returns the error without its place.
func (p *Problem) Unwrap() error { return p.Err }

// Options are what to read, and how.
type Options struct {
	Stdin io.Reader
	// Only is the trace to keep; empty for all. Others take no memory.
	Only pcommon.TraceID
	// MaxBytes bounds the spans that are kept, in bytes of protobuf; 0 for
	// DefaultMaxBytes. To judge them takes about ten times as much memory.
	MaxBytes int64
	// Report is called for each problem. The spans around it are read.
	Report func(*Problem)
}

// ErrTooMuch is returned if there are more spans than [Options.MaxBytes] allows. Verdicts on
// a part of them could be wrong, so there are none.
var ErrTooMuch = errors.New("too many spans to keep in memory")

// Read reads all sources: files, "-" for standard input, and the URLs of traces in a
// backend. It reads all of them before it returns, so that every trace is complete, however
// its spans are spread. Problems are reported, and do not keep it from reading the rest.
func Read(ctx context.Context, sources []string, o Options) (*Traces, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	all := &Traces{}
	sources, err := Files(sources)
	if err != nil {
		return nil, err
	}
	for _, name := range sources {
		s := &source{ctx: ctx, name: name, options: &o, all: all}
		if err := s.read(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Files returns the sources with each folder, such as that of --keep, replaced by the files in it.
func Files(sources []string) ([]string, error) {
	var all []string
	for _, name := range sources {
		info, err := os.Stat(name)
		if err != nil || !info.IsDir() {
			all = append(all, name) // its reader says what is wrong with it
			continue
		}
		files, err := os.ReadDir(name)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			all = append(all, name) // as above
		}
		for _, f := range files {
			if f.Type().IsRegular() {
				all = append(all, filepath.Join(name, f.Name()))
			}
		}
	}
	return all, nil
}

// source is one source while it is read.
type source struct {
	ctx      context.Context
	name     string // as it is reported
	options  *Options
	all      *Traces
	spans    int
	problems int // that are not only skipped
}

// read reads the source. It returns an error only if nothing else is to be read.
func (s *source) read() error {
	if b, ok, err := parseURL(s.name); ok {
		if err != nil {
			s.report(&Problem{Err: err})
			return nil
		}
		return s.readBackend(b)
	}
	var r io.Reader
	if s.name == "-" {
		s.name, r = "standard input", s.options.Stdin
	} else {
		f, err := open(s.name)
		if err != nil {
			s.report(&Problem{Err: err})
			return nil
		}
		defer f.Close()
		r = f
	}
	err := s.readForm(r, 0)
	switch {
	case err != nil:
		return err
	case s.problems > maxProblems:
		s.options.Report(&Problem{Source: s.name, Err: fmt.Errorf("%d more such problems", s.problems-maxProblems)})
	case s.spans == 0 && s.problems == 0:
		s.report(&Problem{Err: errors.New("it has no spans; skipped"), Skipped: true})
	}
	return nil
}

// open opens a file. Its error does not repeat the name.
func open(name string) (*os.File, error) {
	f, err := os.Open(name)
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return nil, path.Err
	}
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		_ = f.Close()
		return nil, errors.New("it is a folder without files")
	}
	return f, nil
}

// report reports a problem of this source.
func (s *source) report(p *Problem) {
	p.Source = s.name
	if !p.Skipped {
		if s.problems++; s.problems > maxProblems {
			return
		}
	}
	s.options.Report(p)
}

// add keeps spans, and fails if there are too many.
func (s *source) add(td ptrace.Traces) error {
	s.spans += td.SpanCount()
	if !s.options.Only.IsEmpty() {
		td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
			rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool {
				ss.Spans().RemoveIf(func(span ptrace.Span) bool { return span.TraceID() != s.options.Only })
				return ss.Spans().Len() == 0
			})
			return rs.ScopeSpans().Len() == 0
		})
	}
	if td.SpanCount() == 0 {
		return nil
	}
	s.all.bytes += int64((&ptrace.ProtoMarshaler{}).TracesSize(td))
	if s.all.bytes > s.options.MaxBytes {
		return fmt.Errorf("%s: %w: the input has more than %d MiB of spans. Read fewer files at a time, or one trace with --trace, or allow more with --max-mib",
			s.name, ErrTooMuch, s.options.MaxBytes>>20)
	}
	s.all.Add(td)
	return s.ctx.Err()
}
