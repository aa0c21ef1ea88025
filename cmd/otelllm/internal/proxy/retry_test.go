package proxy

import (
	"context"
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

// All bodies that are kept for another attempt have a bound together. What does not fit is sent
// once, as it came, and leaves its room to others.
func TestRetryHasARoom(t *testing.T) {
	const room = 4 * bufferSize
	r := &retrying{}
	r.room.Store(room)
	text := strings.Repeat("x", 3*bufferSize)
	first, whole, err := r.readBody(strings.NewReader(text))
	require.NoError(t, err)
	assert.True(t, whole)
	assert.Equal(t, text, string(first))
	assert.EqualValues(t, room-cap(first), r.room.Load())
	body := strings.NewReader(text)
	second, whole, err := r.readBody(body)
	require.NoError(t, err)
	assert.False(t, whole)
	rest, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, text, string(second)+string(rest))
	assert.EqualValues(t, room-cap(first)-cap(second), r.room.Load())

	r.room.Store(room)
	r.next = roundTrip(func(req *http.Request) (*http.Response, error) {
		assert.Less(t, r.room.Load(), int64(room))
		sent, err := io.ReadAll(req.Body)
		assert.Equal(t, text+text, string(sent))
		return nil, err
	})
	ctx := context.WithValue(t.Context(), exchangeKey{}, &exchange{})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://upstream.example", strings.NewReader(text+text))
	require.NoError(t, err)
	_, err = r.RoundTrip(req) //nolint:bodyclose // there is no response
	require.NoError(t, err)
	assert.EqualValues(t, room, r.room.Load())
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
