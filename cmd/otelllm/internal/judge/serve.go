package judge

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the maximum length of a line in bytes.
const MaxLine = 1 << 20

// maxOnceLine is the maximum length of a line of [ServeOnce] in bytes: it has the facts of a whole run.
const maxOnceLine = 64 << 20

// Serve answers the lines of r on w, until r ends. Each answer is written at once. It
// returns the error of r or of w.
func (j *Judge) Serve(r io.Reader, w io.Writer) error {
	return answerLines(r, w, MaxLine, j.Line)
}

// ServeOnce answers each line of r on w as [Once] does, until r ends, and keeps nothing. Empty lines
// have no answer.
func ServeOnce(r io.Reader, w io.Writer) error {
	return answerLines(r, w, maxOnceLine, func(raw []byte, _ int) []byte {
		if len(bytes.TrimSpace(raw)) == 0 {
			return nil
		}
		return Once(raw)
	})
}

// answerLines answers lines of at most so many bytes.
func answerLines(r io.Reader, w io.Writer, most int, answer func(raw []byte, number int) []byte) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for number := 1; ; number++ {
		raw, tooLong, err := readLine(in, most)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		var out []byte
		if tooLong {
			out, _ = json.Marshal(answerError{Error: fmt.Sprintf("the line is longer than %d bytes", most), Line: number})
		} else {
			out = answer(raw, number)
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

// readLine reads a line without its newline. Of one that is longer than most it keeps nothing.
func readLine(in *bufio.Reader, most int) (line []byte, tooLong bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > most; tooLong {
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
