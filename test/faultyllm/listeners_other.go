//go:build !linux

package faultyllm

import (
	"errors"
	"fmt"
)

// FullPort returns a port on which a connection is neither accepted nor refused. Only
// Linux lets a program create one.
func FullPort() (*Port, error) {
	return nil, fmt.Errorf("faultyllm: a full backlog: %w", errors.ErrUnsupported)
}
