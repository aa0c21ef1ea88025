package keep

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

const (
	parts      = 8        // files that the bound is divided into
	maxPending = 4 << 20  // bytes that wait in memory for room on the disk
	minBytes   = 64 << 10 // the smallest bound that makes sense
)

// Keeper writes spans to a folder. It is safe for concurrent use.
type Keeper struct {
	dir      string
	maxBytes int64
	now      func() time.Time
	create   func(path string) (file, error)

	mu      sync.Mutex
	file    file     // nil before the first document and after a file is full
	name    string   // of the file, without the folder
	size    int64    // of its whole lines
	count   int      // files of this keeper
	pending [][]byte // lines that are not written yet, oldest first
	waiting int64    // bytes of pending
	lost    int      // documents that were dropped since Open
	failing bool     // the last write failed, and Add has returned its error
	closed  bool
}

// file is what a Keeper needs of an *os.File.
type file interface {
	Write(p []byte) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

// Open returns a Keeper for dir, which is created if it does not exist. All files of this
// package in dir have at most maxBytes together; several processes that use dir at the same
// time may exceed that by the document that each is writing. Only the user of the process can
// read the folder, if Open creates it, and the files.
func Open(dir string, maxBytes int64) (*Keeper, error) {
	if maxBytes < minBytes {
		return nil, fmt.Errorf("keep runs in %s: %d bytes are too few, it takes %d", dir, maxBytes, minBytes)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep runs: %w", err)
	}
	k := &Keeper{dir: dir, maxBytes: maxBytes, now: time.Now, create: createFile}
	if err := k.sweep(); err != nil {
		return nil, fmt.Errorf("keep runs: %w", err)
	}
	// A folder that cannot be written, or a full disk, is an error now, and not in an hour.
	if err := k.open(); err != nil {
		return nil, fmt.Errorf("keep runs in %s: %w", dir, err)
	}
	if err := Probe(k.file); err != nil {
		_ = k.file.Close()
		remove(filepath.Join(dir, k.name))
		return nil, fmt.Errorf("keep runs in %s: nothing can be written: %w", dir, err)
	}
	return k, nil
}

// probeBytes is more than the space that a file system keeps beside a small file for free.
const probeBytes = 64 << 10

// Probe returns an error if an empty file cannot be written to, because the disk is full for example. The file is empty
// again afterwards; unless it is one to append to, its offset is at probeBytes.
func Probe(f file) error {
	_, err := f.Write(make([]byte, probeBytes))
	return errors.Join(err, f.Sync(), f.Truncate(0))
}

// Add writes td, without what may not be recorded. If that fails, for example on a full disk,
// Add returns the error once and keeps the documents in memory, the newest 4 MiB of them,
// until one can be written again; it does not return the error again before that. It never
// waits for room.
func (k *Keeper) Add(td ptrace.Traces) error {
	if td.SpanCount() == 0 {
		return nil
	}
	line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(report.Strip(td))
	if err != nil {
		return fmt.Errorf("keep runs: encode: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return errors.New("keep runs: the keeper is closed")
	}
	if n := int64(len(line)) + 1; n > k.maxBytes/parts {
		k.lost++ // it would take the place of all others
		return fmt.Errorf("keep runs: a document of %d bytes is too large for a bound of %d", n, k.maxBytes)
	}
	k.push(append(line, '\n'))
	if err = k.flush(); err == nil {
		k.failing = false
		return nil
	}
	if k.failing {
		return nil
	}
	k.failing = true
	return fmt.Errorf("keep runs in %s: %w; runs are not written until that is over", k.dir, err)
}

// push adds a line to those that wait, and drops the oldest if there are too many.
func (k *Keeper) push(line []byte) {
	k.pending = append(k.pending, line)
	k.waiting += int64(len(line))
	for k.waiting > maxPending && len(k.pending) > 1 {
		k.drop()
		k.lost++
	}
}

func (k *Keeper) drop() {
	k.waiting -= int64(len(k.pending[0]))
	k.pending[0] = nil
	k.pending = k.pending[1:]
}

// flush writes the lines that wait.
func (k *Keeper) flush() error {
	for len(k.pending) > 0 {
		if err := k.write(k.pending[0]); err != nil {
			return err
		}
		k.drop()
	}
	return nil
}

// write writes one line whole or not at all.
func (k *Keeper) write(line []byte) error {
	n := int64(len(line))
	if k.file != nil && k.size+n > k.maxBytes/parts {
		if err := k.end(); err != nil {
			return err
		}
	}
	if err := k.makeRoom(n); err != nil {
		return err
	}
	if k.file == nil {
		if err := k.open(); err != nil {
			return err
		}
	}
	if _, err := k.file.Write(line); err != nil {
		// The file may end in a part of the line. Without it, the next line is whole; if it
		// stays, only a new file has whole lines.
		if cut := k.file.Truncate(k.size); cut != nil {
			_ = k.end()
		}
		return err
	}
	k.size += n
	return nil
}

// open begins a new file.
func (k *Keeper) open() error {
	var err error
	for range 3 { // another process may take a new file for an empty one that was left behind
		k.count++
		name := fileName(k.now(), os.Getpid(), rand.Text()[:8], k.count)
		var f file
		if f, err = k.create(filepath.Join(k.dir, name)); err == nil {
			k.file, k.name, k.size = f, name, 0
			return nil
		}
	}
	return err
}

// sweep removes empty files, which processes that crashed early leave behind.
func (k *Keeper) sweep() error {
	files, _, err := list(k.dir)
	for _, f := range files {
		if f.size == 0 {
			remove(filepath.Join(k.dir, f.name))
		}
	}
	return err
}

// end closes the file, which stays.
func (k *Keeper) end() error {
	err := errors.Join(k.file.Sync(), k.file.Close())
	k.file, k.name, k.size = nil, "", 0
	return err
}

// makeRoom removes the oldest files until n more bytes are within the bound. It leaves files
// that are being written, by this process or another one.
func (k *Keeper) makeRoom(n int64) error {
	files, total, err := list(k.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if total+n <= k.maxBytes {
			return nil
		}
		if f.name != k.name && remove(filepath.Join(k.dir, f.name)) {
			total -= f.size
		}
	}
	if total+n > k.maxBytes {
		return fmt.Errorf("other processes write %d of its %d bytes", total-k.size, k.maxBytes)
	}
	return nil
}

// Close writes what waits and closes the file. It returns an error if documents were lost.
func (k *Keeper) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	err := k.flush()
	lost := k.lost + len(k.pending)
	if k.file != nil {
		empty, path := k.size == 0, filepath.Join(k.dir, k.name)
		err = errors.Join(err, k.end())
		if empty {
			err = errors.Join(err, os.Remove(path))
		}
	}
	if lost > 0 {
		err = errors.Join(err, fmt.Errorf("%d documents were not written", lost))
	}
	if err != nil {
		return fmt.Errorf("keep runs in %s: %w", k.dir, err)
	}
	return nil
}
