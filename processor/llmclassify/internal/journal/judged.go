package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/zap"
)

// Judged is what was judged of a trace at one time.
type Judged struct {
	At    time.Time // in milliseconds
	Trace pcommon.TraceID
	// Tenant is the key of the tenant that it was of, 0 where there is only one.
	Tenant uint64
	// Counts: the runs count as runs of the trace.
	Counts bool
	// Forgot: facts of the trace were forgotten, or what is here of a judged run does not
	// outlast the process. Without a trace: see MarksLost.
	Forgot bool
	Runs   []pcommon.SpanID
	Spans  []pcommon.SpanID // of judged runs, or between those
}

// MarksLost reports whether the record only says that earlier ones are missing which were of
// traces of which something was forgotten.
func (r *Judged) MarksLost() bool {
	return r.Forgot && r.Trace.IsEmpty() && len(r.Runs)+len(r.Spans) == 0
}

// Bits in the time of a record. Earlier versions did not write them.
const (
	forgotBit = 1 << 48 // it is Forgot
	tenantBit = 1 << 49 // it has a Tenant, after the trace
)

// Append encodes what was judged, for [Journal.Update].
func (r *Judged) Append(to []byte) []byte {
	at := uint64(min(max(r.At.UnixMilli(), 0), forgotBit-1)) //nolint:gosec // not negative
	if r.Forgot {
		at |= forgotBit
	}
	if r.Tenant != 0 {
		at |= tenantBit
	}
	to = binary.AppendUvarint(to, at)
	to = append(to, r.Trace[:]...)
	if r.Tenant != 0 {
		to = binary.LittleEndian.AppendUint64(to, r.Tenant)
	}
	runs := uint64(len(r.Runs)) << 1
	if r.Counts {
		runs |= 1
	}
	to = binary.AppendUvarint(to, runs)
	to = binary.AppendUvarint(to, uint64(len(r.Spans)))
	for _, list := range [...][]pcommon.SpanID{r.Runs, r.Spans} {
		for i := range list {
			to = append(to, list[i][:]...)
		}
	}
	return to
}

var errCut = errors.New("truncated record")

const idSize = len(pcommon.SpanID{})

// header decodes the first record of data up to its ids, and checks that data has as many
// ids as it announces.
func (r *Judged) header(data []byte) (runs, spans int, rest []byte, err error) {
	at, n := binary.Uvarint(data)
	if n <= 0 || len(data)-n < len(r.Trace) {
		return 0, 0, nil, errCut
	}
	r.Forgot = at&forgotBit != 0
	hasTenant := at&tenantBit != 0
	if at &^= forgotBit | tenantBit; at > forgotBit {
		return 0, 0, nil, errors.New("invalid time in a record")
	}
	r.At = time.UnixMilli(int64(at)) //nolint:gosec // checked
	data = data[n:]
	data = data[copy(r.Trace[:], data):]
	r.Tenant = 0
	if hasTenant {
		if len(data) < 8 {
			return 0, 0, nil, errCut
		}
		r.Tenant, data = binary.LittleEndian.Uint64(data), data[8:]
	}
	manyRuns, n := binary.Uvarint(data)
	if n <= 0 {
		return 0, 0, nil, errCut
	}
	data = data[n:]
	manySpans, n := binary.Uvarint(data)
	if n <= 0 {
		return 0, 0, nil, errCut
	}
	data = data[n:]
	r.Counts = manyRuns&1 != 0
	manyRuns >>= 1
	room := uint64(len(data) / idSize) //nolint:gosec // not negative
	if manyRuns > room || manySpans > room-manyRuns {
		return 0, 0, nil, errCut
	}
	return int(manyRuns), int(manySpans), data, nil //nolint:gosec // there are as many
}

// Next decodes the first record of data, as Append encodes it, and returns the rest.
func (r *Judged) Next(data []byte) (rest []byte, err error) {
	runs, spans, data, err := r.header(data)
	if err != nil {
		return nil, err
	}
	ids := make([]pcommon.SpanID, runs+spans)
	for i := range ids {
		data = data[copy(ids[i][:], data):]
	}
	r.Runs, r.Spans = ids[:runs:runs], ids[runs:]
	return data, nil
}

// What was judged is stored in segments, one after the other. The newest one is in parts,
// of which the last is written again with each update until it is large enough; when there
// are enough parts, they become one segment. So there are few keys, and little is written
// more than twice.
//
//	judged           the number of the first segment that may exist, and of the newest
//	judged.<n>       segment n, but for the newest
//	judged.<n>.<i>   part i of the newest segment
const (
	judgedKey  = "judged"
	judgedPart = judgedKey + "."
)

const (
	// maxPart and maxSegment are the sizes at which a part and a segment are full, in
	// bytes; the last update may make them a little larger.
	maxPart    = 4 << 10
	maxSegment = 64 << 10
	// maxParts bounds the parts of a segment.
	maxParts = maxSegment/maxPart + 1
	// minSegments is how many segments there is always room for; there are never
	// maxSegments.
	minSegments = 4
	maxSegments = 1 << 16
)

