package classify

import (
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
	"github.com/otelllm/otelllm-go/semconv"
)

// maxCode bounds a provider's code, in bytes.
const maxCode = redact.MaxCode

// Redacted replaces a value that must not be recorded.
const Redacted = redact.Redacted

// SanitizeCode returns code if it may be recorded: at most 80 bytes of [A-Za-z0-9_.:-]
// that do not look like a credential. It returns [Redacted] for anything else, because a
// gateway may put free text, or the key that it refused, in the place of a code. An empty
// code stays empty.
func SanitizeCode(code string) string { return redact.Code(code) }

// providerCodes maps the providers' codes and types, in lower case, to the kind of error
// that they name. Sources: the error references of OpenAI, Anthropic, Azure OpenAI, Gemini
// (google.rpc.Code), Bedrock and vLLM. Only whole codes are compared: a word inside a
// longer text proves nothing.
var providerCodes = map[string]semconv.ProviderErrorKind{
	"rate_limit_exceeded":                  semconv.ProviderErrorKindRateLimited,
	"rate_limit_error":                     semconv.ProviderErrorKindRateLimited,
	"rate_limited":                         semconv.ProviderErrorKindRateLimited,
	"too_many_requests":                    semconv.ProviderErrorKindRateLimited,
	"tokens":                               semconv.ProviderErrorKindRateLimited, // OpenAI's error.type beside rate_limit_exceeded
	"requests":                             semconv.ProviderErrorKindRateLimited,
	"resource_exhausted":                   semconv.ProviderErrorKindRateLimited,
	"throttlingexception":                  semconv.ProviderErrorKindRateLimited,
	"toomanyrequestsexception":             semconv.ProviderErrorKindRateLimited,
	"slow_down":                            semconv.ProviderErrorKindOverloaded,
	"overloaded":                           semconv.ProviderErrorKindOverloaded,
	"overloaded_error":                     semconv.ProviderErrorKindOverloaded,
	"server_is_overloaded":                 semconv.ProviderErrorKindOverloaded,
	"engine_overloaded":                    semconv.ProviderErrorKindOverloaded,
	"unavailable":                          semconv.ProviderErrorKindOverloaded,
	"service_unavailable":                  semconv.ProviderErrorKindOverloaded,
	"serviceunavailableexception":          semconv.ProviderErrorKindOverloaded,
	"modelnotreadyexception":               semconv.ProviderErrorKindOverloaded,
	"insufficient_quota":                   semconv.ProviderErrorKindQuotaExhausted,
	"quota_exceeded":                       semconv.ProviderErrorKindQuotaExhausted,
	"billing_error":                        semconv.ProviderErrorKindQuotaExhausted,
	"billing_hard_limit_reached":           semconv.ProviderErrorKindQuotaExhausted,
	"billing_not_active":                   semconv.ProviderErrorKindQuotaExhausted,
	"insufficient_credits":                 semconv.ProviderErrorKindQuotaExhausted,
	"usage_limit_reached":                  semconv.ProviderErrorKindQuotaExhausted, // ChatGPT plans
	"usage_not_included":                   semconv.ProviderErrorKindQuotaExhausted,
	"servicequotaexceedexception":          semconv.ProviderErrorKindQuotaExhausted,
	"servicequotaexceededexception":        semconv.ProviderErrorKindQuotaExhausted,
	"authentication_error":                 semconv.ProviderErrorKindAuthentication,
	"invalid_api_key":                      semconv.ProviderErrorKindAuthentication,
	"api_key_invalid":                      semconv.ProviderErrorKindAuthentication, // Google
	"invalid_authentication":               semconv.ProviderErrorKindAuthentication,
	"unauthenticated":                      semconv.ProviderErrorKindAuthentication,
	"unauthorized":                         semconv.ProviderErrorKindAuthentication,
	"permission_error":                     semconv.ProviderErrorKindPermission,
	"permission_denied":                    semconv.ProviderErrorKindPermission,
	"accessdeniedexception":                semconv.ProviderErrorKindPermission,
	"unsupported_country_region_territory": semconv.ProviderErrorKindPermission,
	"not_found_error":                      semconv.ProviderErrorKindNotFound,
	"not_found":                            semconv.ProviderErrorKindNotFound,
	"model_not_found":                      semconv.ProviderErrorKindNotFound,
	"deploymentnotfound":                   semconv.ProviderErrorKindNotFound,
	"resourcenotfoundexception":            semconv.ProviderErrorKindNotFound,
	"invalid_request_error":                semconv.ProviderErrorKindInvalidRequest,
	"invalid_request":                      semconv.ProviderErrorKindInvalidRequest,
	"invalid_prompt":                       semconv.ProviderErrorKindInvalidRequest,
	"invalid_argument":                     semconv.ProviderErrorKindInvalidRequest,
	"request_too_large":                    semconv.ProviderErrorKindInvalidRequest,
	"badrequesterror":                      semconv.ProviderErrorKindInvalidRequest, // vLLM
	"validationexception":                  semconv.ProviderErrorKindInvalidRequest,
	"failed_precondition":                  semconv.ProviderErrorKindInvalidRequest,
	"context_length_exceeded":              semconv.ProviderErrorKindContextLengthExceeded,
	"context_window_exceeded":              semconv.ProviderErrorKindContextLengthExceeded,
	"string_above_max_length":              semconv.ProviderErrorKindContextLengthExceeded,
	"model_context_window_exceeded":        semconv.ProviderErrorKindContextLengthExceeded,
	"content_filter":                       semconv.ProviderErrorKindContentPolicy,
	"content_policy_violation":             semconv.ProviderErrorKindContentPolicy,
	"responsibleaipolicyviolation":         semconv.ProviderErrorKindContentPolicy,
	"moderation_blocked":                   semconv.ProviderErrorKindContentPolicy,
	"safety":                               semconv.ProviderErrorKindContentPolicy,
	"server_error":                         semconv.ProviderErrorKindServerError,
	"internal_error":                       semconv.ProviderErrorKindServerError,
	"internal_server_error":                semconv.ProviderErrorKindServerError,
	"internalservererror":                  semconv.ProviderErrorKindServerError, // vLLM
	"internal":                             semconv.ProviderErrorKindServerError,
	"api_error":                            semconv.ProviderErrorKindServerError,
	"internalserverexception":              semconv.ProviderErrorKindServerError,
	"modelstreamerrorexception":            semconv.ProviderErrorKindServerError,
	"modelerrorexception":                  semconv.ProviderErrorKindServerError,
	// The model's output was unusable; another attempt produces a different one.
	"malformed_function_call": semconv.ProviderErrorKindServerError, // Gemini
	"unexpected_tool_call":    semconv.ProviderErrorKindServerError,
	"malformed_response":      semconv.ProviderErrorKindServerError,
	"malformed_model_output":  semconv.ProviderErrorKindServerError, // Bedrock
	"malformed_tool_use":      semconv.ProviderErrorKindServerError,
	"tool_use_failed":         semconv.ProviderErrorKindServerError, // Groq
	"timeout":                 semconv.ProviderErrorKindTimeout,
	"timeout_error":           semconv.ProviderErrorKindTimeout,
	"vector_store_timeout":    semconv.ProviderErrorKindTimeout,
	"request_timeout":         semconv.ProviderErrorKindTimeout,
	"deadline_exceeded":       semconv.ProviderErrorKindTimeout,
	"modeltimeoutexception":   semconv.ProviderErrorKindTimeout,
	connectionLimitCode:       semconv.ProviderErrorKindTimeout,
	"cancelled":               semconv.ProviderErrorKindCancelled,
	"canceled":                semconv.ProviderErrorKindCancelled,
	"request_cancelled":       semconv.ProviderErrorKindCancelled,
}

