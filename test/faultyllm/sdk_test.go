package faultyllm_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"

	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// answer is the content that an SDK returned for a response.
type answer struct {
	text, reasoning, refusal string
	calls                    []toolCall
	finish                   string
	input, output            int64
	pieces                   map[string]any // arguments of the last call, while its pieces arrive
}

type toolCall struct{ id, name, arguments string }

const model = "test-model"

func start(t *testing.T) *faultyllm.Server {
	t.Helper()
	srv, err := faultyllm.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, srv.Close()) })
	return srv
}

// client returns an HTTP client with connections of its own, so that tests share none.
func client(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func ask(ctx context.Context, w faultyllm.Wire, baseURL string, hc *http.Client, stream bool, retries int) (answer, error) {
	switch w {
	case faultyllm.Chat:
		return askChat(ctx, openai.NewClient(openaiOptions(baseURL, hc, retries)...), stream)
	case faultyllm.Responses:
		return askResponses(ctx, openai.NewClient(openaiOptions(baseURL, hc, retries)...), stream)
	case faultyllm.Gemini, faultyllm.Vertex:
		return askGemini(ctx, w, baseURL, hc, stream, retries)
	default:
		return askAnthropic(ctx, anthropic.NewClient(anthropicoption.WithBaseURL(baseURL), anthropicoption.WithAPIKey("sk-test"),
			anthropicoption.WithHTTPClient(hc), anthropicoption.WithMaxRetries(retries)), stream)
	}
}

func openaiOptions(baseURL string, hc *http.Client, retries int) []openaioption.RequestOption {
	return []openaioption.RequestOption{
		openaioption.WithBaseURL(baseURL), openaioption.WithAPIKey("sk-test"),
		openaioption.WithHTTPClient(hc), openaioption.WithMaxRetries(retries),
	}
}

func askChat(ctx context.Context, c openai.Client, stream bool) (answer, error) {
	params := openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")}}
	var a answer
	var whole openai.ChatCompletion
	if stream {
		s := c.Chat.Completions.NewStreaming(ctx, params)
		var acc openai.ChatCompletionAccumulator
		for s.Next() {
			chunk := s.Current()
			if !acc.AddChunk(chunk) {
				return a, errors.New("the accumulator refused a chunk")
			}
			for _, choice := range chunk.Choices {
				if f, ok := choice.Delta.JSON.ExtraFields["reasoning_content"]; ok {
					a.reasoning += unquote(f.Raw())
				}
			}
		}
		if err := s.Err(); err != nil {
			return a, err
		}
		whole = acc.ChatCompletion
	} else {
		got, err := c.Chat.Completions.New(ctx, params)
		if err != nil {
			return a, err
		}
		whole = *got
	}
	if len(whole.Choices) != 1 {
		return a, errors.New("expected exactly one choice")
	}
	m := whole.Choices[0].Message
	if f, ok := m.JSON.ExtraFields["reasoning_content"]; ok && !stream {
		a.reasoning = unquote(f.Raw())
	}
	a.text, a.refusal, a.finish = m.Content, m.Refusal, whole.Choices[0].FinishReason
	for _, call := range m.ToolCalls {
		a.calls = append(a.calls, toolCall{call.ID, call.Function.Name, call.Function.Arguments})
	}
	a.input, a.output = whole.Usage.PromptTokens, whole.Usage.CompletionTokens
	return a, nil
}

func askResponses(ctx context.Context, c openai.Client, stream bool) (answer, error) {
	params := responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hello")}}
	var a answer
	var whole responses.Response
	var deltas string
	if stream {
		s := c.Responses.NewStreaming(ctx, params)
		for s.Next() {
			switch e := s.Current(); e.Type {
			case "response.output_text.delta", "response.refusal.delta":
				deltas += e.Delta
			case "response.completed", "response.incomplete", "response.failed":
				whole = e.Response
			case "error":
				a.finish = "error " + e.Code
			}
		}
		if err := s.Err(); err != nil {
			return a, err
		}
	} else {
		got, err := c.Responses.New(ctx, params)
		if err != nil {
			return a, err
		}
		whole = *got
	}
	if whole.Status == "failed" {
		return a, errors.New(string(whole.Error.Code))
	}
	a.finish = string(whole.Status)
	if whole.IncompleteDetails.Reason != "" {
		a.finish = whole.IncompleteDetails.Reason
	}
	for _, item := range whole.Output {
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				a.text += part.Text
				a.refusal += part.Refusal
			}
		case "reasoning":
			for _, part := range item.Summary {
				a.reasoning += part.Text
			}
		case "function_call":
			a.calls = append(a.calls, toolCall{item.CallID, item.Name, item.Arguments.OfString})
		}
	}
	if stream && deltas != a.text+a.refusal {
		return a, errors.New("the deltas do not add up to the text")
	}
	a.input, a.output = whole.Usage.InputTokens, whole.Usage.OutputTokens
	return a, nil
}

