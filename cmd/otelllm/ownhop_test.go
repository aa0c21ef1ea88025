package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/proxy"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/session"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// answer is what a provider does.
type answer struct {
	status      int
	contentType string
	body        string
	end         string        // "": as it should; "reset", "closed": the connection; "leaves": the agent
	left        chan struct{} // receives when the agent has left
}

func (a *answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", cmp.Or(a.contentType, "text/event-stream"))
	if a.status > 0 || a.body != "" {
		w.WriteHeader(cmp.Or(a.status, http.StatusOK))
		_, _ = io.WriteString(w, a.body)
		_ = http.NewResponseController(w).Flush()
	}
	switch a.end {
	case "reset", "closed":
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		if a.end == "reset" {
			_ = conn.(*net.TCPConn).SetLinger(0)
		}
		_ = conn.Close()
	case "leaves":
		<-r.Context().Done()
		a.left <- struct{}{}
	}
}

const (
	hopText  = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hello\"}}]}\n\n"
	hopRole  = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n"
	hopCall  = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"pay\",\"arguments\":\"{}\"}}]}}]}\n\n"
	hopThink = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"
	hopDone  = "data: [DONE]\n\n"
	hopError = "data: {\"error\":{\"message\":\"x\",\"type\":\"server_error\",\"code\":\"server_error\"}}\n\n"
)

func hopFinish(reason string) string {
	return "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"" + reason + "\"}]}\n\n"
}

// hopAnswers are answers of every kind.
func hopAnswers() map[string]answer {
	all := map[string]answer{
		"nothing":           {status: 200},
		"comments":          {body: ": wait\n\n: wait\n\n"},
		"no answer, reset":  {end: "reset"},
		"no answer, closed": {end: "closed"},
		"page":              {contentType: "text/html", body: "<html></html>"},
		"nonsense":          {body: "data: {nonsense\n\n"},
		"redirect":          {status: 302},
		"no content":        {status: 204},
		"document":          {contentType: "application/json", body: `{"id":"c","choices":[{"index":0,"finish_reason":"stop","message":{"content":""}}]}`},
		"half a document":   {contentType: "application/json", body: `{"id":"c","choices":[{"index":0,`},
		"broken history":    {status: 400, contentType: "application/json", body: `{"error":{"message":"x","code":"previous_response_not_found"}}`},
	}
	for _, begin := range []struct{ name, body string }{{"empty", hopRole}, {"reasoning", hopThink}, {"text", hopText}, {"call", hopCall}, {"text, call", hopText + hopCall}} {
		for _, end := range []string{"", "reset", "closed", "leaves"} {
			all[begin.name+", cut "+end] = answer{body: begin.body, end: end}
		}
		for _, reason := range []string{"stop", "length", "content_filter", "tool_calls", "error", "moonrise", "network_error"} {
			all[begin.name+", "+reason] = answer{body: begin.body + hopFinish(reason) + hopDone}
			all[begin.name+", "+reason+" without an end"] = answer{body: begin.body + hopFinish(reason)}
		}
		all[begin.name+", done"] = answer{body: begin.body + hopDone}
		all[begin.name+", error"] = answer{body: begin.body + hopError}
		all[begin.name+", error, done"] = answer{body: begin.body + hopError + hopDone}
	}
	for _, status := range []int{400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, 524, 529} {
		all[fmt.Sprint("status ", status)] = answer{status: status, contentType: "application/json", body: `{"error":{"message":"x"}}`}
		all[fmt.Sprint("empty status ", status)] = answer{status: status}
		all[fmt.Sprint("page of status ", status)] = answer{status: status, contentType: "text/html", body: "<html></html>"}
		all[fmt.Sprint("status, reset ", status)] = answer{status: status, contentType: "application/json", body: `{"err`, end: "reset"}
	}
	return all
}

// TestOwnHop checks that the verdict on a call through the proxy is the one that a recording in
// the agent's own process gives: what the proxy forwards is one request, and the proxy is no
// gateway that is to blame for anything.
func TestOwnHop(t *testing.T) {
	for name, a := range hopAnswers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a.left = make(chan struct{}, 1)
			direct := judgedCall(t, &a, false)
			through := judgedCall(t, &a, true)
			assert.Equal(t, direct, through)
		})
	}
}

// judgedCall sends a request to a model, itself recorded or through a recording proxy, and
// returns the verdicts on the run and on the call.
func judgedCall(t *testing.T, a *answer, throughProxy bool) map[string]any {
	t.Helper()
	server := httptest.NewServer(a)
	defer server.Close()
	target, leaves := server.URL, a.end == "leaves"
	s, err := session.Start(t.Context(), session.Config{})
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	stop := func() {}
	if throughProxy {
		u, err := url.Parse(target)
		require.NoError(t, err)
		p, err := proxy.New(proxy.Config{Upstreams: []proxy.Upstream{{URL: u}}, Instrumentation: s.Instrumentation, Grace: patience})
		require.NoError(t, err)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- p.Serve(ctx, ln) }()
		target = "http://" + ln.Addr().String()
		stop = func() {
			cancel()
			require.NoError(t, <-served)
		}
	} else {
		client.Transport = s.Instrumentation.NewTransport(client.Transport)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target+"/v1/chat/completions",
		strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"pay"}}]}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if resp, err := client.Do(req); err == nil {
		if leaves {
			_, _ = resp.Body.Read(make([]byte, 4096))
		} else {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		_ = resp.Body.Close()
	}
	client.CloseIdleConnections()
	if leaves {
		<-a.left
	}
	stop()
	s.Instrumentation.EndInferredRuns()
	require.NoError(t, s.Close(t.Context()))
	verdicts := make(map[string]any)
	add := func(of string, r *report.Record) {
		for key, v := range r.Attributes {
			for _, prefix := range []string{"llm.failure.", "llm.retry.", "llm.run.outcome", "error.type"} {
				// The evidence names facts that only the sending side has: of its connection.
				if strings.HasPrefix(key, prefix) && key != string(semconv.FailureEvidenceKey) {
					verdicts[of+key] = v
				}
			}
		}
	}
	for _, run := range s.Store.Records() {
		add("", &run)
		for i := range run.Requests {
			add("request ", &run.Requests[i])
		}
	}
	return verdicts
}
