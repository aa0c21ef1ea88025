//go:build !linux

package faultyllm

import (
	"errors"
	"fmt"
)

// FullPort is a port to which a connection is never made and never refused. Only
// Linux lets a program make one.
func FullPort() (*Port, error) {
	return nil, fmt.Errorf("faultyllm: a full backlog: %w", errors.ErrUnsupported)
}
