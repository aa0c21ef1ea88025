package catalogue

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue/source"
	"github.com/otelllm/otelllm-go/semconv"
)

// TestPrecedence: what decides, in the order of Strength.
func TestPrecedence(t *testing.T) {
	words := FindPhrases(nil, []byte("Insufficient balance (1008)"))
	require.NotEmpty(t, words)
	for _, tt := range []struct {
		name string
		e    Error
		kind string
		by   Strength
	}{
		{"a specific code over words", Error{Status: 429, Names: []string{"context_length_exceeded"}, Phrases: words}, "context_length_exceeded", BySpecific},
		{"words over a code that they refine", Error{Status: 429, Names: []string{"rate_limit_exceeded"}, Phrases: words}, "quota_exhausted", ByPhrase},
		{"words over a type", Error{Status: 429, Names: []string{"", "overloaded_error"}, Phrases: words}, "quota_exhausted", ByPhrase},
		{"words over a status", Error{Status: 500, Phrases: words}, "quota_exhausted", ByPhrase},
		{"a type over a status", Error{Status: 401, Names: []string{"", "overloaded_error"}}, "overloaded", ByType},
		{"a status over a family", Error{Status: 429, Names: []string{"invalid_request_error"}}, "rate_limited", ByStatus},
		{"a family over any status", Error{Status: 500, Names: []string{"", "invalid_request_error"}}, "invalid_request", ByFamily},
		{"a status that refuses over the family of a gateway", Error{Status: 400, Names: []string{"", "api_error"}}, "invalid_request", ByClass},
		{"a family alone", Error{Names: []string{"", "api_error"}}, "server_error", ByFamily},
		{"a name that a gateway extended", Error{Names: []string{"upstream_insufficient_quota"}}, "quota_exhausted", BySpecific},
		{"the last part of a name", Error{Names: []string{"InternalError.Algo.DataInspectionFailed"}}, "content_policy", BySpecific},
		{"the first part of a name", Error{Names: []string{"AuthFailure.SignatureFailure"}}, "authentication", BySpecific},
		{"a number is no part of a name", Error{Names: []string{"unknown.1002"}}, "unknown", ByNothing},
		{"the status of what failed", Error{Status: 424, Own: 500}, "server_error", ByClass},
		{"what failed is not known", Error{Status: 424}, "invalid_request", ByClass},
		{"any status", Error{Status: 418}, "invalid_request", ByClass},
		{"any other status", Error{Status: 555}, "server_error", ByClass},
		{"nothing", Error{}, "unknown", ByNothing},
		{"the status of the response over the error's own", Error{Status: 400, Own: 429}, "invalid_request", ByClass},
		{"the error's own status in a 200", Error{Status: 200, Own: 429}, "rate_limited", ByStatus},
		{"the first of two codes", Error{Names: []string{"insufficient_quota", "invalid_api_key"}}, "quota_exhausted", BySpecific},
		{"a code of a day's quota", Error{Status: 429, Names: []string{"XPerDayY", "RESOURCE_EXHAUSTED"}}, "quota_exhausted", BySpecific},
		{"a number under its status", Error{Status: 401, Names: []string{"1002"}}, "authentication", BySpecific},
		{"the number under another status", Error{Status: 429, Names: []string{"1002"}}, "rate_limited", ByStatus},
	} {
		v := Decide(tt.e)
		assert.Equal(t, tt.kind, v.Kind.String(), tt.name)
		assert.Equal(t, tt.by, v.By, tt.name)
	}
}