// generalCodes are the codes that name a family of errors and not a cause. A more specific
// code beside them, or the HTTP status, takes precedence.
var generalCodes = map[string]bool{
	"invalid_request_error": true,
	"invalid_request":       true,
	"api_error":             true,
	"server_error":          true,
	"badrequesterror":       true,
	"tokens":                true,
	"requests":              true,
}

// ProviderErrorKind returns the kind of a provider's error, from its codes first and from
// its HTTP status second. Codes are tried in order. A code that names only a family
// (invalid_request_error) gives way to a code that names a cause
// (context_length_exceeded), and to the statuses 401, 403, 404, 408, 429, 504 and 529. A
// code that is itself an HTTP status (OpenRouter, vLLM: 429) is read as one.
//
// The status 429 alone means rate_limited: only a code distinguishes an exhausted quota
// from a rate limit. ProviderErrorKind returns unknown if the codes and the status say
// nothing more, and never returns unset.
func ProviderErrorKind(status int, codes ...string) semconv.ProviderErrorKind {
	general := semconv.ProviderErrorKindUnset
	for _, code := range codes {
		if len(code) > maxCode {
			continue
		}
		code = strings.ToLower(code)
		if s, ok := statusCode(code); ok {
			if status < 400 {
				status = s
			}
			continue
		}
		kind, ok := providerCodes[code]
		if !ok && strings.Contains(code, "perday") { // the name of a Google quota, such as GenerateRequestsPerDayPerProjectPerModel
			return semconv.ProviderErrorKindQuotaExhausted
		}
		switch {
		case !ok:
		case generalCodes[code]:
			if general == semconv.ProviderErrorKindUnset {
				general = kind
			}
		default:
			return kind
		}
	}
	if kind := statusKind(status); kind != semconv.ProviderErrorKindUnset {
		return kind
	}
	if general != semconv.ProviderErrorKindUnset {
		return general
	}
	switch {
	case status >= 500:
		return semconv.ProviderErrorKindServerError
	case status >= 400:
		return semconv.ProviderErrorKindInvalidRequest
	default:
		return semconv.ProviderErrorKindUnknown
	}
}

