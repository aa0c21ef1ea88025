package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// Every value of the journal is sealed: a magic for its kind and version, the CRC-32C of the content, the content. Numbers
// are little endian.
const (
	entryMagic  = "llmj\x01"
	boundsMagic = "llmb\x01"
	statesMagic = "llms\x01"

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

// sealed writes the checksum into a value that has its magic and content.
func sealed(value []byte) []byte {
	sealedWith(value, nil)
	return value
}

// sealedWith is sealed for a value that continues in more.
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

// endNumber is above all numbers. They begin at 0, or at the time in nanoseconds since 1970.
const endNumber = 1 << 63

// rangeSize is the size of a range without its seal, in bytes.
const rangeSize = 16

// sealRange seals the first number of a range, and the one after its last.
func sealRange(first, end uint64) []byte {
	value := make([]byte, sealSize, sealSize+rangeSize)
	copy(value, boundsMagic)
	value = binary.LittleEndian.AppendUint64(value, first)
	return sealed(binary.LittleEndian.AppendUint64(value, end))
}

// readRange reads a range.
func readRange(value []byte) (first, end uint64, err error) {
	content, err := unseal(boundsMagic, value)
	if err != nil {
		return 0, 0, err
	}
	if len(content) != rangeSize {
		return 0, 0, errNotOurs
	}
	first, end = binary.LittleEndian.Uint64(content), binary.LittleEndian.Uint64(content[8:])
	if first > end || end >= endNumber {
		return 0, 0, errRange
	}
	return first, end, nil
}
