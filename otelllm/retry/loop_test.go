package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/semconv"
)

// reply is what the model does with one request.
type reply struct {
	status int // 0: 200
	after  string
	events []string
	cut    bool // the connection breaks after the events
}

const (
	text    = `{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"Paid."}}]}`
	stop    = `{"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	called  = `{"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"pay","arguments":"{}"}}]}}]}`
	started = `{"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant"}}]}`
	calls   = `{"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
	done    = `[DONE]`
)

var (
	answer     = reply{events: []string{text, stop, done}}
	asksToPay  = reply{events: []string{called, calls, done}}
	overloaded = reply{status: http.StatusServiceUnavailable}
)

// model is a model server with a client of it, and a clock that only sleeping moves.
type model struct {
	*httptest.Server

	client *http.Client
	now    time.Time
	slept  []time.Duration

	mu      sync.Mutex
	replies []reply
	bodies  []string

	streamed bool // requests are sent from a stream
}

func newModel(t *testing.T, replies ...reply) *model {
	t.Helper()
	m := &model{replies: replies, now: time.Unix(1_800_000_000, 0)}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	m.client = &http.Client{Transport: otelllm.NewTransport(&http.Transport{DisableKeepAlives: true})}
	return m
}

// ServeHTTP implements http.Handler.
func (m *model) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	m.mu.Lock()
	m.bodies = append(m.bodies, string(body))
	r := answer
	if len(m.replies) > 0 {
		r, m.replies = m.replies[0], m.replies[1:]
	}
	m.mu.Unlock()
	if r.after != "" {
		w.Header().Set("Retry-After", r.after)
	}
	if r.status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(r.status)
		_, _ = io.WriteString(w, `{"error":{"message":"x","type":"x","code":null}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range r.events {
		_, _ = io.WriteString(w, "data: "+e+"\n\n")
		_ = http.NewResponseController(w).Flush()
	}
	if r.cut {
		panic(http.ErrAbortHandler)
	}
}

func (m *model) requests() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.bodies)
}

// policy is a policy by the model's clock, with waits of half the backoff.
func (m *model) policy() Policy {
	return Policy{
		Budget: new(Budget), Random: func() float64 { return 0.5 }, Now: func() time.Time { return m.now },
		Sleep: func(ctx context.Context, d time.Duration) error {
			m.slept, m.now = append(m.slept, d), m.now.Add(d)
			return ctx.Err()
		},
	}
}

// errStatus is the error of the SDK for a status.
type errStatus int

// Error implements error.
func (e errStatus) Error() string { return fmt.Sprint("status ", int(e)) }

// history are the messages of the conversation after the question, as JSON.
type history []string

const (
	callMessage   = `{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"pay","arguments":"{}"}}]}`
	outputMessage = `{"role":"tool","tool_call_id":"call_1","content":"paid"}`
)

// ask makes one model call, as an SDK does.
func (m *model) ask(ctx context.Context, h history) (answer string, err error) {
	messages := append([]string{`{"role":"user","content":"Pay."}`}, h...)
	var body io.Reader = strings.NewReader(`{"model":"m","stream":true,"messages":[` + strings.Join(messages, ",") + `]}`)
	if m.streamed {
		body = io.MultiReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL+"/v1/chat/completions", body)
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := m.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errStatus(resp.StatusCode)
	}
	return string(read), err
}

func (m *model) askOnly(ctx context.Context) error {
	_, err := m.ask(ctx, nil)
	return err
}

// gaveUp is the error of a loop that gave up, with its decision checked.
func gaveUp(t *testing.T, err error, decision semconv.RetryDecision) *Error {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, decision.String(), e.Decision.String())
	assert.NotEmpty(t, e.Diagnosis.Summary)
	return e
}

