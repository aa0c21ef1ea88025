package httpcall

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestIntermediary(t *testing.T) {
	const page, problem = "text/html; charset=UTF-8", "application/problem+json"
	for _, tt := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		want   bool
	}{
		{"a page", 502, map[string]string{"Content-Type": page}, "<html>", true},
		{"a page without its type", 502, nil, "\n<!DOCTYPE html>", true},
		{"a challenge", 403, map[string]string{"Cf-Mitigated": "challenge"}, "text", true},
		{"problem details of a proxy", 503, map[string]string{"Content-Type": problem, "Server": "nginx/1.27.0"}, `{"title":"x"}`, true},
		{"problem details", 503, map[string]string{"Content-Type": problem}, `{"title":"x"}`, false},
		{"empty, of a CDN", 500, map[string]string{"Cf-Ray": "1"}, "", true},
		{"empty, of a load balancer", 503, map[string]string{"Server": "awselb/2.0"}, " \n", true},
		{"empty, of Envoy", 503, map[string]string{"Server": "envoy"}, "", true},
		{"empty, of Varnish", 503, map[string]string{"Server": "Varnish"}, "", true},
		{"empty, of a proxy", 502, map[string]string{"Via": "1.1 proxy"}, "", true},
		{"empty", 500, nil, "", false},
		{"empty, of an application", 500, map[string]string{"Server": "uvicorn"}, "", false},
		{"JSON behind a CDN", 500, map[string]string{"Cf-Ray": "1", "Content-Type": "application/json"}, `{"x":1}`, false},
		{"text behind a CDN", 400, map[string]string{"Server": "cloudflare", "Content-Type": "text/plain"}, "Bad Request", false},
		{"a proxy wants a password", 407, nil, "text", true},
		{"the CDN's own status", 524, nil, "error code: 524", true},
		{"the CDN cannot resolve", 530, nil, "", true},
		{"another status", 529, nil, "x", false},
	} {
		h := http.Header{}
		for name, value := range tt.header {
			h.Set(name, value)
		}
		assert.Equal(t, tt.want, Intermediary(tt.status, h, []byte(tt.body)), tt.name)
	}
}

func TestUntilReset(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		header map[string]string
		want   time.Duration
	}{
		{"nothing is used up", map[string]string{"Anthropic-Ratelimit-Tokens-Remaining": "5", "Anthropic-Ratelimit-Tokens-Reset": "2026-05-01T12:01:00Z"}, 0},
		{"tokens", map[string]string{"Anthropic-Ratelimit-Tokens-Remaining": "0", "Anthropic-Ratelimit-Tokens-Reset": "2026-05-01T12:01:00Z"}, time.Minute},
		{"the later of two", map[string]string{
			"Anthropic-Ratelimit-Tokens-Remaining": "0", "Anthropic-Ratelimit-Tokens-Reset": "2026-05-01T12:01:00Z",
			"Anthropic-Ratelimit-Requests-Remaining": "0", "Anthropic-Ratelimit-Requests-Reset": "2026-05-01T12:02:00Z",
		}, 2 * time.Minute},
		{"Retry-After outweighs it", map[string]string{"Retry-After": "5", "Anthropic-Ratelimit-Tokens-Remaining": "0", "Anthropic-Ratelimit-Tokens-Reset": "2026-05-01T12:01:00Z"}, 5 * time.Second},
		{"a plan", map[string]string{"Anthropic-Ratelimit-Unified-Status": "rejected", "Anthropic-Ratelimit-Unified-Reset": "1777651200"}, 4 * time.Hour},
		{"a plan that allows it", map[string]string{"Anthropic-Ratelimit-Unified-Status": "allowed", "Anthropic-Ratelimit-Unified-Reset": "1777651200"}, 0},
		{"by the sender's clock", map[string]string{"Date": "Fri, 01 May 2026 11:59:00 GMT", "Anthropic-Ratelimit-Tokens-Remaining": "0", "Anthropic-Ratelimit-Tokens-Reset": "2026-05-01T12:01:00Z"}, 2 * time.Minute},
		{"no moment", map[string]string{"Anthropic-Ratelimit-Tokens-Remaining": "0", "Anthropic-Ratelimit-Tokens-Reset": "soon"}, 0},
		{"it has passed", map[string]string{"Anthropic-Ratelimit-Tokens-Remaining": "0", "Anthropic-Ratelimit-Tokens-Reset": "2026-05-01T11:01:00Z"}, 0},
	} {
		h := http.Header{}
		for name, value := range tt.header {
			h.Set(name, value)
		}
		assert.Equal(t, tt.want, RetryAfter(h, now), tt.name)
	}
}