func askAnthropic(ctx context.Context, c anthropic.Client, stream bool) (answer, error) {
	params := anthropic.MessageNewParams{
		Model: model, MaxTokens: 1024,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))},
	}
	var a answer
	var whole anthropic.Message
	if stream {
		s := c.Messages.NewStreaming(ctx, params)
		defer s.Close()
		for s.Next() {
			if err := whole.Accumulate(s.Current()); err != nil {
				return a, err
			}
		}
		if err := s.Err(); err != nil {
			return a, err
		}
	} else {
		got, err := c.Messages.New(ctx, params)
		if err != nil {
			return a, err
		}
		whole = *got
	}
	a.finish = string(whole.StopReason)
	for _, block := range whole.Content {
		switch b := block.AsAny().(type) {
		case anthropic.TextBlock:
			a.text += b.Text
		case anthropic.ThinkingBlock:
			a.reasoning += b.Thinking
		case anthropic.ToolUseBlock:
			a.calls = append(a.calls, toolCall{b.ID, b.Name, string(b.Input)})
		}
	}
	a.input, a.output = whole.Usage.InputTokens, whole.Usage.OutputTokens
	return a, nil
}

func askGemini(ctx context.Context, w faultyllm.Wire, baseURL string, hc *http.Client, stream bool, retries int) (answer, error) {
	var a answer
	config := &genai.ClientConfig{
		HTTPClient: hc, HTTPOptions: genai.HTTPOptions{BaseURL: baseURL, RetryOptions: &genai.HTTPRetryOptions{
			Attempts: new(int32(retries) + 1), InitialDelay: new(0.001),
		}},
	}
	if w == faultyllm.Vertex {
		config.Backend, config.Project, config.Location = genai.BackendVertexAI, "p", "l"
	} else {
		config.Backend, config.APIKey = genai.BackendGeminiAPI, "sk-test"
	}
	c, err := genai.NewClient(ctx, config)
	if err != nil {
		return a, err
	}
	if !stream {
		got, err := c.Models.GenerateContent(ctx, model, genai.Text("hello"), nil)
		if err != nil {
			return a, err
		}
		return a, a.add(got)
	}
	for got, err := range c.Models.GenerateContentStream(ctx, model, genai.Text("hello"), nil) {
		if err != nil {
			return a, err
		}
		if err := a.add(got); err != nil {
			return a, err
		}
	}
	return a, nil
}

func (a *answer) add(r *genai.GenerateContentResponse) error {
	if len(r.Candidates) != 1 {
		return errors.New("expected exactly one candidate")
	}
	content := r.Candidates[0].Content
	if content == nil { // a filter ended the answer
		content = &genai.Content{}
	}
	for _, part := range content.Parts {
		switch {
		case part.FunctionCall != nil:
			if err := a.addCall(part.FunctionCall); err != nil {
				return err
			}
		case part.Thought:
			a.reasoning += part.Text
		default:
			a.text += part.Text
		}
	}
	a.finish = string(r.Candidates[0].FinishReason)
	a.input = int64(r.UsageMetadata.PromptTokenCount)
	a.output = int64(r.UsageMetadata.CandidatesTokenCount + r.UsageMetadata.ThoughtsTokenCount)
	return nil
}

