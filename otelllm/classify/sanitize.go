package classify

import (
	"strings"

	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
)

// SanitizeID returns the id of a call, a response or a conversation when it is fit to
// be recorded: at most 128 bytes of [A-Za-z0-9_.:/-] that do not look like a
// credential. Any other becomes id- and 16 hex digits of its SHA-256, so that ids stay
// comparable. An empty id stays empty, and an id that was sanitized stays as it is.
func SanitizeID(id string) string { return redact.ID(id) }

// SanitizeErrorType returns the name of an error's type when it is one in any
// language: at most 256 bytes without spaces that do not look like a credential.
// Anything else becomes [Redacted], because some instrumentations record an error's
// message there. An empty name stays empty.
func SanitizeErrorType(name string) string { return redact.Type(name) }

// KnownProviderCode reports whether code is one of the providers' codes and types
// that [ProviderErrorKind] knows by name, in any case.
func KnownProviderCode(code string) bool {
	_, ok := providerCodes[strings.ToLower(code)]
	return ok
}