// judgedLog is what was judged, in the storage. It is guarded by Journal.writing.
type judgedLog struct {
	keep  time.Duration // how long a segment is kept after its last record
	bound int           // bytes of all segments

	sealed []segment // in order
	bytes  int       // of sealed
	open   segment
	there  bool // judgedKey is up to date
	// lost is when the last of the records that are missing was made, if that is not written
	// yet; else zero.
	lost time.Time
	// pending: records could not be written, and are to be written next
	pending bool

	records []byte // of the open segment
	part    int    // the one that is written next
	from    int    // where it begins in records
}

// segment is a row of records.
type segment struct {
	seq         uint64
	bytes       int
	began, last time.Time // of its records
	marks       bool      // a record is Forgot
}

func segmentKey(seq uint64) string { return judgedPart + strconv.FormatUint(seq, 10) }

func partKey(seq uint64, part int) string { return segmentKey(seq) + "." + strconv.Itoa(part) }

// readRecords reads a part of a segment.
func readRecords(value []byte, yield func(*Judged)) (records []byte, err error) {
	if records, err = unseal(judgedMagic, value); err != nil {
		return nil, err
	}
	var all []Judged
	for rest := records; len(rest) > 0; {
		var r Judged
		if rest, err = r.Next(rest); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	for i := range all {
		yield(&all[i])
	}
	return records, nil
}

// Recall reads what was judged by earlier processes, in order, and from then on keeps what
// is judged for as long as keep, and in at most about bound bytes. It is called once,
// before [Journal.Replay]. What is unreadable is set aside, and logged, and a record that
// MarksLost takes its place. It may yield a record twice.
func (j *Journal) Recall(ctx context.Context, now time.Time, keep time.Duration, bound int, yield func(*Judged)) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	l := &j.judged
	l.keep, l.bound = keep, max(bound, minSegments*maxSegment)
	index, err := j.client.Get(ctx, judgedKey)
	if err != nil {
		return fmt.Errorf("reading the index of judged runs from the storage: %w", err)
	}
	// Far above what a process could have written: nothing is overwritten.
	unused := uint64(now.UnixNano()) //nolint:gosec // after 1970
	segments, newest, unreadable := j.found.segmentNumbers(index, unused)
	if unreadable != nil {
		if err := j.indexUnreadable(ctx, index, newest, unreadable); err != nil {
			return err
		}
		if j.found == nil {
			l.lose(now)
			yield(&Judged{At: now, Forgot: true})
		}
	}
	l.there = index != nil
	for _, seq := range segments {
		s := segment{seq: seq}
		records, _, err := j.recallPart(ctx, now, &s, segmentKey(seq), yield)
		if err != nil {
			return err
		}
		s.bytes = len(records)
		l.sealed = append(l.sealed, s)
		l.bytes += s.bytes
	}
	l.open.seq = newest
	for part := range maxParts {
		records, found, err := j.recallPart(ctx, now, &l.open, partKey(newest, part), yield)
		if err != nil {
			return err
		}
		if found {
			l.part = part + 1
		}
		l.records = append(l.records, records...)
	}
	l.from = len(l.records)
	return nil
}

// segmentNumbers are the numbers of the segments that may be in the storage, in order, and
// of the newest one, which is in parts. An error is about the index: the numbers are those
// that were found without it; where there are none, the newest is unused.
func (f *found) segmentNumbers(index []byte, unused uint64) (segments []uint64, newest uint64, unreadable error) {
	var first uint64
	if index != nil {
		first, newest, unreadable = readRange(indexMagic, index)
		if unreadable == nil && f == nil && newest-first > maxSegments {
			unreadable = errRange
		}
	}
	switch {
	case f != nil && f.inParts():
		return f.segments, f.parts[len(f.parts)-1], unreadable
	case f != nil && len(f.segments) > 0:
		return f.segments, max(newest, f.segments[len(f.segments)-1]+1), unreadable
	case unreadable != nil:
		return nil, unused, unreadable
	case f == nil:
		for seq := first; seq < newest; seq++ {
			segments = append(segments, seq)
		}
	}
	return segments, newest, nil
}

// inParts reports whether the newest segment is in parts.
func (f *found) inParts() bool {
	n, parts := len(f.segments), len(f.parts)
	return parts > 0 && (n == 0 || f.segments[n-1] < f.parts[parts-1])
}

// indexUnreadable sets the index of judged runs aside, and writes another one.
func (j *Journal) indexUnreadable(ctx context.Context, value []byte, newest uint64, why error) error {
	aside, err := j.setAside(ctx, single(judgedKey, value), storage.SetOperation(judgedKey, sealRange(indexMagic, newest, newest)))
	if err != nil {
		return fmt.Errorf("setting the unreadable index of judged runs aside: %w", err)
	}
	message := "The index of judged runs is unreadable; their records are found without it"
	if j.found == nil {
		message = "The index of judged runs is unreadable, and this storage cannot list what it has; late spans of runs that an earlier process judged may be judged again"
	}
	j.logger.Warn(message, zap.Int("bytes", len(value)), zap.String("key", aside), zap.Error(why))
	return nil
}