// addCall adds a complete call, or one piece of one: then its arguments, which are all
// text, are joined when the last piece has arrived.
func (a *answer) addCall(c *genai.FunctionCall) error {
	if c.Name != "" {
		a.calls, a.pieces = append(a.calls, toolCall{id: c.ID, name: c.Name}), c.Args
	}
	if a.pieces == nil {
		a.pieces = map[string]any{}
	}
	for _, piece := range c.PartialArgs {
		key := strings.TrimPrefix(piece.JsonPath, "$.")
		before, _ := a.pieces[key].(string)
		a.pieces[key] = before + piece.StringValue
	}
	if c.WillContinue != nil && *c.WillContinue {
		return nil
	}
	arguments, err := json.Marshal(a.pieces)
	a.calls[len(a.calls)-1].arguments, a.pieces = string(arguments), nil
	return err
}

func unquote(raw string) string { return strings.TrimSuffix(strings.TrimPrefix(raw, `"`), `"`) }

func TestSDKsReadCompleteAnswers(t *testing.T) {
	const keepalives = "reasoning, keepalives and text"
	for _, tc := range []struct {
		name  string
		steps []faultyllm.Step
		want  answer // finish is per wire
		ends  map[faultyllm.Wire]string
	}{{
		name:  "text",
		steps: []faultyllm.Step{faultyllm.Text("Hel", "lo, \"world\"\n", "– ok"), faultyllm.Finish(faultyllm.Stop)},
		want:  answer{text: "Hello, \"world\"\n– ok"},
		ends:  map[faultyllm.Wire]string{faultyllm.Chat: "stop", faultyllm.Responses: "completed", faultyllm.Anthropic: "end_turn", faultyllm.Gemini: "STOP", faultyllm.Vertex: "STOP"},
	}, {
		name: "reasoning and text",
		steps: []faultyllm.Step{
			faultyllm.Reasoning("Let me ", "think."), faultyllm.Text("Done", "."), faultyllm.Finish(faultyllm.Stop),
		},
		want: answer{reasoning: "Let me think.", text: "Done."},
		ends: map[faultyllm.Wire]string{faultyllm.Chat: "stop", faultyllm.Responses: "completed", faultyllm.Anthropic: "end_turn", faultyllm.Gemini: "STOP", faultyllm.Vertex: "STOP"},
	}, {
		name: keepalives,
		steps: []faultyllm.Step{
			faultyllm.Ping(), faultyllm.Reasoning("Let me ", "think."), faultyllm.Ping(),
			faultyllm.Text("Done", "."), faultyllm.Finish(faultyllm.Stop),
		},
		want: answer{reasoning: "Let me think.", text: "Done."},
		ends: map[faultyllm.Wire]string{faultyllm.Chat: "stop", faultyllm.Responses: "completed", faultyllm.Anthropic: "end_turn"},
	}, {
		name: "text and two tool calls",
		steps: []faultyllm.Step{
			faultyllm.Text("I will look."),
			faultyllm.ToolCall("call_1", "read_file", `{"path":`, `"a.go"`, `}`),
			faultyllm.ToolCall("call_2", "apply_patch", `{"patch":"+x"}`),
			faultyllm.Finish(faultyllm.ToolCalls),
		},
		want: answer{text: "I will look.", calls: []toolCall{
			{"call_1", "read_file", `{"path":"a.go"}`}, {"call_2", "apply_patch", `{"patch":"+x"}`},
		}},
		ends: map[faultyllm.Wire]string{faultyllm.Chat: "tool_calls", faultyllm.Responses: "completed", faultyllm.Anthropic: "tool_use", faultyllm.Gemini: "STOP", faultyllm.Vertex: "STOP"},
	}, {
		name:  "cut by the token limit",
		steps: []faultyllm.Step{faultyllm.Text("And then"), faultyllm.Finish(faultyllm.Length)},
		want:  answer{text: "And then"},
		ends:  map[faultyllm.Wire]string{faultyllm.Chat: "length", faultyllm.Responses: "max_output_tokens", faultyllm.Anthropic: "max_tokens", faultyllm.Gemini: "MAX_TOKENS", faultyllm.Vertex: "MAX_TOKENS"},
	}, {
		name:  "content filter",
		steps: []faultyllm.Step{faultyllm.Text("First you"), faultyllm.Finish(faultyllm.ContentFilter)},
		want:  answer{text: "First you"},
		ends:  map[faultyllm.Wire]string{faultyllm.Chat: "content_filter", faultyllm.Responses: "content_filter", faultyllm.Anthropic: "refusal", faultyllm.Gemini: "SAFETY", faultyllm.Vertex: "SAFETY"},
	}, {
		name:  "refusal",
		steps: []faultyllm.Step{faultyllm.Refusal("I can't ", "help with that."), faultyllm.Finish(faultyllm.Refused)},
		want:  answer{refusal: "I can't help with that."},
		ends:  map[faultyllm.Wire]string{faultyllm.Chat: "stop", faultyllm.Responses: "completed", faultyllm.Anthropic: "refusal", faultyllm.Gemini: "SAFETY", faultyllm.Vertex: "SAFETY"},
	}} {
		for _, w := range wires {
			if tc.name == keepalives && tc.ends[w] == "" {
				continue // TestGenaiRejectsKeepalives
			}
			for _, stream := range []bool{true, false} {
				name := tc.name + "/" + w.String() + map[bool]string{true: "/stream", false: "/document"}[stream]
				t.Run(name, func(t *testing.T) {
					srv := start(t)
					srv.Play("c", faultyllm.Answer(tc.steps...))
					got, err := ask(t.Context(), w, srv.BaseURL("c", w), client(t), stream, 0)
					require.NoError(t, err)
					want := tc.want
					want.finish = tc.ends[w]
					if w != faultyllm.Chat && w != faultyllm.Responses { // the others have no refusal text
						want.text, want.refusal = want.text+want.refusal, ""
					}
					if w == faultyllm.Vertex { // it has no ids
						want.calls = slices.Clone(want.calls)
						for i := range want.calls {
							want.calls[i].id = ""
						}
					}
					want.input, want.output = 42, got.output
					assert.Equal(t, want, got)
					assert.Positive(t, got.output)

					records, err := srv.Records("c")
					require.NoError(t, err)
					require.Len(t, records, 1)
					r := records[0]
					assert.Equal(t, w, r.Wire)
					assert.Equal(t, stream, r.Streamed)
					assert.Equal(t, http.StatusOK, r.Status)
					assert.Equal(t, faultyllm.EndedWhole, r.Ending)
					if stream {
						assert.True(t, r.Sent.Terminal)
						assert.Equal(t, len(want.calls), r.Sent.ToolInputsStarted)
						assert.Equal(t, len(want.calls), r.Sent.ToolInputsCompleted)
					}
				})
			}
		}
	}
}

