package main

import (
	"fmt"
	"log/slog"
	"os"
)

// newLogger returns a logger of messages at a level and above.
func newLogger(w *os.File, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level: %q is not debug, info, warn or error", level)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l})), nil
}
