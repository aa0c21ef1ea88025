package sessionfiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/cline"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/opencode"
)

// The bounds of what is read of one file. Of a longer one its end is read, and more of it until a
// turn begins there.
const (
	maxHeadLines = 64 << 10  // at the beginning, for what describes the session
	firstTail    = 128 << 10 // at the end
	maxTail      = 32 << 20
	maxDocument  = 64 << 20  // of a file that is one document
	maxExpanded  = 512 << 20 // of a compressed file
)

// errTooLarge is the error for a document that is too large to be read.
var errTooLarge = errors.New("the file is too large to be read")

// Read reads the sessions of a file, those that changed since f was found excepted.
func Read(ctx context.Context, f *File, since int64) ([]*event.Log, error) {
	switch f.Agent.Name {
	case OpenCode:
		return opencode.Read(ctx, f.Path, since)
	case Cline:
		return readCline(f)
	}
	if strings.HasSuffix(f.Path, ".zst") {
		return readCompressed(f)
	}
	logs, err := readLines(f)
	for _, log := range logs {
		addSubAgents(f, log)
	}
	return logs, err
}

// readLines reads a file of lines by its end.
func readLines(f *File) ([]*event.Log, error) {
	in, err := os.Open(f.Path)
	if err != nil {
		return nil, cause(err)
	}
	defer in.Close()
	size := f.Size
	if info, err := in.Stat(); err == nil {
		size = info.Size() // it may grow
	}
	for tail := int64(firstTail); ; tail *= 4 {
		log, err := readTail(f, in, size, tail)
		if err != nil {
			return nil, cause(err)
		}
		if !log.Partial || begins(log) || tail >= maxTail {
			return one(log), nil
		}
	}
}

// one returns a list of a log, unless nothing is in it.
func one(log *event.Log) []*event.Log {
	if len(log.Events) == 0 && log.Session == "" {
		return nil
	}
	return []*event.Log{log}
}

// begins reports whether a turn begins in the log.
func begins(log *event.Log) bool {
	for i := range log.Events {
		if log.Events[i].Kind == event.Turn {
			return true
		}
	}
	return false
}

// readTail reads a file of lines, of which the last part is read if it is longer.
func readTail(f *File, in io.ReaderAt, size, tail int64) (*event.Log, error) {
	log := &event.Log{}
	if size > tail {
		head := &event.Log{} // what happened then is left out
		r := f.Agent.lines(head)
		if _, err := event.Lines(io.NewSectionReader(in, 0, maxHeadLines), r.Line); err != nil {
			return nil, err
		}
		log.Session, log.Version, log.Folder, log.Partial = head.Session, head.Version, head.Folder, true
	}
	r := f.Agent.lines(log)
	begin := max(0, size-tail)
	first := begin > 0 // the first line is the rest of one
	skipped, err := event.Lines(io.NewSectionReader(in, begin, size-begin), func(line []byte) {
		if first {
			first = false
			return
		}
		r.Line(line)
	})
	if first {
		skipped = max(skipped, 1)
	}
	log.Unread += skipped
	return log, err
}

// readCompressed reads a file of lines that is compressed with zstd.
func readCompressed(f *File) ([]*event.Log, error) {
	in, err := os.Open(f.Path)
	if err != nil {
		return nil, cause(err)
	}
	defer in.Close()
	d, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	log := &event.Log{}
	r := f.Agent.lines(log)
	bounded := &io.LimitedReader{R: d, N: maxExpanded}
	skipped, err := event.Lines(bounded, r.Line)
	log.Unread += skipped
	switch {
	case err != nil:
		log.Unread++ // what came before is there
	case bounded.N <= 0:
		return nil, errTooLarge
	}
	return one(log), nil
}

// readCline reads a session of Cline, which has two files.
func readCline(f *File) ([]*event.Log, error) {
	session, err := readDocument(f.Path)
	if err != nil {
		return nil, err
	}
	messages, err := readDocument(messagesOf(f.Path))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	log := &event.Log{}
	cline.Read(log, session, messages)
	return one(log), nil
}

// readDocument reads a file that is one document.
func readDocument(name string) ([]byte, error) {
	in, err := os.Open(name)
	if err != nil {
		return nil, cause(err)
	}
	defer in.Close()
	var b bytes.Buffer
	n, err := b.ReadFrom(io.LimitReader(in, maxDocument+1))
	switch {
	case err != nil:
		return nil, cause(err)
	case n > maxDocument:
		return nil, fmt.Errorf("%w: it has more than %d MiB", errTooLarge, maxDocument>>20)
	}
	return b.Bytes(), nil
}
