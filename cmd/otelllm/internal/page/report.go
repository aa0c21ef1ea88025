package page

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// The bounds of a file, so that a browser opens it in a second or two.
const (
	maxRows        = 100_000  // runs in the list
	maxDetailBytes = 32 << 20 // records that can be looked at
	blockLines     = 256      // records that the page reads together
	maxRecordBytes = 4 << 20  // one record
	largeRecord    = 64 << 10 // most are smaller by far
)

// meta is what the page knows beside the runs.
type meta struct {
	Live    bool                         `json:"live"`
	Written time.Time                    `json:"written"`
	Total   int                          `json:"total"`   // runs that there were
	Details int                          `json:"details"` // runs that can be looked at
	Words   map[string]map[string]string `json:"words"`
}

// WriteReport writes the records as one HTML file that needs nothing else. The list has the
// newest 100,000. Of these, the file has the whole records as far as 32 MiB suffice, runs that
// failed first and the newest first among these, and it says what it had to leave out. The
// records are written one by one and are not changed.
func WriteReport(w io.Writer, records []report.Record) error {
	return (&writer{w: bufio.NewWriterSize(w, 64<<10), maxRows: maxRows, maxBytes: maxDetailBytes}).write(records, time.Now())
}

// writer writes one file.
type writer struct {
	w        *bufio.Writer // it keeps the first error
	maxRows  int
	maxBytes int
	block    int // number of the block that is open, from 1 on
	lines    int // in that block
}

func (w *writer) write(records []report.Record, now time.Time) error {
	order := newestFirst(records)
	total := len(order)
	order = order[:min(total, w.maxRows)]
	rows := make([]row, len(order))
	for i, at := range order {
		rows[i] = newRow(&records[at])
	}
	w.text(fileShell.before)
	details, err := w.details(records, order, rows)
	if err != nil {
		return err
	}
	if err := w.list(rows); err != nil {
		return err
	}
	if err := w.json("meta", meta{Written: now.UTC(), Total: total, Details: details, Words: words}); err != nil {
		return err
	}
	w.text(fileShell.after)
	if err := w.w.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// newestFirst returns the indices of the records in the order of the list.
func newestFirst(records []report.Record) []int {
	order := make([]int, len(records))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(records[b].Start.Compare(records[a].Start), cmp.Compare(records[a].SpanID, records[b].SpanID))
	})
	return order
}

// details writes the records that there is room for, a line each, and sets where they are in
// their rows.
func (w *writer) details(records []report.Record, order []int, rows []row) (n int, err error) {
	left := w.maxBytes
	for _, failed := range []bool{true, false} {
		for i, at := range order {
			if (rows[i].Class != "") != failed {
				continue
			}
			line, err := detail(&records[at])
			if err != nil {
				return n, err
			}
			if len(line) > left {
				if len(line) > largeRecord {
					continue // the next ones may still fit
				}
				break
			}
			left -= len(line)
			n++
			w.line(line)
			rows[i].Block, rows[i].Line = w.block, w.lines
		}
	}
	if w.lines > 0 {
		w.text("</script>\n")
	}
	return n, nil
}

// line writes a line of the open block, or of a new one.
func (w *writer) line(line []byte) {
	if w.lines == blockLines {
		w.text("</script>\n")
		w.lines = 0
	}
	if w.lines == 0 {
		w.block++
		fmt.Fprintf(w.w, "<script type=\"application/json\" id=\"block-%d\">", w.block)
	}
	w.lines++
	_, _ = w.w.Write(line)
	w.text("\n")
}

// list writes the rows, one a line.
func (w *writer) list(rows []row) error {
	w.text("<script type=\"application/json\" id=\"rows\">[")
	for i := range rows {
		if i > 0 {
			w.text(",\n")
		}
		raw, err := json.Marshal(&rows[i])
		if err != nil {
			return fmt.Errorf("encode a run: %w", err)
		}
		_, _ = w.w.Write(raw)
	}
	w.text("]</script>\n")
	return nil
}

// json writes a value. The encoder escapes <, > and &, so no value ends the element, and
// U+2028 and U+2029, which end a line in a script.
func (w *writer) json(id string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the page: %w", err)
	}
	fmt.Fprintf(w.w, "<script type=\"application/json\" id=\"%s\">%s</script>\n", id, raw)
	return nil
}

func (w *writer) text(s string) { _, _ = w.w.WriteString(s) }

// detail returns a record as the page reads it: its JSON, and how many of its parts are left
// out because there are too many. The record comes last, so that the page can copy its text.
func detail(r *report.Record) ([]byte, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode a run: %w", err)
	}
	leftOut := 0
	for keep := 512; len(raw) > maxRecordBytes && keep > 0; keep /= 4 {
		short := *r
		short.Requests, short.Tools, short.Served = head(r.Requests, keep), head(r.Tools, keep), head(r.Served, keep)
		leftOut = len(r.Requests) - len(short.Requests) + len(r.Tools) - len(short.Tools) + len(r.Served) - len(short.Served)
		if raw, err = json.Marshal(short); err != nil {
			return nil, fmt.Errorf("encode a run: %w", err)
		}
	}
	return fmt.Appendf(nil, `{"left_out":%d,"record":%s}`, leftOut, raw), nil
}

func head(list []report.Record, n int) []report.Record { return list[:min(len(list), n)] }
