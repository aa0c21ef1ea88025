package journal

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// The content of an entry: the time in nanoseconds since 1970, the length of the metadata,
// the metadata as JSON, the spans as OTLP.
const (
	lengthAt   = 8
	metadataAt = lengthAt + 4
)

// minSpan is how many bytes of an entry a span has at least: what it is, and its length.
const minSpan = 2

// pieceSize is the size of the values in which an entry is stored, but for its last one. A
// storage such as file_storage keeps neighbouring values together, and writes and deletes
// them together: large ones would be written again with each of their neighbours.
const pieceSize = 16 << 10

// encode returns an entry in its pieces.
func encode(at time.Time, metadata map[string][]string, td ptrace.Traces) (pieces [][]byte, err error) {
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
	head := make([]byte, sealSize, sealSize+metadataAt+len(attributes)+pieceSize)
	copy(head, entryMagic)
	head = binary.LittleEndian.AppendUint64(head, uint64(at.UnixNano()))   //nolint:gosec // read back the same way
	head = binary.LittleEndian.AppendUint32(head, uint32(len(attributes))) //nolint:gosec // headers are limited far below
	head = append(head, attributes...)
	room := min(pieceSize-len(head)%pieceSize, len(spans))
	head, rest := append(head, spans[:room]...), spans[room:]
	sealedWith(head, rest)
	return slices.AppendSeq(slices.Collect(slices.Chunk(head, pieceSize)), slices.Chunk(rest, pieceSize)), nil
}

// decode reads an entry. All its spans are held.
func decode(value []byte) (*Replayed, error) {
	content, err := unseal(entryMagic, value)
	if err != nil {
		return nil, err
	}
	if len(content) < metadataAt {
		return nil, errNotOurs
	}
	r := &Replayed{At: time.Unix(0, int64(binary.LittleEndian.Uint64(content)))} //nolint:gosec // as written
	length := binary.LittleEndian.Uint32(content[lengthAt:])
	rest := content[metadataAt:]
	if uint64(length) > uint64(len(rest)) {
		return nil, errors.New("metadata is longer than the entry")
	}
	if length > 0 {
		if err := json.Unmarshal(rest[:length], &r.Metadata); err != nil {
			return nil, fmt.Errorf("reading metadata: %w", err)
		}
	}
	if r.Traces, err = (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(rest[length:]); err != nil {
		return nil, fmt.Errorf("reading spans: %w", err)
	}
	r.States = make([]State, r.Traces.SpanCount())
	return r, nil
}