func TestSafeRetryWaitsAsTheProviderAsked(t *testing.T) {
	m := newModel(t, reply{status: http.StatusTooManyRequests, after: "7"}, overloaded, reply{cut: true})
	require.NoError(t, Do(t.Context(), m.policy(), m.askOnly))
	assert.Equal(t, 4, m.requests())
	assert.Equal(t, []time.Duration{7 * time.Second, 500 * time.Millisecond, time.Second}, m.slept)
}

func TestBudgetOfAttempts(t *testing.T) {
	m := newModel(t, overloaded, overloaded, overloaded, overloaded, overloaded)
	p := m.policy()
	p.Attempts = 3
	e := gaveUp(t, Do(t.Context(), p, m.askOnly), semconv.RetryDecisionAttemptsSpent)
	assert.Equal(t, 3, e.Attempts)
	assert.Equal(t, 3, m.requests())
	assert.Equal(t, semconv.ResumeSendAgain, e.Plan.Send)
	var status errStatus
	require.ErrorAs(t, e, &status, "the SDK's own error")
	assert.EqualValues(t, http.StatusServiceUnavailable, status)
	assert.Contains(t, e.Error(), "gave up after 3 attempts: attempts_spent; status 503")
}

func TestBudgetOfTime(t *testing.T) {
	m := newModel(t, overloaded, reply{status: http.StatusTooManyRequests, after: "50"})
	p := m.policy()
	p.Elapsed = 50 * time.Second
	e := gaveUp(t, Do(t.Context(), p, m.askOnly), semconv.RetryDecisionTimeSpent)
	assert.Equal(t, 50*time.Second, e.Plan.Wait)
	assert.Equal(t, 2, m.requests())
}

// While the host is down, its callers send no more than 100 retries together, and every call is
// sent once. Afterwards each ten calls that succeed allow a retry.
func TestBudgetOfHost(t *testing.T) {
	m := newModel(t)
	p := m.policy()
	for range 400 {
		m.replies = append(m.replies, overloaded)
	}
	for range 60 {
		require.Error(t, Do(t.Context(), p, m.askOnly))
	}
	assert.Equal(t, 160, m.requests())
	e := gaveUp(t, Do(t.Context(), p, m.askOnly), semconv.RetryDecisionHostSpent)
	assert.Equal(t, 1, e.Attempts)

	m.replies = nil
	for range 11 {
		require.NoError(t, Do(t.Context(), p, m.askOnly))
	}
	m.replies = []reply{overloaded}
	require.NoError(t, Do(t.Context(), p, m.askOnly))

	other := newModel(t, overloaded)
	q := other.policy()
	q.Budget = p.Budget
	require.NoError(t, Do(t.Context(), q, other.askOnly), "another host")
}

func TestWithoutRecordedFailure(t *testing.T) {
	m := newModel(t)
	own := errors.New("the answer is not what the application expected")
	calls := 0
	err := Do(t.Context(), m.policy(), func(ctx context.Context) error {
		calls++
		_, err := m.ask(ctx, nil)
		return errors.Join(err, own)
	})
	require.ErrorIs(t, err, own)
	var e *Error
	assert.NotErrorAs(t, err, &e)
	assert.Equal(t, 1, calls)
	assert.Same(t, own, Do(t.Context(), m.policy(), func(context.Context) error { return own }), "no model call")
}

func TestNoRetry(t *testing.T) {
	m := newModel(t, reply{status: http.StatusUnauthorized})
	p := m.policy()
	p.Ask = func(context.Context, Question) bool { t.Error("asked"); return true }
	e := gaveUp(t, Do(t.Context(), p, m.askOnly), semconv.RetryDecisionNoRetry)
	assert.Equal(t, semconv.ClassProviderError, e.Diagnosis.Class)
	assert.Equal(t, 1, m.requests())
}

