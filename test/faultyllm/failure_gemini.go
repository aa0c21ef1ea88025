package faultyllm

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// geminiVoices holds Google's wording. Its typ is the canonical code of the RPC status.
var geminiVoices = [numberOfTroubles]voice{
	RateLimited: {
		status: http.StatusTooManyRequests, typ: "RESOURCE_EXHAUSTED",
		message: "Resource has been exhausted (e.g. check quota).",
	},
	QuotaExhausted: {
		status: http.StatusTooManyRequests, typ: "RESOURCE_EXHAUSTED",
		message: "You exceeded your current quota, please check your plan and billing details.",
	},
	Unauthorized: {
		status: http.StatusBadRequest, typ: "INVALID_ARGUMENT",
		message: "API key not valid. Please pass a valid API key.",
	},
	ContextTooLong: {
		status: http.StatusBadRequest, typ: "INVALID_ARGUMENT",
		message: "The input token count (1310720) exceeds the maximum number of tokens allowed (1048576).",
	},
	Overloaded: {
		status: http.StatusServiceUnavailable, typ: "UNAVAILABLE",
		message: "The model is overloaded. Please try again later.",
	},
	ServerError: {
		status: http.StatusInternalServerError, typ: "INTERNAL",
		message: "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting",
	},
	EngineFailure: {
		status: http.StatusInternalServerError, typ: "INTERNAL",
		message: "Internal error encountered.",
	},
}

// geminiBody returns Google's error body, which is the same before a stream and inside
// it.
// https://cloud.google.com/apis/design/errors
func (f *Failure) geminiBody() string {
	v := geminiVoices[f.Trouble]
	var details []string
	switch f.Trouble {
	case RateLimited:
		details = append(details, geminiQuota("GenerateRequestsPerMinutePerProjectPerModel"))
	case QuotaExhausted:
		details = append(details, geminiQuota("GenerateRequestsPerDayPerProjectPerModel"))
	case Unauthorized:
		details = append(details, `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID",`+
			`"domain":"googleapis.com","metadata":{"service":"generativelanguage.googleapis.com"}}`)
	}
	if f.RetryAfter > 0 {
		details = append(details, fmt.Sprintf(`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":%s}`, q(protoDuration(f.RetryAfter))))
	}
	more := ""
	if len(details) > 0 {
		more = `,"details":[` + strings.Join(details, ",") + `]`
	}
	return fmt.Sprintf(`{"error":{"code":%d,"message":%s,"status":%s%s}}`, v.status, q(f.in(v)), q(cmp.Or(f.Code, v.typ)), more)
}

func geminiQuota(id string) string {
	return `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{` +
		`"quotaMetric":"generativelanguage.googleapis.com/generate_content_requests","quotaId":` + q(id) + `}]}`
}

// protoDuration formats d as protocol buffers write a duration in JSON: 0.020s.
func protoDuration(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}
