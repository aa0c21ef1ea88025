package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	oteltrace "go.opentelemetry.io/otel/trace"
)

func TestRetry(t *testing.T) {
	answer := func(p *peer) { p.send(sseHead + chunked + chunk(whole) + "0\r\n\r\n") }
	status := func(line, headers, body string) func(p *peer) {
		return func(p *peer) {
			p.send("HTTP/1.1 " + line + "\r\nContent-Type: application/json\r\nConnection: close\r\n" + headers + "\r\n" + body)
		}
	}
	for _, tt := range []struct {
		name   string
		serve  []func(p *peer) // for each attempt
		got    string
		least  time.Duration
		wanted int // attempts
	}{
		{"a reset before the headers", []func(p *peer){(*peer).reset, answer}, "200 " + whole, firstPause, 2},
		{"overloaded, with a wait", []func(p *peer){status("503 Service Unavailable", "Retry-After: 1\r\n", "{}"), answer}, "200 " + whole, time.Second, 2},
		{"a wait that is too long", []func(p *peer){status("503 Service Unavailable", "Retry-After: 120\r\n", `{"a":1}`), answer}, `503 {"a":1}`, 0, 1},
		{"an error that a retry does not mend", []func(p *peer){status("400 Bad Request", "", `{"error":{}}`), answer}, `400 {"error":{}}`, 0, 1},
		{"a reset after text", []func(p *peer){func(p *peer) { p.send(sseHead + chunked + chunk(event)); p.reset() }, answer}, "200 " + event, 0, 1},
		{"all attempts fail", []func(p *peer){(*peer).reset, (*peer).reset, (*peer).reset, answer}, rst, 2 * firstPause, maxAttempts},
	} {
		t.Run(tt.name, func(t *testing.T) {
			up := serveRaw(t, func(u *upstream, p *peer) {
				if !strings.HasSuffix(p.request(), chatBody) {
					t.Error("the body is not whole")
				}
				tt.serve[u.requests.Add(1)-1](p)
			})
			proxy := start(t, up.url(), func(c *Config) { c.Retry = true })
			began := time.Now()
			resp, err := http.Post("http://"+proxy.addr+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
			var got string
			if err != nil {
				got = endOf(err)
			} else {
				content, _ := io.ReadAll(resp.Body)
				require.NoError(t, resp.Body.Close())
				got = resp.Status[:4] + string(content)
			}
			assert.Equal(t, tt.got, got)
			assert.GreaterOrEqual(t, time.Since(began), tt.least)
			assert.EqualValues(t, tt.wanted, up.requests.Load())
			proxy.ended(t, oteltrace.SpanKindClient, tt.wanted)
			proxy.ended(t, oteltrace.SpanKindServer, 1)
		})
	}
}

// A body that is too long to be kept is sent once, as it came.
func TestRetryOfLongBody(t *testing.T) {
	up := serveRaw(t, func(u *upstream, p *peer) {
		if p.request() != "" {
			u.requests.Add(1)
			p.reset()
		}
	})
	proxy := start(t, up.url(), func(c *Config) { c.Retry = true })
	_, err := http.Post("http://"+proxy.addr+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"`+strings.Repeat("x", maxRepeat)+`"}`)) //nolint:bodyclose // there is no body
	require.Error(t, err)
	assert.EqualValues(t, 1, up.requests.Load())
}