func TestFindPhrases(t *testing.T) {
	assert.Empty(t, FindPhrases(nil, nil))
	assert.Empty(t, FindPhrases(nil, []byte("all is well")))
	once := FindPhrases(nil, []byte("the prompt is too long: 5 tokens"))
	require.Len(t, once, 1)
	for _, same := range []string{"PROMPT  is\n\ttoo long", `\"prompt is too long\"`, "x prompt is too long" + strings.Repeat("y", 10000)} {
		assert.Equal(t, once, FindPhrases(nil, []byte(same)), same)
	}
	assert.Empty(t, FindPhrases(nil, []byte(strings.Repeat("y", MaxMessage)+"prompt is too long")), "beyond the bound")
	assert.Equal(t, once, FindPhrases(once, []byte("prompt is too long")), "each once")

	var all strings.Builder
	for i := range phrases {
		if i > 0 {
			require.GreaterOrEqual(t, len(phrases[i-1].text), len(phrases[i].text), "the longest first")
		}
		if all.Len()+len(phrases[i].text) < MaxMessage {
			all.WriteString(phrases[i].text + " ")
		}
	}
	found := FindPhrases(nil, []byte(all.String()))
	assert.Equal(t, Phrases{0, 1, 2, 3}, found, "the longest stay")
	assert.Equal(t, found, once.Join(found))
}

// TestLongPeriod: the words that mean a limit of a long period, and those that do not.
func TestLongPeriod(t *testing.T) {
	for text, want := range map[string]bool{
		"monthly usage limit reached":                           true,
		"limit of 50 messages per day":                          true,
		"limited to 1000 API calls / month":                     true,
		"limited to 20 API calls / minute":                      false,
		"limited to 20 API calls / min, 1000 API calls / month": false,
		"you've hit your 5-hour limit":                          true,
		"Token Plan usage limit reached":                        true,
		"key is over its hard billing limit":                    true,
		"已达到 5 小时的使用上限":                                         true,
		"本周用量已达上限":                                              true,
		"you have used all of today's requests":                 true,
		"we have many requests this week":                       false, // nothing says that there is no more
		"rate limit of 60 requests per minute":                  false,
		"60 requests per minute exceeded; daily limit 1000":     false, // the first period decides
		"daily limit of 1000 exceeded, 60 requests per minute":  true,
		"concurrent session limit reached":                      false,
		"upgrade your plan for a higher rate limit":             false,
		"the quota is used. See you in 2 days":                  false, // another sentence
		"quota " + strings.Repeat("x", 100) + " per day":        false, // too far
		"每分钟请求次数超过限制":                                           false,
		"mondaily limits, daylimit, 5hlimit":                    false, // not words
		"you have used your plan usage ":                        false, // nothing follows
	} {
		assert.Equal(t, want, slices.Contains(FindPhrases(nil, []byte(text)), LongPeriod), text)
	}
	for code, want := range map[string]string{
		"user_weekly_rate_limited": "quota_exhausted", "Daily-Limit-Exceeded": "quota_exhausted", "free_tier_daily_requests": "quota_exhausted",
		"requests_per_minute_exceeded": "rate_limited", "weekly": "rate_limited", "daily_model_error": "rate_limited",
	} {
		assert.Equal(t, want, Decide(Error{Status: 429, Names: []string{code}}).Kind.String(), code)
	}
	period := Phrases{LongPeriod}
	for _, tt := range []struct {
		e    Error
		kind string
	}{
		{Error{Status: 429, Phrases: period}, "quota_exhausted"},
		{Error{Status: 429, Phrases: period, Wait: 20 * time.Second}, "rate_limited"},
		{Error{Status: 429, Phrases: period, Wait: ShortWait + 1}, "quota_exhausted"},
		{Error{Status: 503, Phrases: period}, "quota_exhausted"},
		{Error{Status: 401, Phrases: period}, "authentication"},
		{Error{Status: 429, Phrases: FindPhrases(period, []byte("temporarily out of capacity"))}, "overloaded"}, // the weakest phrase
	} {
		assert.Equal(t, tt.kind, Decide(tt.e).Kind.String(), tt.e)
	}
	assert.False(t, period.Known())
	assert.True(t, FindPhrases(period, []byte("prompt is too long")).Known())
}

