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

// The content of an entry: the time in nanoseconds since 1970, the length of the metadata, the metadata as JSON, the spans
// as OTLP.
const (
	lengthAt   = 8
	metadataAt = lengthAt + 4
)

// pieceSize is the size of the values of an entry, in bytes, except for its last one, which is smaller. A storage such as
// file_storage keeps neighbouring values together, and writes and deletes them together: large ones would be written again
// with each of their neighbours.
const pieceSize = 16 << 10

// encode returns an entry in its pieces.
func encode(at time.Time, metadata map[string][]string, td ptrace.Traces) (pieces [][]byte, err error) {
	spans, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	if err != nil {
		return nil, fmt.Errorf("marshalling spans for the journal: %w", err)
	}
	attributes, err := encodeMetadata(metadata)
	if err != nil {
		return nil, fmt.Errorf("marshalling client metadata for the journal: %w", err)
	}
	head := make([]byte, sealSize, sealSize+metadataAt+len(attributes)+pieceSize)
	copy(head, entryMagic)
	head = binary.LittleEndian.AppendUint64(head, uint64(at.UnixNano()))   //nolint:gosec // read back the same way
	head = binary.LittleEndian.AppendUint32(head, uint32(len(attributes))) //nolint:gosec // headers are limited far below
	head = append(head, attributes...)
	room := min(pieceSize-len(head)%pieceSize, len(spans))
	head, rest := append(head, spans[:room]...), spans[room:]
	sealedWith(head, rest)
	pieces = slices.AppendSeq(slices.Collect(slices.Chunk(head, pieceSize)), slices.Chunk(rest, pieceSize))
	if len(pieces[len(pieces)-1]) == pieceSize {
		pieces = append(pieces, []byte{})
	}
	return pieces, nil
}

// joined returns the entry in these pieces. The first piece whose size is not pieceSize is its last one; pieces after that
// are left over from an earlier, forgotten entry with the same number.
func joined(pieces [][]byte) []byte {
	last := slices.IndexFunc(pieces, func(piece []byte) bool { return len(piece) != pieceSize })
	if last < 0 {
		last = len(pieces) - 1
	}
	return slices.Concat(pieces[:last+1]...)
}

// encodeMetadata encodes metadata as JSON, the values as base64: they may be no UTF-8.
func encodeMetadata(metadata map[string][]string) ([]byte, error) {
	if len(metadata) == 0 {
		return nil, nil
	}
	values := make(map[string][][]byte, len(metadata))
	for key, list := range metadata {
		values[key] = nil
		for _, value := range list {
			values[key] = append(values[key], []byte(value))
		}
	}
	return json.Marshal(values)
}

func decodeMetadata(encoded []byte) (map[string][]string, error) {
	var values map[string][][]byte
	if err := json.Unmarshal(encoded, &values); err != nil {
		return nil, err
	}
	metadata := make(map[string][]string, len(values))
	for key, list := range values {
		metadata[key] = nil
		for _, value := range list {
			metadata[key] = append(metadata[key], string(value))
		}
	}
	return metadata, nil
}

// decode reads an entry.
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
		if r.Metadata, err = decodeMetadata(rest[:length]); err != nil {
			return nil, fmt.Errorf("reading metadata: %w", err)
		}
	}
	if r.Traces, err = (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(rest[length:]); err != nil {
		return nil, fmt.Errorf("reading spans: %w", err)
	}
	return r, nil
}
