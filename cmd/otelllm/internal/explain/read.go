package explain

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// maxLine bounds one record, in bytes.
const maxLine = 64 << 20

// ReadRecords reads what `run --json` and `classify --json` write: a record in each line. It
// reports false if the first line is not a record; the source is then of another form. A last
// line that was not written to its end is skipped.
func ReadRecords(r io.Reader) (records []report.Record, ok bool, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	at := make(map[string]int) // of each span in records
	for lines.Scan() {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var record report.Record
		bad := json.Unmarshal(text, &record) != nil
		switch {
		case !bad && record.Kind != "" && record.TraceID != "":
			span := record.TraceID + record.SpanID
			if i, again := at[span]; again { // more has become known of it
				records[i] = record
				continue
			}
			at[span] = len(records)
			records = append(records, record)
		case len(records) == 0:
			return nil, false, nil
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return nil, false, err
	}
	return records, len(records) > 0, nil
}

// minPrefix is the fewest digits of an id that name a run.
const minPrefix = 4

// Find returns the runs that an id names, or the beginning of one: that of the run's span, of its
// trace, or of a part; "last" is the run that ended last, of those that failed if any did. A run
// comes before a call without one.
func Find(records []report.Record, id string) []*report.Record {
	var found []*report.Record
	if id == "last" {
		return last(records)
	}
	id = strings.ToLower(id)
	if len(id) < minPrefix {
		return nil
	}
	has := func(r *report.Record) bool {
		return strings.HasPrefix(r.SpanID, id) || strings.HasPrefix(r.TraceID, id)
	}
	for i := range records {
		r := &records[i]
		if has(r) || slices.ContainsFunc(slices.Concat(r.Requests, r.Tools), func(p report.Record) bool { return has(&p) }) {
			found = append(found, r)
		}
	}
	if runs := slices.DeleteFunc(slices.Clone(found), func(r *report.Record) bool { return r.Kind != report.RecordRun }); len(runs) > 0 {
		return runs
	}
	return found
}

func last(records []report.Record) []*report.Record {
	var best *report.Record
	rank := func(r *report.Record) int {
		if verdictOf(r).Class != "" {
			return 1
		}
		return 0
	}
	for i := range records {
		r := &records[i]
		if best == nil || rank(r) > rank(best) || rank(r) == rank(best) && r.End.After(best.End) {
			best = r
		}
	}
	if best == nil {
		return nil
	}
	return []*report.Record{best}
}
