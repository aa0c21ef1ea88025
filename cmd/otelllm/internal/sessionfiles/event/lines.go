package event

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// MaxLine bounds a line that is read. A longer one is skipped, and counts as unread.
const MaxLine = 8 << 20

// Lines calls each for every line of r without its end, and for a last line without one. A line
// longer than [MaxLine] is skipped and counted.
func Lines(r io.Reader, each func(line []byte)) (skipped int, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	long := false
	for {
		part, err := in.ReadSlice('\n')
		switch {
		case long:
		case len(line)+len(part) > MaxLine:
			long, line = true, line[:0]
			skipped++
		case errors.Is(err, bufio.ErrBufferFull), len(line) > 0:
			line = append(line, part...)
			part = line
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if part = bytes.TrimSpace(part); !long && len(part) > 0 {
			each(part)
		}
		long, line = false, line[:0]
		switch {
		case errors.Is(err, io.EOF):
			return skipped, nil
		case err != nil:
			return skipped, err
		}
	}
}
