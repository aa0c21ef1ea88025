package otelllm

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
)

const (
	// maxRetryAfter bounds the wait that a provider may ask for.
	maxRetryAfter = 24 * time.Hour
	// maxAttempt bounds the number of attempts that a header may claim.
	maxAttempt = 1000
)

// requestIDs are the headers, in canonical form, that hold a provider's own id of an
// exchange: the only response headers whose values are recorded.
var requestIDs = [...]string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid", "X-Ms-Request-Id", "Cf-Ray"}

// requestID is the provider's id of the exchange, or "" or when
// it does not look like an id, or looks like a credential.
func requestID(h http.Header) string {
	for _, name := range requestIDs {
		id := value(h, name)
		if id == "" || len(id) > 128 {
			continue
		}
		if strings.IndexFunc(id, func(c rune) bool { return !idRune(c) }) < 0 && redact.Opaque(id) {
			return id
		}
	}
	return ""
}

// value is the first value of a header, whose name is in canonical form.
func value(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func idRune(c rune) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
		c == '-', c == '_', c == '.', c == ':', c == '/', c == '=', c == '+':
		return true
	default:
		return false
	}
}

// attemptOf is the ordinal of the attempt by the retry header of the OpenAI and
// Anthropic SDKs, which count retries from 0; 0: not observed.
func attemptOf(h http.Header) int {
	count := value(h, "X-Stainless-Retry-Count")
	if count == "" {
		return 0
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n >= maxAttempt {
		return 0
	}
	return n + 1
}

// retryAfter is the wait that a response's headers ask for, within a day; 0: none.
// Sources: RFC 9110, section 10.2.3 (seconds or a date), and retry-after-ms, which
// OpenAI and Azure send and the SDKs prefer.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return clampAfter(ms * float64(time.Millisecond))
	}
	value := h.Get("Retry-After")
	if value == "" {
		return 0
	}
	if s, err := strconv.ParseFloat(value, 64); err == nil {
		return clampAfter(s * float64(time.Second))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	// Against the sender's own clock where it tells it: ours may be off.
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return clampAfter(float64(at.Sub(now)))
}

func clampAfter(ns float64) time.Duration {
	switch {
	case !(ns > 0): // not a number, as well
		return 0
	case ns > float64(maxRetryAfter):
		return maxRetryAfter
	default:
		return time.Duration(ns)
	}
}

// providerCode is what is recorded of a provider's words for an error: its code,
// else its type.
func providerCode(code, typ string) string {
	if code == "" {
		code = typ
	}
	return classify.SanitizeCode(code)
}
