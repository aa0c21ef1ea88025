package journal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// An entry: magic, CRC-32C of what follows, the time in nanoseconds since 1970, the
// length of the metadata, the metadata as JSON, the spans as OTLP. Numbers are
// little endian.
const (
	magic      = "llmj\x01"
	checksumAt = len(magic)
	timeAt     = checksumAt + 4
	lengthAt   = timeAt + 8
	metadataAt = lengthAt + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errNotOurs  = errors.New("not an entry of this journal, or of another version of it")
	errChecksum = errors.New("wrong checksum")
)

func encode(at time.Time, metadata map[string][]string, td ptrace.Traces) ([]byte, error) {
	spans, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	if err != nil {
		return nil, fmt.Errorf("marshalling spans for the journal: %w", err)
	}
	var attributes []byte
	if len(metadata) > 0 {
		if attributes, err = json.Marshal(metadata); err != nil {
			return nil, fmt.Errorf("marshalling client metadata for the journal: %w", err)
		}
	}
	value := make([]byte, 0, metadataAt+len(attributes)+len(spans))
	value = append(value, magic...)
	value = append(value, 0, 0, 0, 0)
	value = binary.LittleEndian.AppendUint64(value, uint64(at.UnixNano()))   //nolint:gosec // read back the same way
	value = binary.LittleEndian.AppendUint32(value, uint32(len(attributes))) //nolint:gosec // headers are limited far below
	value = append(append(value, attributes...), spans...)
	binary.LittleEndian.PutUint32(value[checksumAt:], crc32.Checksum(value[timeAt:], castagnoli))
	return value, nil
}

// decode reads an entry and the states that are stored beside it.
func decode(value, states []byte) (*Replayed, error) {
	if len(value) < metadataAt || string(value[:len(magic)]) != magic {
		return nil, errNotOurs
	}
	if binary.LittleEndian.Uint32(value[checksumAt:]) != crc32.Checksum(value[timeAt:], castagnoli) {
		return nil, errChecksum
	}
	r := &Replayed{At: time.Unix(0, int64(binary.LittleEndian.Uint64(value[timeAt:])))} //nolint:gosec // as written
	length := binary.LittleEndian.Uint32(value[lengthAt:])
	rest := value[metadataAt:]
	if uint64(length) > uint64(len(rest)) {
		return nil, errors.New("metadata is longer than the entry")
	}
	if length > 0 {
		if err := json.Unmarshal(rest[:length], &r.Metadata); err != nil {
			return nil, fmt.Errorf("reading metadata: %w", err)
		}
	}
	var err error
	if r.Traces, err = (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(rest[length:]); err != nil {
		return nil, fmt.Errorf("reading spans: %w", err)
	}
	r.States = make([]State, r.Traces.SpanCount())
	if len(states) == len(r.States) { // otherwise their states are not known: they come again
		for i, s := range states {
			r.States[i] = min(State(s), Done)
		}
	}
	return r, nil
}