// TestRequestDecides: the phrases that mean something in answers of one host, or to one request.
func TestRequestDecides(t *testing.T) {
	bare := FindPhrases(nil, []byte("quota exceeded"))
	arguments := FindPhrases(nil, []byte("Failed to parse tool call arguments as JSON"))
	for _, tt := range []struct {
		e    Error
		kind string
	}{
		{Error{Status: 429, Phrases: bare}, "rate_limited"},
		{Error{Status: 429, Phrases: bare, Request: Request{Host: "githubcopilot.com"}}, "quota_exhausted"},
		{Error{Status: 429, Phrases: bare, Request: Request{Host: "api.githubcopilot.com"}}, "quota_exhausted"},
		{Error{Status: 429, Phrases: bare, Request: Request{Host: "notgithubcopilot.com"}}, "rate_limited"},
		{Error{Status: 500, Phrases: arguments}, "server_error"},
		{Error{Status: 500, Phrases: arguments, Request: Request{BrokenInput: true}}, "invalid_request"},
	} {
		assert.Equal(t, tt.kind, Decide(tt.e).Kind.String(), tt.e)
	}
}

func TestQuotedStatus(t *testing.T) {
	for message, want := range map[string]int{
		"": 0, "no status": 0, "400 tokens": 0, `"code": 503`: 0, `barcode: 400`: 0, `code: 4001`: 0,
		`{"error":{"code":400,"status":"INVALID_ARGUMENT"}}`: 400,
		`b'{\n  \"error\": {\n    \"code\": 400`:             400,
		`Error code: 400 - {'error': {'code': '400'}}`:       400,
		"upstream returned HTTP 422: field required":         422,
		"status_code=415":                                             415,
		"upstream responded with status 403":                          403,
		"litellm.ServiceUnavailableError: litellm.BadRequestError: x": 400,
		`litellm.BadRequestError: x {"code": 429}`:                    0, // they disagree
		"Error from provider: 400 Bad Request":                        400,
		"HTTP 403 Forbidden: x":                                       403,
		"429 Too Many Requests, then 403 Forbidden":                   0, // they disagree
		"400 requests":                                                0,
		"a: status 400; b: status 403":                                0,
		"HTTP 503, then status 400":                                   400,
		"overloaded. Error doing the fallback: litellm.BadRequestError: x - code 400": 0,
		strings.Repeat("status 400 ", MaxMessage):                                     400,
	} {
		assert.Equal(t, want, QuotedStatus([]byte(message)), message)
	}
	for _, tt := range []struct {
		e    Error
		kind string
	}{
		{Error{Status: 503, Quoted: 400}, "invalid_request"},
		{Error{Status: 200, Own: 503, Quoted: 400}, "invalid_request"},
		{Error{Status: 500, Quoted: 400, Names: []string{"", "server_error"}}, "invalid_request"},
		{Error{Status: 502, Quoted: 429}, "rate_limited"},
		{Error{Status: 200, Quoted: 400}, "invalid_request"}, // within a stream
		{Error{Status: 200, Own: 429, Quoted: 400}, "rate_limited"},
		{Error{Status: 503, Quoted: 400, Names: []string{"context_length_exceeded"}}, "context_length_exceeded"},
		{Error{Status: 429, Quoted: 400}, "rate_limited"}, // the wrapper's status says more than "gateway"
	} {
		assert.Equal(t, tt.kind, Decide(tt.e).Kind.String(), tt.e)
	}
}

func TestQuotedNames(t *testing.T) {
	for message, want := range map[string][2]string{
		"": {}, "no names": {}, `"code"`: {}, `"code":`: {}, `"code": "`: {}, `code: insufficient_quota`: {},
		`x - {"error":{"type":"insufficient_quota","code":"insufficient_quota"}}`:                       {"insufficient_quota", "insufficient_quota"},
		`Error code: 429 - {'error': {'code': 'insufficient_quota', 'type': None}}`:                     {"insufficient_quota", ""},
		`{\"error\":{\"status\":\"RESOURCE_EXHAUSTED\",\"code\":429}}`:                                  {"", "RESOURCE_EXHAUSTED"},
		`the user wrote "insufficient_quota": and "code": "my own word"`:                                {},
		`{\"type\":\"rate_limit_error\",\"details\":{\"error_code\":\"enforced_spend_limit_reached\"}}`: {"enforced_spend_limit_reached", "rate_limit_error"},
		`{"quotaId":"GenerateRequestsPerDayPerProject"}`:                                                {"GenerateRequestsPerDayPerProject", ""},
		`"code": "` + strings.Repeat("x", 200) + `", "type": "overloaded_error"`:                        {"", "overloaded_error"},
		strings.Repeat(`":`, MaxMessage):                                                                {},
	} {
		code, typ := QuotedNames([]byte(message))
		assert.Equal(t, want, [2]string{code, typ}, message)
	}
}

