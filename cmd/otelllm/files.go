package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/keep"
)

// createOutput creates a file for runs, which name models and tools of this user: no other user may read it.
func createOutput(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
}

// probe reports whether a new file can be written to: a full disk is an error before the command starts. A device gets an empty
// line, and what has a reader, such as a pipe, nothing.
func probe(f *os.File) error {
	info, err := f.Stat()
	if err == nil && info.Mode()&os.ModeCharDevice != 0 {
		_, err = f.WriteString("\n")
	}
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	err = keep.Probe(f)
	_, seekErr := f.Seek(0, io.SeekStart)
	return errors.Join(err, seekErr)
}

// replaceOutput replaces a file for runs, so that at any moment all of the old one or all of the new one is there, even if
// this process is killed. A file that is not regular is written in place.
func replaceOutput(path string, write func(io.Writer) error) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := createOutput(path)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // no other user may read it
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
