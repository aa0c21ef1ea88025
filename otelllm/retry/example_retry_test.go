package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/retry"
)

// overloaded is a model that is overloaded for its first requests, and then answers.
func overloaded(times int) (client *http.Client, url string, stop func()) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if times--; times >= 0 {
			w.Header().Set("Retry-After-Ms", "1")
			http.Error(w, `{"error":{"message":"overloaded","type":"server_error"}}`, http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	return &http.Client{Transport: otelllm.NewTransport(nil)}, srv.URL, srv.Close
}

// ask does what an SDK does: it makes one model call, and reads the stream to its end.
func ask(ctx context.Context, client *http.Client, url string, history []string) error {
	body := `{"model":"m","stream":true,"messages":[` + strings.Join(history, ",") + `]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err = io.Copy(io.Discard, resp.Body); err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return err
}

var question = []string{`{"role":"user","content":"Hello?"}`}

// A model call is repeated while that is safe.
func ExampleDo() {
	client, url, stop := overloaded(1)
	defer stop()
	err := retry.Do(context.Background(), retry.Policy{Backoff: time.Millisecond}, func(ctx context.Context) error {
		err := ask(ctx, client, url, question)
		fmt.Println(err)
		return err
	})
	fmt.Println(err)
	// Output:
	// 503 Service Unavailable
	// <nil>
	// <nil>
}

// A turn of an agent goes on from the history that it keeps.
func ExampleRun() {
	client, url, stop := overloaded(1)
	defer stop()
	history := question // with each call of a tool and its output
	err := retry.Run(context.Background(), retry.Policy{Backoff: time.Millisecond}, func(ctx context.Context) error {
		return ask(ctx, client, url, history)
	})
	fmt.Println(err)
	// Output: <nil>
}

// A person is asked before anything might happen twice.
func ExamplePolicy() {
	var callers retry.Budget // those of one provider
	policy := retry.Policy{
		Attempts: 3, Elapsed: time.Minute, Backoff: time.Second, BackoffMost: 20 * time.Second, Budget: &callers,
		Ask: func(_ context.Context, q retry.Question) bool {
			fmt.Printf("%s\n%s\nGo on? ", q.Diagnosis.Summary, q.Plan)
			return false
		},
	}
	client, url, stop := overloaded(0)
	defer stop()
	fmt.Println(retry.Do(context.Background(), policy, func(ctx context.Context) error { return ask(ctx, client, url, question) }))
	// Output: <nil>
}

// What was given up says why, and how to go on.
func ExampleError() {
	client, url, stop := overloaded(2)
	defer stop()
	err := retry.Do(context.Background(), retry.Policy{Attempts: 2, Backoff: time.Millisecond}, func(ctx context.Context) error {
		return ask(ctx, client, url, question)
	})
	var gaveUp *retry.Error
	if errors.As(err, &gaveUp) {
		fmt.Println(gaveUp.Decision, gaveUp.Attempts, gaveUp.Diagnosis.Class)
		fmt.Println(gaveUp.Plan)
	}
	// Output:
	// attempts_spent 2 provider_error
	// Wait 1 millisecond. It is safe to send the same again.
}