// FuzzMessages: no message makes the search fail, and no name comes from it that the
// catalogue does not know.
func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"error":{"code":"insufficient_quota","message":"prompt is too long"}}`))
	f.Add([]byte("60 requests per minute exceeded. Your plan usage limit is 5 hours, error code: 429"))
	f.Fuzz(func(t *testing.T, message []byte) {
		if n := len(FindPhrases(nil, message)); n > MaxPhrases {
			t.Fatal(n)
		}
		if s := QuotedStatus(message); s != 0 && (s < 400 || s > 499) {
			t.Fatal(s)
		}
		code, typ := QuotedNames(message)
		if code != "" && !KnownName(code) && !strings.Contains(strings.ToLower(code), perDay) || typ != "" && !KnownName(typ) {
			t.Fatal(code, typ)
		}
	})
}

func TestFinish(t *testing.T) {
	_, reasons, err := source.Load(".")
	require.NoError(t, err)
	for _, r := range reasons {
		if protocol := source.Protocols[r.Protocol]; protocol != "" {
			m, known := Finish(protocol, r.Reason)
			assert.True(t, known, r.ID)
			assert.Equal(t, finishes[finishKey{protocol, strings.ToLower(r.Reason)}], m, r.ID)
		}
	}
	for _, tt := range []struct {
		protocol, reason string
		want             Meaning
	}{
		{"openai_chat", "stop", FinishGood},
		{"openai_chat", "STOP", FinishGood},
		{"openai_chat", "network_error", FinishError},
		{"openai_chat", "insufficient_system_resource", FinishOverloaded},
		{"gemini", "MALFORMED_FUNCTION_CALL", FinishError},
		{"openai_completions", "length", FinishMaxTokens}, // the same in all protocols
		{"anthropic_messages", "pause_turn", FinishPaused},
		{"ollama", "load", FinishNothingDue},
		{"a new one", "end_turn", FinishGood},
		{"openai_chat", "unheard_of", FinishUnknown},
		{"openai_chat", strings.Repeat("x", 1000), FinishUnknown},
		{"openai_chat", "", FinishUnknown},
	} {
		m, known := Finish(tt.protocol, tt.reason)
		assert.Equal(t, tt.want, m, tt.reason)
		assert.Equal(t, tt.want != FinishUnknown, known, tt.reason)
	}
}

// TestEntriesAreTheTables: the generated tables have the rules of the files and no others.
func TestEntriesAreTheTables(t *testing.T) {
	entries, _, err := source.Load(filepath.Clean("."))
	require.NoError(t, err)
	keys := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		keys[e.Key()] = true
		assert.Equal(t, Passes(e.ProviderErrorKind()), e.Passes, "%s: whether an error passes is known by its kind", e.ID)
	}
	for name, rules := range names {
		for _, r := range rules {
			assert.True(t, keys[nameKey(name, r.status)], name)
			assert.NotEqual(t, semconv.ProviderErrorKindUnset, r.kind, name)
		}
	}
	for _, p := range phrases {
		assert.True(t, keys["phrase "+p.text], p.text)
	}
	for status := range statuses {
		assert.True(t, keys[statusKey(status)], status)
	}
}

func BenchmarkFindPhrases(b *testing.B) {
	message := []byte(strings.Repeat("the quick brown fox must be followed by the lazy dog. ", 100))
	b.SetBytes(MaxMessage)
	for b.Loop() {
		FindPhrases(nil, message)
	}
}

func BenchmarkQuotedStatus(b *testing.B) {
	message := []byte(strings.Repeat("the code quick brown fox must be followed by the lazy status. ", 100))
	b.SetBytes(MaxMessage)
	for b.Loop() {
		QuotedStatus(message)
	}
}
