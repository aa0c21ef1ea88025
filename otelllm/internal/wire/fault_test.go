package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestReadError(t *testing.T) {
	defer func(was func() time.Time) { now = was }(now)
	now = func() time.Time { return time.Unix(1000000, 0) }
	for _, tt := range []struct {
		name, body string
		want       Error
	}{
		{"nothing", ``, Error{Foreign: true}},
		{"text", `upstream connect error`, Error{Foreign: true}},
		{"html", `<html>`, Error{Foreign: true}},
		{"OpenAI", `{"error":{"message":"secret","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, Error{Type: "invalid_request_error", Code: "context_length_exceeded"}},
		{"OpenAI, no code", `{"error":{"message":"secret","type":"server_error","param":null,"code":null}}`, Error{Type: "server_error"}},
		{"OpenAI, rate limit", `{"error":{"message":"Rate limit reached for x in organization org-secret on tokens per min. Limit: 1. Please try again in 6m0s. Contact us","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, Error{Type: "tokens", Code: "rate_limit_exceeded", RetryAfter: 6 * time.Minute}},
		{"Anthropic", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`, Error{Type: "overloaded_error"}},
		{"Azure", `{"error":{"code":"429","message":"Requests have exceeded the rate limit. Please retry after 20 seconds."}}`, Error{Code: "429", Status: 429, RetryAfter: 20 * time.Second}},
		{"Azure's gateway", `{ "statusCode": 429, "message": "Rate limit is exceeded. Try again in 20 seconds." }`, Error{Status: 429, RetryAfter: 20 * time.Second, Foreign: true}},
		{"Azure's content filter", `{"error":{"message":"x","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, Error{Code: "content_filter", Status: 400}},
		{"vLLM", `{"object":"error","message":"x","type":"BadRequestError","param":null,"code":400}`, Error{Type: "BadRequestError", Code: "400", Status: 400}},
		{"Text Generation Inference", `{"error":{"message":"x","http_status_code":422}}`, Error{Status: 422}},
		{"OpenRouter", `{"error":{"message":"x","code":429,"metadata":{"provider_name":"p","retry_after":1.5}},"user_id":"u"}`, Error{Code: "429", Status: 429, RetryAfter: 1500 * time.Millisecond}},
		{"Google's", `{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}`, Error{Type: "UNAVAILABLE", Code: "503", Status: 503}},
		{
			"Google's day's quota", `{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"m","quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaDimensions":{"model":"x"},"quotaValue":"50"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}`,
			Error{Type: "RESOURCE_EXHAUSTED", Code: "GenerateRequestsPerDayPerProjectPerModel-FreeTier", Status: 429, RetryAfter: 34 * time.Second},
		},
		{"Google's limit of a minute", `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]}]}}`, Error{Type: "RESOURCE_EXHAUSTED", Code: "429", Status: 429}},
		{"a delay before its hint", `{"error":{"retry_after":5,"message":"Please try again in 1s."}}`, Error{RetryAfter: 5 * time.Second}},
		{"a delay that is no time", `{"error":{"retry_after":5,"details":[{"retryDelay":"soon"}]}}`, Error{RetryAfter: 5 * time.Second}},
		{"a reason beside a status", `{"error":{"code":403,"details":[{"reason":"SERVICE_DISABLED"}]}}`, Error{Code: "SERVICE_DISABLED", Status: 403}},
		{"a reason beside a code", `{"error":{"code":"x","details":[{"reason":"SERVICE_DISABLED"}]}}`, Error{Code: "x"}},
		{"Anthropic's error_code", `{"type":"error","error":{"type":"rate_limit_error","message":"x","details":{"error_code":"enforced_spend_limit_reached"}}}`, Error{Type: "rate_limit_error", Code: "enforced_spend_limit_reached"}},
		{"details of null", `{"type":"error","error":{"details":null,"type":"overloaded_error","message":"Overloaded"}}`, Error{Type: "overloaded_error"}},
		{"a reason alone", `{"error":{"details":[{"reason":"SERVICE_DISABLED"}]}}`, Error{Code: "SERVICE_DISABLED"}},
		{"flat", `{"code":"InvalidKey","message":"x"}`, Error{Code: "InvalidKey"}},
		{"a plan's limit", `{"error":{"type":"usage_limit_reached","plan_type":"plus","resets_in_seconds":18000}}`, Error{Type: "usage_limit_reached", RetryAfter: 5 * time.Hour}},
		{"a plan's limit, by the clock", `{"error":{"type":"usage_limit_reached","resets_at":1000600}}`, Error{Type: "usage_limit_reached", RetryAfter: 10 * time.Minute}},
		{"both", `{"error":{"resets_in_seconds":60,"resets_at":1000600}}`, Error{RetryAfter: time.Minute}},
		{"a moment that has passed", `{"error":{"code":"a","resets_at":1}}`, Error{Code: "a"}},
		{"flat, with a hint", `{"error":"x","retry_after_ms":1500}`, Error{RetryAfter: 1500 * time.Millisecond}},
		{"a text", `{"error":"secret"}`, Error{}},
		{"xAI", `{"code":"some-code","error":"secret"}`, Error{Code: "some-code"}},
		{"MiniMax", `{"id":"x","choices":null,"base_resp":{"status_code":1008,"status_msg":"secret"}}`, Error{Code: "base_resp.1008"}},
		{"a list", ` [ {"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}]`, Error{Code: "429", Type: "RESOURCE_EXHAUSTED", Status: 429}},
		{"an event stream", "event: error\ndata: {\"error\":{\"code\":\"c\"}}\n\n", Error{Code: "c"}},
		{"Cloudflare's gateway", `{"success":false,"result":[],"messages":[],"error":[{"code":2005,"message":"secret"}]}`, Error{Code: "2005", Foreign: true}},
		{"a list of texts", `{"error":["secret"],"status":503}`, Error{Status: 503, Foreign: true}},
		{"an empty list", `{"error":[],"message":"secret"}`, Error{Foreign: true}},
		{"a raw error", `{"error":{"message":"x","code":429,"metadata":{"raw":"{\"error\":{\"type\":\"insufficient_quota\",\"code\":\"insufficient_quota\"}}"}}}`, Error{Code: "insufficient_quota", Type: "insufficient_quota", Status: 429}},
		{"a name in a message that is not known", `{"error":{"message":"{\"code\":\"my secret\"}","code":"400"}}`, Error{Code: "400", Status: 400}},
		{"a detail", `{"detail":"secret"}`, Error{Foreign: true}},
		{"problem details", `{"type":"https://x/y","title":"secret","status":503,"detail":"secret"}`, Error{Type: "https://x/y", Status: 503, Foreign: true}},
		{"reset of a limit", `{"error":{"code":429,"metadata":{"headers":{"X-RateLimit-Reset":"1000060"}}}}`, Error{Code: "429", Status: 429, RetryAfter: time.Minute}},
		{"its beginning", `{"error":{"type":"t","code":"c","message":"sec`, Error{Type: "t", Code: "c"}},
		{"with a byte order mark", "\xEF\xBB\xBF" + `{"error":{"type":"t"}}`, Error{Type: "t"}},
		{"a long code", `{"error":{"code":"` + strings.Repeat("x", 1000) + `"}}`, Error{Code: strings.Repeat("x", maxCode)}},
		{"a code that is no status", `{"error":{"code":200}}`, Error{Code: "200"}},
		{"an object where a text is due", `{"error":{"type":{"a":1},"code":["x"],"message":{"y":"Please try again in 1s"}}}`, Error{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, p := range protocols {
				assert.Equal(t, tt.want, p.ReadError(400, []byte(tt.body)), p.Name())
			}
		})
	}
}

func TestHintedDelay(t *testing.T) {
	defer func(was func() time.Time) { now = was }(now)
	now = func() time.Time { return time.Unix(1000000, 0) }
	for message, want := range map[string]time.Duration{
		"":                                                         0,
		"no hint":                                                  0,
		"Please try again in 20ms.":                                20 * time.Millisecond,
		"Please try again in 1.2s. Visit":                          1200 * time.Millisecond,
		"Please try again in 1m3.5s.":                              63500 * time.Millisecond,
		"Please try again in 7m12s":                                7*time.Minute + 12*time.Second,
		"Please try again in 1h2m.":                                62 * time.Minute,
		"Please retry after 1 second.":                             time.Second,
		"Please retry after 86400 seconds.":                        24 * time.Hour,
		"Please retry in 5 minutes":                                5 * time.Minute,
		"Please try again in 99999999999h":                         maxAfter,
		"Please try again in 999999999999999999999999":             0,
		"Please try again in later":                                0,
		"Please try again in 1e5s":                                 0,
		"Please try again in ..s":                                  0,
		"ry again in 5s":                                           5 * time.Second, // the beginning is cut
		"Please try again in 5s{}":                                 5 * time.Second,
		"Please try again in 1.0000000000s":                        time.Second,
		"Please try again in 1.00000000000s":                       0, // longer than what is read of a number
		"Please try again in 5 parsecs":                            0,
		"Your quota will reset after 12h34m16s.":                   12*time.Hour + 34*time.Minute + 16*time.Second,
		"You can use it again in 23 hours":                         23 * time.Hour,
		"Please TRY AGAIN in 58 hours.":                            maxAfter,
		"resets in 2 days":                                         maxAfter,
		"upgrade your plan or wait 6 seconds for your limit":       6 * time.Second,
		"available again in about 3 minutes":                       3 * time.Minute,
		"a limit of 100 requests in 5 hours":                       0, // not a wait
		"took 3 requests in 5 hours. Please retry after 20s":       20 * time.Second,
		"resets at 1970-01-12T14:46:40Z (2056)":                    time.Hour, // of now
		"Your limit will reset at 1970-01-12 14:46:40":             time.Hour,
		"access again on 1970-01-12 14:46 UTC":                     59*time.Minute + 20*time.Second,
		"resets at 1003600":                                        time.Hour,
		"resets at 1970-01-11T00:00:00Z":                           0, // it has passed
		"available since 1970-01-12":                               0,
		strings.Repeat("x", maxMessage) + "Please try again in 5s": 0,
	} {
		assert.Equal(t, want, hintedDelay([]byte(message)), message)
	}
}
