package httpcall

import (
	"net/http"
	"strings"
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
		{"page of the CDN, as text", 429, map[string]string{"Server": "cloudflare"}, "error code: 1015", true},
		{"no page of the CDN", 429, map[string]string{"Server": "cloudflare"}, "error code: rate_limited", false},
		{"Apigee", 429, nil, `{"fault":{"faultstring":"Rate limit quota violation.","detail":{"errorcode":"policies.ratelimit.QuotaViolation"}}}`, true},
		{"Envoy", 503, map[string]string{"Server": "istio-envoy"}, "upstream connect error or disconnect/reset before headers. reset reason: connection termination", true},
		{"Envoy, without its name", 503, nil, "Upstream connect error or disconnect/reset before headers. retried and the latest reset reason: protocol error", true},
		{"Envoy, a limit", 429, nil, "local_rate_limited", true},
		{"Vercel", 504, map[string]string{"Server": "Vercel", "x-vercel-error": "FUNCTION_INVOCATION_TIMEOUT"}, "An error occurred with your deployment\n\nFUNCTION_INVOCATION_TIMEOUT", true},
		{"an application on Vercel", 500, map[string]string{"Server": "Vercel", "X-Vercel-Id": "x"}, `{"message":"x"}`, false},
		{"Kong", 429, map[string]string{"Server": "kong/3.4"}, `{"message":"API rate limit exceeded"}`, true},
		{"Kong, renamed", 401, map[string]string{"X-Kong-Response-Latency": "1"}, `{"message":"No API key found in request"}`, true},
		{"ngrok, its tunnel is down", 404, map[string]string{"Ngrok-Error-Code": "ERR_NGROK_3200"}, "The endpoint is offline.\n\nERR_NGROK_3200", true},
		{"Kong, passed on", 429, map[string]string{"Via": "1.1 kong/3.4", "X-Kong-Upstream-Latency": "1"}, `{"message":"API rate limit exceeded"}`, false},
		{"Kong, a bad answer", 502, nil, `{"message":"An invalid response was received from the upstream server","request_id":"x"}`, true},
		{"API Gateway", 429, map[string]string{"X-Amz-Apigw-Id": "x", "X-Amzn-Errortype": "TooManyRequestsException"}, `{"message":"Too Many Requests"}`, true},
		{"behind API Gateway", 429, map[string]string{"X-Amz-Apigw-Id": "x"}, `{"message":"Too Many Requests"}`, false},
		{"Bedrock", 429, map[string]string{"X-Amzn-Errortype": "ThrottlingException"}, `{"message":"Too many tokens"}`, false},
		{"API Gateway, an HTTP API", 503, map[string]string{"Apigw-Requestid": "x"}, `{"message":"Service Unavailable"}`, true},
		{"behind an HTTP API", 503, map[string]string{"Apigw-Requestid": "x"}, `{"message":"x","hint":"y"}`, false},
		{"API Management", 429, nil, `{ "statusCode": 429, "message": "Rate limit is exceeded. Try again in 30 seconds." }`, true},
		{"API Management, tokens", 429, nil, `{ "statusCode": 429, "message": "Token limit is exceeded. Try again in 54 seconds." }`, true},
		{"API Management, a quota", 403, nil, `{ "statusCode": 403, "message": "Out of call volume quota. Quota will be replenished in 00:12:10." }`, true},
		{"Front Door", 502, map[string]string{"X-Azure-ExternalError": "0x830c1011"}, "x", true},
		{"behind Front Door", 502, map[string]string{"X-Azure-Ref": "x"}, `{"message":"x"}`, false},
		{"Traefik", 504, nil, "Gateway Timeout", true},
		{"Traefik, no server", 503, nil, "no available server\n", true},
		{"a Go server", 404, nil, "404 page not found", false},
		{"a server that is busy", 503, nil, "Service Unavailable", false},
		{"HAProxy", 503, nil, "<html><body><h1>503 Service Unavailable</h1>\nNo server is available to handle this request.\n</body></html>", true},
		{"Squid", 403, map[string]string{"X-Squid-Error": "ERR_ACCESS_DENIED 0"}, "denied", true},
		{"CloudFront", 504, map[string]string{"Server": "CloudFront"}, "x", true},
		{"Akamai", 503, map[string]string{"Server": "AkamaiGHost"}, `{"reference":"18.2f4"}`, true},
		{"words far behind", 500, nil, strings.Repeat(" x", 1<<10) + "no healthy upstream", false},
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

// TestIntermediaryOfAnUnreadBody: an error whose body was not read may be the provider's, also
// behind a CDN.
func TestIntermediaryOfAnUnreadBody(t *testing.T) {
	behind := func(more ...string) http.Header {
		h := http.Header{"Server": {"cloudflare"}, "Cf-Ray": {"1"}}
		for i := 0; i < len(more); i += 2 {
			h.Set(more[i], more[i+1])
		}
		return h
	}
	assert.False(t, Intermediary(429, behind("Content-Type", "application/json"), nil))
	assert.False(t, Intermediary(503, behind(), nil))
	assert.True(t, Intermediary(503, behind(), []byte{}), "empty")
	assert.True(t, Intermediary(503, behind("Content-Length", "0"), nil), "empty")
	assert.True(t, Intermediary(503, behind("Content-Type", "text/html"), nil), "a page")
	assert.True(t, Intermediary(522, behind(), nil), "no provider has this status")
}
