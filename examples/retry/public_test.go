package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/retry"
	"github.com/otelllm/otelllm-go/semconv"
)

// These are failures that users of frameworks reported, rebuilt: a loop around the whole run repeats
// tools that have run. With the loop of package retry in its place they do not run again.

// charging is an agent with one tool. Its loop is given.
type charging struct {
	client  openai.Client
	charged int
	keeps   bool // the history, between attempts
	history []openai.ChatCompletionMessageParamUnion
}

// newCharging returns an agent whose model asks to charge if the request has no output yet, under
// a new id each time, and answers a request with an output by these statuses, and then well.
func newCharging(t *testing.T, keeps bool, statuses ...int) *charging {
	t.Helper()
	calls := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		status, answer := http.StatusOK, renderChat("Charged.", "", nil)
		switch {
		case outputs(body) == 0:
			calls++
			answer = renderChat("", fmt.Sprint("call_", calls), []string{`{"amount":`, `"100.00"}`})
		case len(statuses) > 0:
			status, statuses = statuses[0], statuses[1:]
			answer = `{"error":{"message":"x","type":"x","code":null}}`
		}
		w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream", false: "application/json"}[status == http.StatusOK])
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(srv.Close)
	return &charging{keeps: keeps, client: openai.NewClient(option.WithBaseURL(srv.URL+"/v1/"), option.WithAPIKey("k"),
		option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: otelllm.NewTransport(nil)}))}
}

// run is the run of the agent. Nothing of it is declared.
func (a *charging) run(ctx context.Context) error {
	if !a.keeps || a.history == nil {
		a.history = []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Charge the card.")}
	}
	for {
		stream := a.client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: "m", Messages: a.history})
		var answer openai.ChatCompletionAccumulator
		for stream.Next() {
			answer.AddChunk(stream.Current())
		}
		if err := stream.Err(); err != nil {
			return err
		}
		message := answer.Choices[0].Message
		if len(message.ToolCalls) == 0 {
			return nil
		}
		a.history = append(a.history, message.ToParam())
		for _, call := range message.ToolCalls {
			a.charged++
			a.history = append(a.history, openai.ToolMessage("charged", call.ID))
		}
	}
}

// again is the loop of a framework: any error repeats the run.
func again(ctx context.Context, attempts int, run func(context.Context) error) (err error) {
	for range attempts {
		if err = run(ctx); err == nil {
			return nil
		}
	}
	return err
}

// https://github.com/agno-agi/agno/issues/10366: Agent(retries=2) repeats the run after a tool has
// succeeded and the next model call failed. The ids of the calls are new in each attempt.
func TestAgno10366(t *testing.T) {
	failing := []int{500, 500, 500, 500}
	a := newCharging(t, false, failing...)
	require.Error(t, again(t.Context(), 3, a.run))
	assert.Equal(t, 3, a.charged, "before")

	a = newCharging(t, false, failing...)
	err := retry.Run(t.Context(), atOnce(nil), a.run)
	var e *retry.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, semconv.RetryDecisionOutputLeftOut, e.Decision)
	assert.Equal(t, "call_1", e.Plan.Ran[0].ID)
	assert.Equal(t, 1, a.charged, "with the line")

	a = newCharging(t, true, failing[:2]...)
	require.NoError(t, retry.Run(t.Context(), atOnce(nil), a.run))
	assert.Equal(t, 1, a.charged, "with the line, and a history that is kept")
}

// https://github.com/agentarea/agentarea/pull/320: a shell call succeeded, the next model call was
// refused with 400, and the workflow was repeated from its start.
func TestAgentarea320(t *testing.T) {
	a := newCharging(t, false, http.StatusBadRequest)
	require.NoError(t, again(t.Context(), 2, a.run))
	assert.Equal(t, 2, a.charged, "before")

	a = newCharging(t, false, http.StatusBadRequest)
	err := retry.Run(t.Context(), atOnce(nil), a.run)
	var e *retry.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, semconv.RetryDecisionNoRetry, e.Decision)
	var refused *openai.Error
	require.ErrorAs(t, err, &refused, "the SDK's own error")
	assert.Equal(t, http.StatusBadRequest, refused.StatusCode)
	assert.Equal(t, 1, a.charged, "with the line")
}
