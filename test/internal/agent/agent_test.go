package agent_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/agent"
)

// bodies records the bodies of the requests.
type bodies struct {
	base http.RoundTripper
	seen []string
}

func (b *bodies) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	b.seen = append(b.seen, string(body))
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return b.base.RoundTrip(r)
}

// world returns an agent with one tool and a scripted server.
func world(t *testing.T, w faultyllm.Wire, stream bool, script ...faultyllm.Exchange) (*agent.Agent, *bodies) {
	t.Helper()
	srv, err := faultyllm.Start()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, srv.Close()) })
	srv.Play("c", script...)
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	b := &bodies{base: base}
	client := &http.Client{Transport: b}
	config := agent.Config{Model: "m", Stream: stream}
	url := srv.BaseURL("c", w)
	openai := []openaioption.RequestOption{
		openaioption.WithBaseURL(url), openaioption.WithAPIKey("k"), openaioption.WithHTTPClient(client),
	}
	var model agent.Model
	switch w {
	case faultyllm.Chat:
		model = agent.NewChat(config, openai...)
	case faultyllm.Responses:
		model = agent.NewResponses(config, openai...)
	case faultyllm.Anthropic:
		model = agent.NewAnthropic(config,
			anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("k"), anthropicoption.WithHTTPClient(client))
	}
	return &agent.Agent{Name: "test", Model: model, Tools: []agent.Tool{{
		Name: "look", Effect: otelllm.EffectReadOnly,
		Do: func(_ context.Context, arguments string) (string, error) {
			if strings.Contains(arguments, "bad") {
				return "", errors.New("no such thing")
			}
			return "seen " + arguments, nil
		},
	}}}, b
}

var (
	asks = faultyllm.Answer(
		faultyllm.Text("I look."),
		faultyllm.ToolCall("call_1", "look", `{"at":`, `"sky"}`), faultyllm.ToolCall("call_2", "look", `{"at":"sea"}`),
		faultyllm.Finish(faultyllm.ToolCalls))
	breaks = faultyllm.Answer(faultyllm.Begin(), faultyllm.Reset())
	says   = faultyllm.Answer(faultyllm.Text("It is ", "blue."), faultyllm.Finish(faultyllm.Stop))
)

func everyWay(t *testing.T, test func(*testing.T, faultyllm.Wire, bool)) {
	t.Helper()
	for _, w := range faultyllm.Wires() {
		for _, stream := range []bool{true, false} {
			t.Run(w.String()+map[bool]string{true: "/stream", false: "/document"}[stream], func(t *testing.T) { test(t, w, stream) })
		}
	}
}

func TestToolsRunAndTheirOutputsAreSent(t *testing.T) {
	everyWay(t, func(t *testing.T, w faultyllm.Wire, stream bool) {
		a, sent := world(t, w, stream, asks, says)
		var shown string
		a.OnText = func(s string) { shown += s }
		text, err := a.Run(t.Context(), "What colour is it?")
		require.NoError(t, err)
		assert.Equal(t, "It is blue.", text)
		if stream {
			assert.Equal(t, "I look.It is blue.", shown)
		}
		require.Len(t, sent.seen, 2)
		for _, words := range []string{"What colour", "I look.", "call_1", "call_2", `seen {\"at\":\"sky\"}`, `seen {\"at\":\"sea\"}`} {
			assert.Contains(t, sent.seen[1], words)
		}
		assert.Equal(t, 2, strings.Count(sent.seen[1], "call_1"), "the call and its output")
	})
}

func TestToolFailureGoesToTheModelOrEndsTheRun(t *testing.T) {
	everyWay(t, func(t *testing.T, w faultyllm.Wire, stream bool) {
		bad := faultyllm.Answer(faultyllm.ToolCall("call_1", "look", `{"at":"bad"}`), faultyllm.Finish(faultyllm.ToolCalls))
		a, sent := world(t, w, stream, bad, says, bad, faultyllm.Answer(faultyllm.ToolCall("call_9", "guess", `{}`), faultyllm.Finish(faultyllm.ToolCalls)), says)
		_, err := a.Run(t.Context(), "?")
		require.NoError(t, err)
		assert.Contains(t, sent.seen[1], "no such thing")

		a.StopOnToolError = true
		_, err = a.Run(t.Context(), "?")
		require.ErrorContains(t, err, "tool look: no such thing")

		a.StopOnToolError = false
		_, err = a.Run(t.Context(), "?")
		require.NoError(t, err)
		assert.Contains(t, sent.seen[4], "no such tool")
	})
}

func TestBrokenTurnIsRetried(t *testing.T) {
	for _, tc := range []struct {
		name         string
		forget       func(agent.History)
		call, output bool
	}{
		{"unchanged", nil, true, true},
		{"without outputs", agent.History.ForgetOutputs, true, false},
		{"without calls", agent.History.ForgetCalls, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			everyWay(t, func(t *testing.T, w faultyllm.Wire, stream bool) {
				a, sent := world(t, w, stream, asks, breaks, says)
				a.Retries, a.BeforeRetry = 1, tc.forget
				_, err := a.Run(t.Context(), "What colour is it?")
				require.NoError(t, err)
				require.Len(t, sent.seen, 3)
				assert.Contains(t, sent.seen[1], "seen ", "the first attempt is complete")
				assert.Equal(t, tc.output, strings.Contains(sent.seen[2], "seen "))
				assert.Equal(t, tc.call, strings.Contains(sent.seen[2], "call_1"))
				assert.Contains(t, sent.seen[2], "What colour")
			})
		})
	}
	a, _ := world(t, faultyllm.Chat, true, breaks, breaks)
	a.Retries = 1
	_, err := a.Run(t.Context(), "?")
	require.Error(t, err, "retries are limited")
}

func TestOutputsCanBeDeliveredSeparately(t *testing.T) {
	a, _ := world(t, faultyllm.Responses, true, asks, says, asks)
	var delivered []string
	a.Deliver = func(_ context.Context, id, output string) error {
		delivered = append(delivered, id+": "+output)
		return nil
	}
	_, err := a.Run(t.Context(), "?")
	require.NoError(t, err)
	assert.Equal(t, []string{`call_1: seen {"at":"sky"}`, `call_2: seen {"at":"sea"}`}, delivered)

	lost := errors.New("lost")
	a.Deliver = func(context.Context, string, string) error { return lost }
	_, err = a.Run(t.Context(), "?")
	require.ErrorIs(t, err, lost)
}

func TestTurnsAreBounded(t *testing.T) {
	a, sent := world(t, faultyllm.Anthropic, true, asks, asks, asks)
	a.MaxTurns = 2
	_, err := a.Run(t.Context(), "?")
	require.ErrorIs(t, err, agent.ErrTooManyTurns)
	assert.Len(t, sent.seen, 2)
}

func TestAnErrorInBandIsAnError(t *testing.T) {
	everyWay(t, func(t *testing.T, w faultyllm.Wire, stream bool) {
		if !stream && w != faultyllm.Responses {
			t.Skip("the SDK treats an error object as an empty answer")
		}
		a, _ := world(t, w, stream, faultyllm.Answer(faultyllm.InBand(faultyllm.Failure{Trouble: faultyllm.Overloaded})))
		_, err := a.Run(t.Context(), "?")
		require.ErrorContains(t, err, "overloaded")
	})
}