func TestSDKsReportTheProvidersErrors(t *testing.T) {
	for _, tc := range []struct {
		trouble faultyllm.Trouble
		openai  int
		code    string
		claude  int
		typ     string
		google  int
		status  string
	}{
		{faultyllm.RateLimited, 429, "rate_limit_exceeded", 429, "rate_limit_error", 429, "RESOURCE_EXHAUSTED"},
		{faultyllm.QuotaExhausted, 429, "insufficient_quota", 402, "billing_error", 429, "RESOURCE_EXHAUSTED"},
		{faultyllm.Unauthorized, 401, "invalid_api_key", 401, "authentication_error", 400, "INVALID_ARGUMENT"},
		{faultyllm.ContextTooLong, 400, "context_length_exceeded", 400, "invalid_request_error", 400, "INVALID_ARGUMENT"},
		{faultyllm.Overloaded, 503, "server_is_overloaded", 529, "overloaded_error", 503, "UNAVAILABLE"},
		{faultyllm.ServerError, 500, "server_error", 500, "api_error", 500, "INTERNAL"},
	} {
		for _, w := range wires {
			t.Run(tc.code+"/"+w.String(), func(t *testing.T) {
				srv := start(t)
				srv.Play("c", faultyllm.Refuse(faultyllm.Failure{Trouble: tc.trouble}))
				_, err := ask(t.Context(), w, srv.BaseURL("c", w), client(t), true, 0)
				switch w {
				case faultyllm.Anthropic:
					var e *anthropic.Error
					require.ErrorAs(t, err, &e)
					assert.Equal(t, tc.claude, e.StatusCode)
					assert.Contains(t, e.RawJSON(), tc.typ)
					assert.NotEmpty(t, e.RequestID)
				case faultyllm.Gemini, faultyllm.Vertex:
					var e genai.APIError
					require.ErrorAs(t, err, &e)
					assert.Equal(t, tc.google, e.Code)
					assert.Equal(t, tc.status, e.Status)
				default:
					var e *openai.Error
					require.ErrorAs(t, err, &e)
					assert.Equal(t, tc.openai, e.StatusCode)
					assert.Equal(t, tc.code, e.Code)
				}
			})
		}
	}
}

