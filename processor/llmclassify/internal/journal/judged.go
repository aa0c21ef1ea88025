package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
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
	// Counts: the runs count as runs of the trace.
	Counts bool
	Runs   []pcommon.SpanID
	Spans  []pcommon.SpanID // of judged runs, or between those
}

// Append encodes what was judged, for [Journal.Update].
func (r *Judged) Append(to []byte) []byte {
	to = binary.AppendUvarint(to, uint64(max(r.At.UnixMilli(), 0))) //nolint:gosec // not negative
	to = append(to, r.Trace[:]...)
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
	if at > 1<<48 {
		return 0, 0, nil, errors.New("invalid time in a record")
	}
	r.At = time.UnixMilli(int64(at)) //nolint:gosec // checked
	data = data[n:]
	data = data[copy(r.Trace[:], data):]
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

// next decodes the first record of data, and returns the rest.
func (r *Judged) next(data []byte) (rest []byte, err error) {
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

// A part: its magic, CRC-32C of what follows, records.
const (
	judgedMagic = "llmr\x01"
	recordsAt   = len(judgedMagic) + 4
)

// judgedLog is what was judged, in the storage. It is guarded by Journal.writing.
type judgedLog struct {
	keep  time.Duration // how long a segment is kept after its last record
	bound int           // bytes of all segments

	sealed []segment // in order, without gaps
	bytes  int       // of sealed
	open   segment
	there  bool // judgedKey is up to date
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
}

func segmentKey(seq uint64) string { return judgedPart + strconv.FormatUint(seq, 10) }

func partKey(seq uint64, part int) string { return segmentKey(seq) + "." + strconv.Itoa(part) }

func seal(records []byte) []byte {
	value := make([]byte, recordsAt, recordsAt+len(records))
	copy(value, judgedMagic)
	binary.LittleEndian.PutUint32(value[len(judgedMagic):], crc32.Checksum(records, castagnoli))
	return append(value, records...)
}

// unseal reads a part of a segment.
func unseal(value []byte, yield func(*Judged)) (records []byte, err error) {
	if len(value) < recordsAt || string(value[:len(judgedMagic)]) != judgedMagic {
		return nil, errNotOurs
	}
	records = value[recordsAt:]
	if binary.LittleEndian.Uint32(value[len(judgedMagic):]) != crc32.Checksum(records, castagnoli) {
		return nil, errChecksum
	}
	var all []Judged
	for rest := records; len(rest) > 0; {
		var r Judged
		if rest, err = r.next(rest); err != nil {
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
// before [Journal.Replay]. What is unreadable is set aside, and logged. It may yield a
// record twice.
func (j *Journal) Recall(ctx context.Context, now time.Time, keep time.Duration, bound int, yield func(*Judged)) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	l := &j.judged
	l.keep, l.bound = keep, max(bound, minSegments*maxSegment)
	index, err := j.client.Get(ctx, judgedKey)
	switch {
	case err != nil:
		return fmt.Errorf("reading the index of judged runs from the storage: %w", err)
	case index == nil:
		return nil
	case len(index) != 16 || binary.LittleEndian.Uint64(index[8:])-binary.LittleEndian.Uint64(index) > maxSegments:
		j.logger.Warn("The index of judged runs is unreadable; late spans of runs that an earlier process judged may be judged again",
			zap.Int("bytes", len(index)))
		if err := j.client.Set(ctx, asidePrefix+judgedKey, index); err != nil {
			return fmt.Errorf("setting the unreadable index of judged runs aside: %w", err)
		}
		l.open.seq = uint64(now.UnixNano()) //nolint:gosec // after 1970
		return nil
	}
	l.there = true
	newest := binary.LittleEndian.Uint64(index[8:])
	for seq := binary.LittleEndian.Uint64(index); seq != newest; seq++ {
		s := segment{seq: seq}
		records, _, err := j.recallPart(ctx, &s, segmentKey(seq), yield)
		if err != nil {
			return err
		}
		s.bytes = len(records)
		l.sealed = append(l.sealed, s)
		l.bytes += s.bytes
	}
	l.open.seq = newest
	for part := range maxParts {
		records, found, err := j.recallPart(ctx, &l.open, partKey(newest, part), yield)
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

// recallPart reads the records under a key, if there are any.
func (j *Journal) recallPart(ctx context.Context, s *segment, key string, yield func(*Judged)) (records []byte, found bool, err error) {
	value, err := j.client.Get(ctx, key)
	if err != nil {
		return nil, false, fmt.Errorf("reading judged runs from the storage: %w", err)
	}
	if value == nil {
		return nil, false, nil
	}
	records, err = unseal(value, func(r *Judged) {
		s.extend(r.At)
		yield(r)
	})
	if err != nil {
		j.setRecordsAside(ctx, key, value, err)
		return nil, true, nil
	}
	return records, true, nil
}

func (j *Journal) setRecordsAside(ctx context.Context, key string, value []byte, why error) {
	j.logger.Warn("Records of judged runs are unreadable; they are kept in the storage under another key, and late spans of these runs may be judged again",
		zap.Int("bytes", len(value)), zap.String("key", asidePrefix+key), zap.Error(why))
	if err := j.client.Batch(ctx, storage.SetOperation(asidePrefix+key, value), storage.DeleteOperation(key)); err != nil {
		j.logger.Error("Failed to move unreadable records of judged runs", zap.String("key", key), zap.Error(err))
	}
}

// extend extends the time of a segment to that of its next record.
func (s *segment) extend(at time.Time) {
	if s.began.IsZero() {
		s.began = at
	}
	s.last = at
}

// write adds records, and returns the operations that write them.
func (l *judgedLog) write(records []byte) (ops []*storage.Operation) {
	l.add(records)
	now, all := l.open.last, len(l.records)
	full := all >= maxSegment || l.part == maxParts || now.Sub(l.open.began) >= l.keep/2
	if full {
		ops = append(ops, storage.SetOperation(segmentKey(l.open.seq), seal(l.records)))
		for part := range min(l.part+1, maxParts) {
			ops = append(ops, storage.DeleteOperation(partKey(l.open.seq, part)))
		}
		l.open.bytes = all
		l.sealed = append(l.sealed, l.open)
		l.bytes += all
		l.open = segment{seq: l.open.seq + 1}
		l.records, l.part, l.from = nil, 0, 0
	} else {
		ops = append(ops, storage.SetOperation(partKey(l.open.seq, l.part), seal(l.records[l.from:])))
		if all-l.from >= maxPart {
			l.part++
			l.from = all
		}
	}
	first := l.open.seq - uint64(len(l.sealed))
	gone := 0
	for _, s := range l.sealed {
		if now.Sub(s.last) < l.keep && l.bytes+len(l.records) <= l.bound {
			break
		}
		ops = append(ops, storage.DeleteOperation(segmentKey(s.seq)))
		l.bytes -= s.bytes
		gone++
	}
	l.sealed = l.sealed[gone:]
	if full || gone > 0 || !l.there {
		l.there = true
		index := binary.LittleEndian.AppendUint64(nil, first+uint64(gone)) //nolint:gosec // not negative
		ops = append(ops, storage.SetOperation(judgedKey, binary.LittleEndian.AppendUint64(index, l.open.seq)))
	}
	return ops
}

// add adds records without writing them.
func (l *judgedLog) add(records []byte) {
	var r Judged
	for rest := records; len(rest) > 0; l.open.extend(r.At) {
		runs, spans, ids, err := r.header(rest)
		if err != nil {
			return // they could not be read back
		}
		rest = ids[(runs+spans)*idSize:]
	}
	l.records = append(l.records, records...)
}

// failed takes back that records were written. They are written with the next update,
// unless updates have failed for so long that there is no room for them.
func (l *judgedLog) failed(before judgedLog, records []byte) {
	*l = before
	l.pending = l.pending || len(records) > 0
	if len(l.records)+len(records) <= l.bound {
		l.add(records)
	}
}
