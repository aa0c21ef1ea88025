package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
)

// Every value that the journal writes is sealed: a magic, which says what it is and in
// which version, CRC-32C of the content, the content. Numbers are little endian.
const (
	entryMagic  = "llmj\x01"
	bytesMagic  = "llmj\x02" // of an entry whose metadata is not text
	boundsMagic = "llmb\x01"
	statesMagic = "llms\x01"
	ownerMagic  = "llmo\x01"
	indexMagic  = "llmi\x01"
	judgedMagic = "llmr\x01"

	magicSize = len(entryMagic)
	sealSize  = magicSize + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errNotOurs  = errors.New("not written by this journal, or by another version of it")
	errChecksum = errors.New("wrong checksum")
	errMissing  = errors.New("a part of it is missing")
	errRange    = errors.New("numbers out of range")
)

// seal returns a sealed value with this content.
func seal(magic string, content []byte) []byte {
	value := make([]byte, sealSize, sealSize+len(content))
	copy(value, magic)
	return sealed(append(value, content...))
}

// sealed writes the checksum into a value that has its magic and content.
func sealed(value []byte) []byte {
	sealedWith(value, nil)
	return value
}

// sealedWith is sealed for a value of which more is to follow.
func sealedWith(value, more []byte) {
	sum := crc32.Update(crc32.Checksum(value[sealSize:], castagnoli), castagnoli, more)
	binary.LittleEndian.PutUint32(value[magicSize:], sum)
}

// unseal returns the content of a value.
func unseal(magic string, value []byte) ([]byte, error) {
	if len(value) < sealSize || string(value[:magicSize]) != magic {
		return nil, errNotOurs
	}
	content := value[sealSize:]
	if binary.LittleEndian.Uint32(value[magicSize:]) != crc32.Checksum(content, castagnoli) {
		return nil, errChecksum
	}
	return content, nil
}

// maxNumber bounds the numbers that are believed without a checksum. Numbers begin at 0, or
// at the time in nanoseconds since 1970. From there on they never reach endNumber.
const (
	maxNumber = 1 << 62
	endNumber = 1 << 63
)

// rangeSize is the size of a range without its seal: as earlier versions wrote it.
const rangeSize = 16

// sealRange seals the first number of a range, and the one after its last.
func sealRange(magic string, first, end uint64) []byte {
	value := make([]byte, sealSize, sealSize+rangeSize)
	copy(value, magic)
	value = binary.LittleEndian.AppendUint64(value, first)
	return sealed(binary.LittleEndian.AppendUint64(value, end))
}

// readRange reads a range, also one that an earlier version wrote without a checksum.
func readRange(magic string, value []byte) (first, end uint64, err error) {
	content, most := value, uint64(maxNumber)
	if len(value) != rangeSize || strings.HasPrefix(string(value), magic) {
		if content, err = unseal(magic, value); err != nil {
			return 0, 0, err
		}
		if len(content) != rangeSize {
			return 0, 0, errNotOurs
		}
		most = endNumber - 1
	}
	first, end = binary.LittleEndian.Uint64(content), binary.LittleEndian.Uint64(content[8:])
	if first > end || end > most {
		return 0, 0, errRange
	}
	return first, end, nil
}

// sealStates seals the states of a block of spans, one byte for each.
func sealStates(states []State) []byte {
	value := make([]byte, sealSize, sealSize+len(states))
	copy(value, statesMagic)
	for _, s := range states {
		value = append(value, byte(s))
	}
	return sealed(value)
}

// readStates reads the states of a block of this many spans, also those that an earlier
// version wrote without a checksum. Without a value all spans are held.
func readStates(value []byte, spans int) ([]State, error) {
	states := make([]State, spans)
	if value == nil {
		return states, nil
	}
	content := value
	if len(value) != spans || strings.HasPrefix(string(value), statesMagic) {
		var err error
		if content, err = unseal(statesMagic, value); err != nil {
			return nil, err
		}
	}
	if len(content) != spans {
		return nil, errNotOurs
	}
	for i, s := range content {
		if State(s) > Done {
			return nil, errRange
		}
		states[i] = State(s)
	}
	return states, nil
}
