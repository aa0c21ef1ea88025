package wire

import "github.com/otelllm/otelllm-go/otelllm/internal/redact"

const (
	maxSafeID   = redact.MaxID
	maxSafeName = redact.MaxName
	maxModel    = redact.MaxModel
	// maxCode bounds an error's code and type. It is longer than what is recorded, so
	// that one that was cut is not mistaken for a complete one.
	maxCode = 128

	redacted = redact.Redacted
)

// SafeID returns an id that may be recorded, see [redact.ID]. Providers, gateways and
// models write ids, so one may contain anything: an id of at most 128 bytes of
// [A-Za-z0-9_.:/-] that does not look like a credential is returned as it is. Any other
// becomes id- and 16 hex digits of its SHA-256, the same wherever it appears. An empty
// id stays empty.
func SafeID(id string) string { return redact.ID(id) }

// SafeName returns a name (of a tool, of a finish reason) that may be recorded: at most
// 64 bytes of [A-Za-z0-9_.:/-] that do not look like a credential, else "redacted". An
// empty name stays empty.
func SafeName(name string) string { return redact.Name(name) }

// safeID is [SafeID] of bytes that are not retained.
func safeID(id []byte) string { return redact.ID(id) }

// safeName is [SafeName] of bytes that are not retained.
func safeName(name []byte) string { return redact.Name(name) }

// safeModel returns a model's name that may be recorded, see [redact.Model].
func safeModel(name []byte) string { return redact.Model(name) }

// bounded is b as a string of at most maxCode bytes.
func bounded(b []byte) string {
	return string(b[:min(len(b), maxCode)])
}
