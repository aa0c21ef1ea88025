package httpcall

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, tt := range []struct {
		name   string
		header http.Header
		want   time.Duration
	}{
		{"no header", nil, 0},
		{"seconds", http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		{"a fraction of a second", http.Header{"Retry-After": {"0.25"}}, 250 * time.Millisecond},
		{"milliseconds take precedence", http.Header{"Retry-After": {"7"}, "Retry-After-Ms": {"1500"}}, 1500 * time.Millisecond},
		{"invalid milliseconds", http.Header{"Retry-After": {"7"}, "Retry-After-Ms": {"soon"}}, 7 * time.Second},
		{"a date", http.Header{"Retry-After": {at(90 * time.Second)}}, 90 * time.Second},
		{"a date by the sender's clock", http.Header{"Retry-After": {at(-time.Hour)}, "Date": {at(-time.Hour - 30*time.Second)}}, 30 * time.Second},
		{"a date in the past", http.Header{"Retry-After": {at(-time.Hour)}}, 0},
		{"negative", http.Header{"Retry-After": {"-1"}}, 0},
		{"a week", http.Header{"Retry-After": {"604800"}}, 24 * time.Hour},
		{"infinity", http.Header{"Retry-After": {"Inf"}}, 24 * time.Hour},
		{"not a number", http.Header{"Retry-After": {"NaN"}}, 0},
		{"beyond the range of a duration", http.Header{"Retry-After-Ms": {"1e300"}}, 24 * time.Hour},
		{"text", http.Header{"Retry-After": {"in a while"}}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, RetryAfter(tt.header, now))
		})
	}
}

func TestRequestID(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header http.Header
		want   string
	}{
		{"no header", nil, ""},
		{"OpenAI", http.Header{"X-Request-Id": {"req_0a1b"}, "Cf-Ray": {"8f2-FRA"}}, "req_0a1b"},
		{"Anthropic", http.Header{"Request-Id": {"req_011CS"}}, "req_011CS"},
		{"AWS", http.Header{"X-Amzn-Requestid": {"5f1c-4a"}}, "5f1c-4a"},
		{"Azure", http.Header{"X-Ms-Request-Id": {"a:b/c=="}}, "a:b/c=="},
		{"Cloudflare", http.Header{"Cf-Ray": {"8f2-FRA"}}, "8f2-FRA"},
		{"the first that is an id", http.Header{"X-Request-Id": {"words of a person"}, "Request-Id": {"req_1"}}, "req_1"},
		{"not a key", http.Header{"X-Request-Id": {"s" + "k-9fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA"}, "Cf-Ray": {"8f2-FRA"}}, "8f2-FRA"},
		{"not a long random string", http.Header{"X-Request-Id": {"fKq2LmZx7Rt4VbN8sWc1YhJ6dGp3TeA0"}}, ""},
		{"a trace id", http.Header{"X-Request-Id": {"4bf92f3577b34da6a3ce929d0e0e4736"}}, "4bf92f3577b34da6a3ce929d0e0e4736"},
		{"a UUID", http.Header{"X-Request-Id": {"7027d986-3c59-a37a-9a5f-50713e01c8a6"}}, "7027d986-3c59-a37a-9a5f-50713e01c8a6"},
		{"too long", http.Header{"X-Request-Id": {string(make([]byte, 129))}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, RequestID(tt.header))
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("7", "", "")
	f.Add("", "1500", "")
	f.Add("Fri, 02 Jan 2026 03:04:05 GMT", "", "Fri, 02 Jan 2026 03:04:00 GMT")
	f.Fuzz(func(t *testing.T, after, ms, date string) {
		h := http.Header{"Retry-After": {after}, "Retry-After-Ms": {ms}, "Date": {date}}
		got := RetryAfter(h, time.Unix(0, 0))
		assert.GreaterOrEqual(t, got, time.Duration(0))
		assert.LessOrEqual(t, got, MaxRetryAfter)
	})
}