func TestSDKsFollowRetryHeaders(t *testing.T) {
	for _, w := range wires {
		t.Run(w.String(), func(t *testing.T) {
			srv := start(t)
			wait := 20 * time.Millisecond // Anthropic has whole seconds only: there the header is left out
			failure := faultyllm.Failure{Trouble: faultyllm.RateLimited, RetryAfter: wait}
			if w == faultyllm.Anthropic {
				failure.RetryAfter = 0
			}
			srv.Play("c", faultyllm.Refuse(failure), faultyllm.Answer(faultyllm.Text("ok"), faultyllm.Finish(faultyllm.Stop)))
			got, err := ask(t.Context(), w, srv.BaseURL("c", w), client(t), true, 1)
			require.NoError(t, err)
			assert.Equal(t, "ok", got.text)
			records, err := srv.Records("c")
			require.NoError(t, err)
			require.Len(t, records, 2)
			assert.Equal(t, http.StatusTooManyRequests, records[0].Status)
			first, second := "0", "1"
			if w == faultyllm.Gemini || w == faultyllm.Vertex { // the SDK does not number retries
				first, second = "", ""
			}
			assert.Equal(t, first, records[0].RetryCount)
			assert.Equal(t, second, records[1].RetryCount)
		})
	}
}

func TestSDKsReportErrorsInBand(t *testing.T) {
	for _, w := range wires {
		t.Run(w.String(), func(t *testing.T) {
			srv := start(t)
			srv.Play("c", faultyllm.Answer(faultyllm.Text("so "), faultyllm.InBand(faultyllm.Failure{Trouble: faultyllm.Overloaded})))
			_, err := ask(t.Context(), w, srv.BaseURL("c", w), client(t), true, 0)
			require.Error(t, err)
			assert.Contains(t, err.Error(), map[faultyllm.Wire]string{
				faultyllm.Chat: "server_is_overloaded", faultyllm.Responses: "server_is_overloaded", faultyllm.Anthropic: "overloaded_error",
				faultyllm.Gemini: "UNAVAILABLE", faultyllm.Vertex: "UNAVAILABLE",
			}[w])
		})
	}
}

