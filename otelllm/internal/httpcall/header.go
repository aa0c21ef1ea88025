package httpcall

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
)

const (
	// MaxRetryAfter bounds the wait that a provider may ask for.
	MaxRetryAfter = 24 * time.Hour
	// MaxAttempt bounds the number of attempts that a header may claim.
	MaxAttempt = 1000
)

// RequestIDs are the headers, in canonical form, that hold a provider's own id of an
// exchange: the only response headers whose values are recorded.
var RequestIDs = [...]string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid", "X-Ms-Request-Id", "Cf-Ray"}

// RequestID returns the provider's id of the exchange. It is "" if no header has one, or if
// it does not look like an id, or looks like a credential.
func RequestID(h http.Header) string {
	for _, name := range RequestIDs {
		id := Value(h, name)
		if id == "" || len(id) > 128 {
			continue
		}
		if strings.IndexFunc(id, func(c rune) bool { return !idRune(c) }) < 0 && redact.Opaque(id) {
			return id
		}
	}
	return ""
}

// Value returns the first value of a header, whose name is in canonical form.
func Value(h http.Header, name string) string {
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

// Attempt returns the ordinal of the attempt by the retry header of the OpenAI and
// Anthropic SDKs, which count retries from 0; 0: not observed.
func Attempt(h http.Header) int {
	count := Value(h, "X-Stainless-Retry-Count")
	if count == "" {
		return 0
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n >= MaxAttempt {
		return 0
	}
	return n + 1
}

// RetryAfter returns the wait that a response's headers ask for, within a day; 0: none.
// Sources: RFC 9110, section 10.2.3 (seconds or a date), retry-after-ms, which OpenAI and
// Azure send and the SDKs prefer, and Anthropic's moments of a reset.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return clampAfter(ms * float64(time.Millisecond))
	}
	value := h.Get("Retry-After")
	if value == "" {
		return untilReset(h, now)
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

// limits are the rate limits of Anthropic that have a header for what is left, one for the
// moment of the reset, and none for the wait.
// https://docs.anthropic.com/en/api/rate-limits#response-headers
var limits = [...]string{"Requests", "Tokens", "Input-Tokens", "Output-Tokens"}

// untilReset returns the time until the last reset of the limits that are used up; 0: none is.
func untilReset(h http.Header, now time.Time) (wait time.Duration) {
	// Against the sender's own clock where it tells it: ours may be off.
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	for _, limit := range limits {
		if h.Get("Anthropic-Ratelimit-"+limit+"-Remaining") != "0" {
			continue
		}
		if at, err := time.Parse(time.RFC3339, h.Get("Anthropic-Ratelimit-"+limit+"-Reset")); err == nil {
			wait = max(wait, clampAfter(float64(at.Sub(now))))
		}
	}
	if h.Get("Anthropic-Ratelimit-Unified-Status") == "rejected" { // of a plan
		if s, err := strconv.ParseFloat(h.Get("Anthropic-Ratelimit-Unified-Reset"), 64); err == nil {
			wait = max(wait, clampAfter(s*float64(time.Second)-float64(now.UnixNano())))
		}
	}
	return wait
}

func clampAfter(ns float64) time.Duration {
	switch {
	case !(ns > 0): // not a number, as well
		return 0
	case ns > float64(MaxRetryAfter):
		return MaxRetryAfter
	default:
		return time.Duration(ns)
	}
}

// MediaType returns the Content-Type of h in lower case, without its parameters.
func MediaType(h http.Header) string {
	base, _, _ := strings.Cut(Value(h, "Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(base))
}

// ContentEncoded reports whether a body with these headers is compressed, or otherwise
// encoded.
func ContentEncoded(h http.Header) bool {
	all, _ := encodingsOf(h)
	return len(all) > 0
}
