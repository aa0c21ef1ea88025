package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/retry"
	llm "github.com/otelllm/otelllm-go/test/faultyllm"
)

// Every answer of a run breaks in every way after each of its events, and the following attempts are complete. Effects
// that cannot be undone, payments and text that was shown, never happen twice without the user's consent. If neither
// has happened, the loop succeeds without asking.
func TestNothingTwice(t *testing.T) {
	const words = "The invoice is paid."
	call := llm.Answer(llm.ToolCall("call_1", "pay", `{"invoice"`, `:"17"}`), llm.Finish(llm.ToolCalls))
	said := llm.Answer(llm.Text("The invoice ", "is paid."), llm.Finish(llm.Stop))
	faults := map[string]llm.Step{
		"reset": llm.Reset(), "truncated": llm.Truncate(), "clean end": llm.CleanEnd(),
		"overloaded": llm.InBand(llm.Failure{Trouble: llm.Overloaded}), "server error": llm.InBand(llm.Failure{Trouble: llm.ServerError}),
	}
	type story struct {
		name        string
		call, words []llm.Exchange // faults of the first request, and of the one with the tool's output
	}
	stories := []story{{name: "whole"}}
	for name, fault := range faults {
		for n := range call.Events(llm.Chat) {
			broken := call.CutAfter(n, fault)
			stories = append(stories, story{fmt.Sprint("the call, ", name, " after ", n), []llm.Exchange{broken}, nil},
				story{fmt.Sprint("the call, ", name, " twice after ", n), []llm.Exchange{broken, broken}, nil})
		}
		for n := range said.Events(llm.Chat) {
			stories = append(stories, story{fmt.Sprint("the answer, ", name, " after ", n), nil, []llm.Exchange{said.CutAfter(n, fault)}})
		}
	}
	for trouble, name := range map[llm.Trouble]string{llm.RateLimited: "rate limited", llm.Overloaded: "overloaded", llm.ServerError: "server error"} {
		refused := llm.Refuse(llm.Failure{Trouble: trouble, RetryAfter: time.Millisecond})
		stories = append(stories, story{name + " before the call", []llm.Exchange{refused}, nil}, story{name + " before the answer", nil, []llm.Exchange{refused}})
	}

	srv, err := llm.Start()
	require.NoError(t, err)
	defer func() { assert.NoError(t, srv.Close()) }()
	t.Setenv("OPENAI_BASE_URL", srv.BaseURL("call", llm.Chat))
	t.Setenv("OPENAI_API_KEY", "sk-none")
	through, asked := 0, 0
	for _, s := range stories {
		for _, consent := range []bool{false, true} {
			srv.Play("call", append(s.call, call)...)
			srv.Play("words", append(s.words, said)...)
			var out bytes.Buffer
			paid, consents := 0, 0
			err := run(t.Context(), byHistory{}, atOnce(func(context.Context, retry.Question) bool {
				consents++
				return consent
			}), "Pay the invoice 17.", func(arguments string) string {
				assert.JSONEq(t, `{"invoice":"17"}`, arguments, s.name)
				paid++
				return "paid"
			}, func(text string) { out.WriteString(text) })
			shown := out.String()
			assert.LessOrEqual(t, paid, 1, s.name)
			if consents == 0 {
				through++
				require.NoError(t, err, s.name)
				assert.Equal(t, words, shown, s.name)
				assert.Equal(t, 1, paid, s.name)
			} else {
				asked++
				assert.Equal(t, consent, err == nil, "%s: %v", s.name, err)
			}
			if !consent {
				assert.True(t, strings.HasPrefix(words, shown), "%s: %q", s.name, shown)
			}
		}
	}
	assert.Greater(t, through, 20)
	assert.Greater(t, asked, 20)
}

// atOnce is a policy that does not wait, with a budget of its own.
func atOnce(ask func(context.Context, retry.Question) bool) retry.Policy {
	return retry.Policy{Ask: ask, Budget: new(retry.Budget), Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
}

// byHistory sends a request with the tool's output to the case with its answer.
type byHistory struct{}

func (byHistory) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte(`"tool_call_id"`)) {
		req.URL.Path = strings.Replace(req.URL.Path, "/call/", "/words/", 1)
	}
	return http.DefaultTransport.RoundTrip(req)
}

// An error that cannot pass is not retried.
func TestNoRetry(t *testing.T) {
	srv, err := llm.Start()
	require.NoError(t, err)
	defer func() { assert.NoError(t, srv.Close()) }()
	t.Setenv("OPENAI_BASE_URL", srv.BaseURL("c", llm.Chat))
	t.Setenv("OPENAI_API_KEY", "sk-none")
	for _, trouble := range []llm.Trouble{llm.QuotaExhausted, llm.Unauthorized, llm.ContextTooLong} {
		srv.Play("c", llm.Refuse(llm.Failure{Trouble: trouble}))
		policy := atOnce(func(context.Context, retry.Question) bool { t.Error("asked"); return false })
		require.Error(t, run(t.Context(), nil, policy, "Pay the invoice 17.", nil, func(string) {}))
		records, err := srv.Records("c")
		require.NoError(t, err)
		assert.Len(t, records, 1)
	}
}
