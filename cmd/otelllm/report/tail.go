package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// Tail reads a file of OTLP JSON lines while it is being written. It is not safe for
// concurrent use.
type Tail struct {
	path    string
	offset  int64
	partial []byte // an incomplete last line
	decoder ptrace.JSONUnmarshaler
}

// NewTail returns a reader of path, which need not exist yet.
func NewTail(path string) *Tail { return &Tail{path: path} }

// Read adds the spans written since the last call, complete lines only, and reports
// whether there were any.
func (t *Tail) Read(into *Spans) (bool, error) {
	f, err := os.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if _, err := f.Seek(t.offset, io.SeekStart); err != nil {
		return false, err
	}
	fresh, err := io.ReadAll(f)
	if err != nil {
		return false, err
	}
	t.offset += int64(len(fresh))
	t.partial = append(t.partial, fresh...)
	for {
		line, rest, whole := bytes.Cut(t.partial, []byte("\n"))
		if !whole {
			return len(fresh) > 0, nil
		}
		t.partial = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		td, err := t.decoder.UnmarshalTraces(line)
		if err != nil {
			return true, fmt.Errorf("%s: a line is not OTLP JSON: %w", t.path, err)
		}
		into.Add(td)
	}
}