// Google documents the details of its errors, and the SDK passes them on.
func TestGeminiRetryDelayIsInTheBody(t *testing.T) {
	srv := start(t)
	srv.Play("c",
		faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.RateLimited, RetryAfter: 1500 * time.Millisecond}),
		faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.Unauthorized}))
	for _, want := range []map[string]string{
		{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"},
		{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"},
	} {
		_, err := ask(t.Context(), faultyllm.Gemini, srv.BaseURL("c", faultyllm.Gemini), client(t), false, 0)
		var e genai.APIError
		require.ErrorAs(t, err, &e)
		last := e.Details[len(e.Details)-1]
		for key, value := range want {
			assert.Equal(t, value, last[key])
		}
	}
}

// genai does not support comments in a stream: a proxy's keepalive is an error.
func TestGenaiRejectsKeepalives(t *testing.T) {
	srv := start(t)
	srv.Play("c", faultyllm.Answer(faultyllm.Text("so"), faultyllm.Ping(), faultyllm.Finish(faultyllm.Stop)))
	got, err := ask(t.Context(), faultyllm.Gemini, srv.BaseURL("c", faultyllm.Gemini), client(t), true, 0)
	require.ErrorContains(t, err, "invalid stream chunk")
	assert.Equal(t, "so", got.text)
}

// Gemini sends only complete calls.
func TestGeminiSendsOnlyCompleteCalls(t *testing.T) {
	srv := start(t)
	begun := faultyllm.ToolInput("call_1", "apply_patch", `{"path":`)
	got := streamed(t, srv, "c", faultyllm.Gemini, faultyllm.Answer(faultyllm.Text("so"), begun, faultyllm.CleanEnd()))
	assert.NotContains(t, string(got), "functionCall")
	records, err := srv.Records("c")
	require.NoError(t, err)
	assert.Zero(t, records[0].Sent.ToolInputsStarted)

	got = streamed(t, srv, "c", faultyllm.Gemini, faultyllm.Answer(begun, faultyllm.Finish(faultyllm.ToolCalls)))
	assert.Contains(t, string(got), `{"functionCall":{"id":"call_1","name":"apply_patch","args":{}}}`)
}

func TestVertexStreamsArgumentByArgument(t *testing.T) {
	srv := start(t)
	for _, tc := range []struct {
		fragments []string
		want      []string // the pieces after the name
	}{
		{[]string{`{"path":`}, nil},
		{[]string{`{"path":"a.go","li`}, []string{`{"jsonPath":"$.path","stringValue":"a.go","willContinue":true}`, `{"jsonPath":"$.path","stringValue":""}`}},
		{[]string{`{"n":1.5,"on":`, `true,"x":null}`}, []string{`{"jsonPath":"$.n","numberValue":1.5}`, `{"jsonPath":"$.on","boolValue":true}`, `{"jsonPath":"$.x","nullValue":"NULL_VALUE"}`}},
		{[]string{`{"in":{"b":[2,3],"a":1}}`}, []string{`{"jsonPath":"$.in.a","numberValue":1}`, `{"jsonPath":"$.in.b[0]","numberValue":2}`, `{"jsonPath":"$.in.b[1]","numberValue":3}`}},
		{[]string{`no object`}, nil},
	} {
		got := streamed(t, srv, "c", faultyllm.Vertex, faultyllm.Answer(faultyllm.ToolInput("call_1", "apply_patch", tc.fragments...), faultyllm.CleanEnd()))
		assert.Equal(t, len(tc.want)+1, events(faultyllm.Vertex, got))
		assert.Contains(t, string(got), `{"functionCall":{"name":"apply_patch","willContinue":true}}`)
		for _, piece := range tc.want {
			assert.Contains(t, string(got), `{"functionCall":{"partialArgs":[`+piece+`],"willContinue":true}}`)
		}
		records, err := srv.Records("c")
		require.NoError(t, err)
		assert.Equal(t, 1, records[0].Sent.ToolInputsStarted)
		assert.Zero(t, records[0].Sent.ToolInputsCompleted)
	}
}
