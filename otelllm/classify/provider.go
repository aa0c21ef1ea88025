package classify

import (
	"time"

	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
	"github.com/otelllm/otelllm-go/semconv"
)

// Redacted replaces a value that must not be recorded.
const Redacted = redact.Redacted

// SanitizeCode returns code if it may be recorded: at most 80 bytes of [A-Za-z0-9_.:-]
// that do not look like a credential. It returns [Redacted] for anything else, because a
// gateway may put free text, or the key that it refused, in the place of a code. An empty
// code stays empty.
func SanitizeCode(code string) string { return redact.Code(code) }

// ProviderErrorKind returns the kind of a provider's error, from its codes and its HTTP status,
// by the catalogue that docs/reference/provider-errors.md lists. The first code is the error's
// own, the others are its type and other names. A code that names only a family
// (invalid_request_error) gives way to one that names a cause (context_length_exceeded), and
// to a status that does. A code that is itself an HTTP status (OpenRouter, vLLM: 429) is read
// as one if status is no error.
//
// The status 429 alone means rate_limited: only a code, or the words of the message, which are
// not recorded, distinguish an exhausted quota from a rate limit. ProviderErrorKind returns
// unknown if the codes and the status say nothing more, and never returns unset.
func ProviderErrorKind(status int, codes ...string) semconv.ProviderErrorKind {
	return catalogue.Decide(catalogue.Error{Status: status, Names: codes}).Kind
}

// maxRateLimit is the longest wait for which an error counts as a rate limit. If a
// provider asks for a longer one, a quota is exhausted: ChatGPT plans and the daily limits
// of OpenAI report that with the status and code of a rate limit.
const maxRateLimit = catalogue.ShortWait

// KindByWait corrects a kind of error by the wait that the provider asks for, 0 for none.
// A rate limit that lasts longer than 10 minutes is an exhausted quota. A 402 with a
// shorter wait is a rate limit, unless its code names the quota: OpenRouter answers with
// that while credits are refilled.
func KindByWait(kind semconv.ProviderErrorKind, status int, code string, after time.Duration) semconv.ProviderErrorKind {
	switch {
	case kind == semconv.ProviderErrorKindRateLimited && after > maxRateLimit:
		return semconv.ProviderErrorKindQuotaExhausted
	case kind == semconv.ProviderErrorKindQuotaExhausted && status == 402 && after > 0 && after <= maxRateLimit && !catalogue.KnownName(code):
		return semconv.ProviderErrorKindRateLimited
	default:
		return kind
	}
}
