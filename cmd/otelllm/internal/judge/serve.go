package judge

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the maximum length of a line in bytes.
const MaxLine = 1 << 20

// Serve answers the lines of r on w, until r ends. Each answer is written at once. It
// returns the error of r or of w.
func (j *Judge) Serve(r io.Reader, w io.Writer) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for number := 1; ; number++ {
		raw, tooLong, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		var out []byte
		if tooLong {
			out, _ = json.Marshal(answerError{Error: fmt.Sprintf("the line is longer than %d bytes", MaxLine), Line: number})
		} else {
			out = j.Line(raw, number)
		}
		if out != nil {
			if _, werr := w.Write(append(out, '\n')); werr != nil {
				return werr
			}
		}
		if err != nil {
			return nil
		}
	}
}

// readLine reads a line without its newline. Of one that is too long it keeps nothing.
func readLine(in *bufio.Reader) (line []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > MaxLine; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if n := len(line); err == nil && n > 0 {
			line = line[:n-1]
		}
		return line, tooLong, err
	}
}
