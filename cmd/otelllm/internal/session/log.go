package session

import (
	"context"
	"log/slog"

	"go.uber.org/zap/zapcore"
)

// core passes the classifier's log on to a slog.Logger: the messages alone, since a field
// may quote what it is about.
type core struct{ log *slog.Logger }

// Enabled implements zapcore.LevelEnabler.
func (c core) Enabled(level zapcore.Level) bool {
	return c.log.Enabled(context.Background(), slogLevel(level))
}

// With implements zapcore.Core.
func (c core) With([]zapcore.Field) zapcore.Core { return c }

// Check implements zapcore.Core.
func (c core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) {
		return checked
	}
	return checked.AddCore(entry, c)
}

// Write implements zapcore.Core.
func (c core) Write(entry zapcore.Entry, _ []zapcore.Field) error {
	c.log.Log(context.Background(), slogLevel(entry.Level), entry.Message)
	return nil
}

// Sync implements zapcore.Core.
func (core) Sync() error { return nil }

func slogLevel(level zapcore.Level) slog.Level {
	switch {
	case level <= zapcore.DebugLevel:
		return slog.LevelDebug
	case level == zapcore.InfoLevel:
		return slog.LevelInfo
	case level == zapcore.WarnLevel:
		return slog.LevelWarn
	default:
		return slog.LevelError
	}
}