func TestShownTextAsks(t *testing.T) {
	cut := reply{events: []string{text}, cut: true}
	m := newModel(t, cut)
	_ = gaveUp(t, Do(t.Context(), m.policy(), m.askOnly), semconv.RetryDecisionNoHook)
	for _, yes := range []bool{false, true} {
		m := newModel(t, cut)
		p := m.policy()
		var asked []Question
		p.Ask = func(_ context.Context, q Question) bool { asked = append(asked, q); return yes }
		err := Do(t.Context(), p, m.askOnly)
		require.Len(t, asked, 1)
		q := asked[0]
		assert.Equal(t, semconv.RetryReasonVisibleOutput, q.Diagnosis.Retry.Reason)
		assert.Equal(t, semconv.RetryReasonVisibleOutput, q.Plan.Ask)
		assert.True(t, q.TextShown)
		assert.Equal(t, 1, q.Attempts)
		require.Error(t, q.Err)
		if yes {
			require.NoError(t, err)
		} else {
			_ = gaveUp(t, err, semconv.RetryDecisionDeclined)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
	}
}

// The function of an SDK that shows a cut answer as a complete one returns nil.
func TestHiddenFailure(t *testing.T) {
	m := newModel(t, reply{events: []string{started}})
	require.NoError(t, Do(t.Context(), m.policy(), func(ctx context.Context) error {
		_, _ = m.ask(ctx, nil)
		return nil
	}))
	assert.Equal(t, 2, m.requests())

	limited := newModel(t, reply{events: []string{text, strings.Replace(stop, "stop", "length", 1), done}})
	require.NoError(t, Do(t.Context(), limited.policy(), limited.askOnly), "a limit is an answer")
}

// No more attempts than the budget are sent, however often the SDK retries by itself.
func TestRetriesOfTheSDKCount(t *testing.T) {
	for first := range 3 {
		m := newModel(t, overloaded, overloaded, overloaded, overloaded, overloaded, overloaded, overloaded, overloaded)
		n := 0
		e := gaveUp(t, Do(t.Context(), m.policy(), func(ctx context.Context) (err error) {
			tries := 3
			if n++; n == 1 {
				tries = first + 1
			}
			for range tries {
				if _, err = m.ask(ctx, nil); err == nil || ctx.Err() != nil {
					break
				}
			}
			return err
		}), semconv.RetryDecisionAttemptsSpent)
		assert.Equal(t, 4, e.Attempts)
		assert.Equal(t, 4, m.requests())
		assert.Equal(t, semconv.CauseOverloaded, e.Diagnosis.Cause, "what failed is what was sent last")
	}
}

func TestCancelledWhileItWaits(t *testing.T) {
	m := newModel(t, overloaded)
	ctx, cancel := context.WithCancel(t.Context())
	p := m.policy()
	p.Sleep = func(ctx context.Context, _ time.Duration) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	err := Do(ctx, p, m.askOnly)
	_ = gaveUp(t, err, semconv.RetryDecisionCancelled)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, m.requests())
}

func TestDecisionsAreEvents(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("t").Start(t.Context(), "step")
	m := newModel(t, reply{status: http.StatusTooManyRequests, after: "3"}, reply{events: []string{text}, cut: true})
	_ = gaveUp(t, Do(ctx, m.policy(), m.askOnly), semconv.RetryDecisionNoHook)
	span.End()
	var got []string
	for _, s := range recorder.Ended() {
		for _, e := range s.Events() {
			if e.Name == semconv.EventRetryDecided {
				assert.Equal(t, "step", s.Name())
				set := attribute.NewSet(e.Attributes...)
				got = append(got, set.Encoded(attribute.DefaultEncoder()))
			}
		}
	}
	assert.Equal(t, []string{
		"llm.failure.class=provider_error,llm.request.attempt=1,llm.resume.send=again,llm.retry.decision=again,llm.retry.reason=no_output,llm.retry.safety=safe_auto_retry,llm.retry.wait=3",
		"llm.failure.class=stream_interrupted,llm.request.attempt=2,llm.resume.send=rest,llm.retry.decision=no_hook,llm.retry.reason=visible_output,llm.retry.safety=user_confirmed_retry",
	}, got)
}
