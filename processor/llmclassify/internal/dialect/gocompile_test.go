package dialect

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

func otelc(status ptrace.StatusCode, message string, more map[string]any, events ...event) shape {
	attrs := map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-test",
		"gen_ai.request.is_stream": true,
	}
	maps.Copy(attrs, more)
	return shape{
		scope: "go.opentelemetry.io/otelc/instrumentation/github.com/openai/openai-go", name: "chat gpt-test", kind: ptrace.SpanKindClient,
		status: status, message: message, attrs: attrs, events: events,
	}
}

func TestGoCompile(t *testing.T) {
	type m = map[string]any
	list := func(s ...any) []any { return append([]any{}, s...) }
	const finish = "gen_ai.response.finish_reasons"
	checkRequests(t, GoCompile{}, []requestCase{
		{
			"finished", otelc(statusUnset, "", m{finish: list("stop"), "gen_ai.response.time_to_first_token": 250000}), []truth{success}, well, answered(classify.FinishStop),
		},
		{
			"every early teardown", otelc(statusError, "stream aborted", m{finish: list("error"), "gen_ai.response.time_to_first_token": 250000}),
			[]truth{cut, stopped, deadline, inBand},
			unclassified, failedWith(classify.Request{Finish: classify.FinishMissing}),
		},
		{
			"the same in older versions", otelc(statusUnset, "", m{finish: list()}),
			[]truth{cut, stopped, deadline, inBand},
			unknown,
			classify.Request{Finish: classify.FinishMissing},
		},
		{
			"refused", otelc(statusError, "429 Too Many Requests", m{"error.type": "429"}, event{class: "*errors.errorString", message: "429 Too Many Requests"}),
			[]truth{passing},
			ofProvider(semconv.CauseRateLimited, confirm), refusedBy(429, semconv.ProviderErrorKindRateLimited, "429"),
		},
		{
			"refused, by a status line", otelc(statusError, "401 Unauthorized", m{"error.type": "401 Unauthorized"}, event{class: "*errors.errorString", message: "401 Unauthorized"}),
			[]truth{refusal},
			ofProvider(semconv.CauseAuthentication, never), refusedBy(401, semconv.ProviderErrorKindAuthentication, ""),
		},
		{
			"no response", otelc(statusError, `Post "https://api.example.com": dial tcp: connection refused`, m{"error.type": "*url.Error"},
				event{class: "*url.Error", message: `Post "https://api.example.com": dial tcp: connection refused`}),
			[]truth{unsent, badHost, early, stopped, deadline},
			unclassified, failedWith(classify.Request{}),
		},
	})
	s := otelc(statusUnset, "", m{finish: list()})
	s.scope = ""
	_, d, _ := s.read(t)
	assert.Equal(t, GoCompile{}, d, "its own keys tell it, too")
}
