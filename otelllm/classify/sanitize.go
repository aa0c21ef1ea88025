package classify

import (
	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
)

// SanitizeID returns the id of a call, a response or a conversation if it may be recorded:
// at most 128 bytes of [A-Za-z0-9_.:/-] that do not look like a credential. Any other id
// becomes id- followed by 16 hex digits of its SHA-256, so that ids stay comparable. An
// empty id stays empty, and an id that was already sanitized stays unchanged.
func SanitizeID(id string) string { return redact.ID(id) }

// SanitizeErrorType returns the name of an error type, in any language, if it may be
// recorded: at most 256 bytes without spaces that do not look like a credential. Anything
// else becomes [Redacted], because some instrumentations record an error's message there.
// An empty name stays empty.
func SanitizeErrorType(name string) string { return redact.Type(name) }

// KnownProviderCode reports whether [ProviderErrorKind] knows code as one of the
// providers' codes and types, in any case.
func KnownProviderCode(code string) bool { return catalogue.KnownName(code) }