// recallPart reads the records under a key, if there are any.
func (j *Journal) recallPart(ctx context.Context, now time.Time, s *segment, key string, yield func(*Judged)) (records []byte, found bool, err error) {
	value, err := j.client.Get(ctx, key)
	if err != nil {
		return nil, false, fmt.Errorf("reading judged runs from the storage: %w", err)
	}
	if value == nil {
		return nil, false, nil
	}
	records, err = readRecords(value, func(r *Judged) {
		s.extend(r)
		yield(r)
	})
	if err != nil {
		j.recordsUnreadable(ctx, key, value, err)
		j.judged.lose(now)
		yield(&Judged{At: now, Forgot: true})
		return nil, true, nil
	}
	return records, true, nil
}

func (j *Journal) recordsUnreadable(ctx context.Context, key string, value []byte, why error) {
	aside, err := j.setAside(ctx, single(key, value))
	if err != nil {
		j.logger.Error("Failed to move unreadable records of judged runs", zap.String("key", key), zap.Error(err))
		return
	}
	j.logger.Warn("Records of judged runs are unreadable; they are kept in the storage under another key, and late spans of these runs may be judged again",
		zap.Int("bytes", len(value)), zap.String("key", aside), zap.Error(why))
}

// extend extends a segment by its next record.
func (s *segment) extend(r *Judged) {
	if s.began.IsZero() {
		s.began = r.At
	}
	s.last = r.At
	s.marks = s.marks || r.Forgot
}

// lose notes that records are missing that were made until then. They are pending as such.
func (l *judgedLog) lose(at time.Time) {
	if at.After(l.lost) {
		l.lost = at
	}
	l.pending = true
}

// write adds records, and returns the operations that write them.
func (l *judgedLog) write(records []byte) (ops []*storage.Operation) {
	l.add(records)
	now := l.open.last
	gone := 0
	for _, s := range l.sealed {
		old := now.Sub(s.last) >= l.keep
		if !old && l.bytes+len(l.records) <= l.bound {
			break
		}
		if !old && s.marks {
			l.lose(now)
		}
		ops = append(ops, storage.DeleteOperation(segmentKey(s.seq)))
		l.bytes -= s.bytes
		gone++
	}
	l.sealed = l.sealed[gone:]
	if !l.lost.IsZero() {
		if l.lost.After(now) {
			now = l.lost
		}
		l.add((&Judged{At: now, Forgot: true}).Append(nil))
		l.lost = time.Time{}
	}
	l.pending = false
	all := len(l.records)
	full := all >= maxSegment || l.part == maxParts || now.Sub(l.open.began) >= l.keep/2
	if full {
		ops = append(ops, storage.SetOperation(segmentKey(l.open.seq), seal(judgedMagic, l.records)))
		for part := range min(l.part+1, maxParts) {
			ops = append(ops, storage.DeleteOperation(partKey(l.open.seq, part)))
		}
		l.open.bytes = all
		l.sealed = append(l.sealed, l.open)
		l.bytes += all
		l.open = segment{seq: l.open.seq + 1}
		l.records, l.part, l.from = nil, 0, 0
	} else {
		ops = append(ops, storage.SetOperation(partKey(l.open.seq, l.part), seal(judgedMagic, l.records[l.from:])))
		if all-l.from >= maxPart {
			l.part++
			l.from = all
		}
	}
	if full || gone > 0 || !l.there {
		l.there = true
		first := l.open.seq
		if len(l.sealed) > 0 {
			first = l.sealed[0].seq
		}
		ops = append(ops, storage.SetOperation(judgedKey, sealRange(indexMagic, first, l.open.seq)))
	}
	return ops
}

// add adds records without writing them.
func (l *judgedLog) add(records []byte) {
	if l.open.extendAll(records) {
		l.records = append(l.records, records...)
	}
}

// extendAll extends a segment by records. It returns false if they could not be read back.
func (s *segment) extendAll(records []byte) bool {
	var r Judged
	for rest := records; len(rest) > 0; s.extend(&r) {
		runs, spans, ids, err := r.header(rest)
		if err != nil {
			return false
		}
		rest = ids[(runs+spans)*idSize:]
	}
	return true
}

// failed takes back that records were written. They are written with the next update, or, if
// updates have failed for so long that there is no room for them, that they are missing.
func (l *judgedLog) failed(before judgedLog, records []byte) {
	*l = before
	l.pending = l.pending || len(records) > 0
	if len(l.records)+len(records) <= l.bound {
		l.add(records)
		return
	}
	var missing segment
	missing.extendAll(records)
	l.lose(missing.last)
}
