package keep

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	prefix = "otelllm-"
	suffix = ".jsonl"
)

// fileName returns a name that no other file has. Names sort by the time that they were made.
func fileName(at time.Time, pid int, random string, count int) string {
	return fmt.Sprintf("%s%s-%d-%s-%d%s", prefix, at.UTC().Format("20060102T150405.000000000"), pid, random, count, suffix)
}

// entry is a file of this package.
type entry struct {
	name string
	size int64
}

// list returns the files of this package in dir, the oldest first, and their sizes together.
func list(dir string) (files []entry, total int64, err error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, 0, err
	}
	for _, d := range names {
		if !d.Type().IsRegular() || !strings.HasPrefix(d.Name(), prefix) || !strings.HasSuffix(d.Name(), suffix) {
			continue
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process has removed it
		}
		if err != nil {
			return nil, 0, err
		}
		files = append(files, entry{d.Name(), info.Size()})
		total += info.Size()
	}
	slices.SortFunc(files, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return files, total, nil
}

// createFile makes a new file for this process, and locks it.
func createFile(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	// Another process may have swept the file away as an empty one just before the lock.
	made, err := f.Stat()
	if err == nil {
		var there os.FileInfo
		if there, err = os.Stat(path); err == nil && !os.SameFile(made, there) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// remove removes a file unless a process is writing it, and reports whether it is gone.
func remove(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	free := lock(f) == nil
	if removeOpen && free {
		err = os.Remove(path)
	}
	_ = f.Close()
	if !removeOpen && free {
		err = os.Remove(path)
	}
	return free && (err == nil || errors.Is(err, fs.ErrNotExist))
}