// maxRateLimit is the longest wait for which an error counts as a rate limit. If a
// provider asks for a longer one, a quota is exhausted: ChatGPT plans and the daily limits
// of OpenAI report that with the status and code of a rate limit.
const maxRateLimit = 10 * time.Minute

// KindByWait corrects a kind of error by the wait that the provider asks for, 0 for none.
// A rate limit that lasts longer than 10 minutes is an exhausted quota. A 402 with a
// shorter wait is a rate limit, unless its code names the quota: OpenRouter answers with
// that while credits are refilled.
func KindByWait(kind semconv.ProviderErrorKind, status int, code string, after time.Duration) semconv.ProviderErrorKind {
	if _, digits := statusCode(code); digits {
		code = "" // it says no more than the status
	}
	switch {
	case kind == semconv.ProviderErrorKindRateLimited && after > maxRateLimit:
		return semconv.ProviderErrorKindQuotaExhausted
	case kind == semconv.ProviderErrorKindQuotaExhausted && status == 402 && after > 0 && after <= maxRateLimit &&
		ProviderErrorKind(0, code) != semconv.ProviderErrorKindQuotaExhausted:
		return semconv.ProviderErrorKindRateLimited
	default:
		return kind
	}
}

// statusCode parses a code that is an HTTP error status in digits.
func statusCode(code string) (int, bool) {
	if len(code) != 3 || (code[0] != '4' && code[0] != '5') {
		return 0, false
	}
	n := 0
	for i := range len(code) {
		c := code[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// statusKind returns the kind for a status that names a cause by itself, and unset for any
// other.
func statusKind(status int) semconv.ProviderErrorKind {
	switch status {
	case 401:
		return semconv.ProviderErrorKindAuthentication
	case 402:
		return semconv.ProviderErrorKindQuotaExhausted
	case 403:
		return semconv.ProviderErrorKindPermission
	case 404:
		return semconv.ProviderErrorKindNotFound
	case 408, 504:
		return semconv.ProviderErrorKindTimeout
	case 429:
		return semconv.ProviderErrorKindRateLimited
	case 499:
		return semconv.ProviderErrorKindCancelled
	case 503, 529:
		return semconv.ProviderErrorKindOverloaded
	default:
		return semconv.ProviderErrorKindUnset
	}
}
