package keep

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// maxLine bounds what Read takes for one document, in bytes: a file may have been changed.
const maxLine = 256 << 20

// Read calls each with every document in dir, the oldest file first, while other processes may
// write to it. It returns how many lines it skipped because they are not whole documents, as
// the last one of a file after a crash. A folder that does not exist has none.
func Read(dir string, each func(ptrace.Traces)) (skipped int, err error) {
	files, _, err := list(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		n, err := readFile(filepath.Join(dir, f.name), each)
		skipped += n
		if err != nil {
			return skipped, err
		}
	}
	return skipped, nil
}

func readFile(path string, each func(ptrace.Traces)) (skipped int, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // removed meanwhile: it was the oldest
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var decoder ptrace.JSONUnmarshaler
	lines := bufio.NewReaderSize(f, 64<<10)
	for {
		line, long, err := readLine(lines)
		line = bytes.TrimSpace(line)
		switch {
		case long:
			skipped++
		case len(line) > 0:
			td, wrong := decoder.UnmarshalTraces(line)
			if wrong != nil {
				skipped++
			} else {
				each(td)
			}
		}
		if errors.Is(err, io.EOF) {
			return skipped, nil
		}
		if err != nil {
			return skipped, err
		}
	}
}

// readLine returns the next line, and reports whether it is too long, in which case it is not
// whole.
func readLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			long = true
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}
