//go:build !linux

package main

import "errors"

// fillDisk returns an error that wraps [errors.ErrUnsupported].
func fillDisk(int, bool) error { return errors.ErrUnsupported }
