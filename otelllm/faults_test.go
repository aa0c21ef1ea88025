package otelllm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
	"github.com/otelllm/otelllm-go/semconv"
)

// TestInvalidRequests sends invalid requests over both HTTP versions: the failure is recorded as
// the application's fault, and not the network's.
func TestInvalidRequests(t *testing.T) {
	memory := func() io.Reader { return strings.NewReader(chatBody) }
	opaque := func() io.Reader { return struct{ io.Reader }{memory()} }
	for _, tt := range []struct {
		name   string
		body   func() io.Reader
		change func(*http.Request)
		want   map[attribute.Key]any
	}{
		{
			"no scheme", memory, func(r *http.Request) { r.URL.Scheme = "" },
			map[attribute.Key]any{"llm.transport.cause": "invalid_url", "llm.stream.phase": "before_connection", "llm.transport.stage": nil},
		},
		{
			"an invalid header", memory, func(r *http.Request) { r.Header.Set("Authorization", "secret\n") },
			map[attribute.Key]any{"llm.transport.cause": "invalid_request", "llm.stream.phase": "before_connection"},
		},
		{
			"not a port", memory, func(r *http.Request) { r.URL.Host = "127.0.0.1:70000" },
			map[attribute.Key]any{"llm.transport.cause": "invalid_url", "llm.stream.phase": "before_connection"},
		},
		{
			"a body that fails", func() io.Reader {
				return io.MultiReader(strings.NewReader("{"), iotest.ErrReader(errors.New("secret")))
			}, nil,
			map[attribute.Key]any{"llm.transport.cause": "invalid_request"},
		},
		{
			"a body that fails with a network error", func() io.Reader { return iotest.ErrReader(&net.OpError{Op: "read", Err: syscall.ECONNRESET}) }, nil,
			map[attribute.Key]any{"llm.transport.cause": "invalid_request", "llm.transport.code": nil},
		},
		{
			"a body in memory that is too long", memory, func(r *http.Request) { r.ContentLength-- },
			map[attribute.Key]any{"llm.transport.cause": "invalid_request"},
		},
		{
			"a body in memory that is too short", func() io.Reader { return bytes.NewBufferString(chatBody) }, func(r *http.Request) { r.ContentLength++ },
			map[attribute.Key]any{"llm.transport.cause": "invalid_request"},
		},
		{
			"a body that is too long", opaque, func(r *http.Request) { r.ContentLength = int64(len(chatBody) - 1) },
			map[attribute.Key]any{"llm.transport.cause": "invalid_request"},
		},
		{
			"a body that is too short", opaque, func(r *http.Request) { r.ContentLength = int64(len(chatBody) + 1) },
			map[attribute.Key]any{"llm.transport.cause": "invalid_request"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// The server waits for the body as it was announced, and gives up if it differs.
			overHTTP(t, func(_ http.ResponseWriter, r *http.Request) {
				if r.Context().Err() == nil {
					panic(http.ErrAbortHandler)
				}
			}, func(t *testing.T, b *http.Transport, target string) {
				r := newRecorder(t)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target+chatPath, tt.body())
				require.NoError(t, err)
				if tt.change != nil {
					tt.change(req)
				}
				resp, err := NewTransport(b, WithTracerProvider(r)).RoundTrip(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				require.Error(t, err)
				s := r.only(t)
				for key, want := range tt.want {
					assert.Equal(t, want, s.get(key), "%s: %v", key, err)
				}
				assert.Equal(t, tt.want["llm.transport.cause"], s.get("error.type"))
				assert.True(t, s.failed())
				assert.NotContains(t, spantest.Text(s), "secret")
			})
		})
	}
}

// An abort takes precedence over the failure of the request's body that it caused.
func TestAbortOutweighsTheBody(t *testing.T) {
	r := newRecorder(t)
	ctx, abort := WithAbort(t.Context())
	in, out := io.Pipe()
	go func() {
		_, _ = io.WriteString(out, "{")
		abort(AbortUser, "stop_button")
		out.CloseWithError(context.Cause(ctx))
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, scriptedServer(t, "", nettest.Wait)+chatPath, in)
	require.NoError(t, err)
	resp, err := NewTransport(base(t), WithTracerProvider(r)).RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	require.Error(t, err)
	assertFacts(t, r.only(t), map[attribute.Key]any{"llm.abort.source": "user", "llm.transport.cause": "cancelled", "error.type": nil})
}

// TestProxies checks that a proxy that refuses a connection is distinguished from one that
// cannot reach the server.
func TestProxies(t *testing.T) {
	for answer, want := range map[string][2]any{
		"407 Proxy Authentication Required": {"proxy_refused", "407"},
		"403 Forbidden":                     {"proxy_refused", "403"},
		"503 Service Unavailable":           {"proxy", "503"},
	} {
		r := newRecorder(t)
		b := base(t)
		proxy, err := url.Parse(scriptedServer(t, "HTTP/1.1 "+answer+"\r\n\r\n", nil))
		require.NoError(t, err)
		b.Proxy = http.ProxyURL(proxy)
		_, err = call(t.Context(), NewTransport(b, WithTracerProvider(r)), "https://model.example.com"+chatPath, chatBody)
		require.Error(t, err)
		assertFacts(t, r.only(t), map[attribute.Key]any{
			"llm.transport.cause": want[0], "llm.transport.code": want[1], "llm.stream.phase": "before_connection", "llm.transport.stage": "proxy",
		})
	}
}

// TestStatusWithoutAnAnswer checks what the status of a response alone proves about its answer.
func TestStatusWithoutAnAnswer(t *testing.T) {
	for _, tt := range []struct {
		name, head string
		want       map[attribute.Key]any
		failed     bool
	}{
		{
			"a redirect that may be followed", "307 Temporary Redirect\r\nLocation: /elsewhere",
			map[attribute.Key]any{"llm.stream.end": nil, "error.type": nil, "http.response.status_code": int64(307)},
			false,
		},
		{
			"a redirect to nowhere", "302 Found",
			map[attribute.Key]any{"llm.stream.end": "http_error", "error.type": "302", "llm.provider_error.kind": "unknown", "llm.provider_error.code": "302"},
			true,
		},
		{
			"not modified", "304 Not Modified\r\nLocation: /elsewhere",
			map[attribute.Key]any{"llm.stream.end": "http_error", "error.type": "304", "llm.provider_error.kind": "unknown", "llm.provider_error.code": "304"},
			true,
		},
		{
			"multiple choices", "300 Multiple Choices",
			map[attribute.Key]any{"llm.stream.end": "http_error", "error.type": "300", "llm.provider_error.kind": "unknown"},
			true,
		},
		{
			"no content", "204 No Content",
			map[attribute.Key]any{
				"llm.stream.end": "terminal_event", "error.type": "no_content", "llm.transport.cause": nil, "llm.stream.text_chunks": int64(0), "llm.stream.tool_calls": int64(0),
				"gen_ai.response.finish_reasons": []string{"error"},
			},
			true,
		},
		{"reset content", "205 Reset Content", map[attribute.Key]any{"llm.stream.end": "terminal_event", "error.type": "no_content", "llm.transport.cause": nil}, true},
		{"an empty 200", "200 OK", map[attribute.Key]any{"llm.stream.end": "eof", "llm.transport.cause": "clean_eof"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			target := scriptedServer(t, "HTTP/1.1 "+tt.head+"\r\nContent-Length: 0\r\n\r\n", nil)
			_, err := call(t.Context(), requestTransport(base(t), WithTracerProvider(r)), target+chatPath, chatBody)
			require.NoError(t, err)
			s := r.only(t)
			assertFacts(t, s, tt.want)
			assert.Equal(t, tt.failed, s.failed())
		})
	}
}

// A gateway's own 204 is not a broken stream either.
func TestGatewayServesNoContent(t *testing.T) {
	g := newGateway(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	_, err := call(t.Context(), base(t), g.url+chatPath, chatBody)
	require.NoError(t, err)
	assertFacts(t, g.served(t), map[attribute.Key]any{"llm.stream.end": "terminal_event", "error.type": "no_content", "llm.transport.cause": nil})
}

// A client that goes away during its upload ends the gateway's call upstream. The context
// of its request has not ended: net/http's server watches a connection only after it has
// read the body.
func TestGatewayLosesItsClientInTheUpload(t *testing.T) {
	target := "http://" + nettest.Listen(t, nettest.Wait)
	g := newGateway(t, proxy(t, target))
	u, err := url.Parse(g.url)
	require.NoError(t, err)
	c, err := net.Dial("tcp", u.Host)
	require.NoError(t, err)
	_, err = io.WriteString(c, "POST "+chatPath+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	require.NoError(t, err)
	require.NoError(t, c.Close())
	assertFacts(t, g.upstream(t), map[attribute.Key]any{"llm.abort.source": "consumer", "llm.transport.cause": "cancelled", "error.type": nil})
	assertFacts(t, g.served(t), map[attribute.Key]any{"llm.abort.source": "consumer", "error.type": nil})
}

// TestConnections checks that spans record whether a connection was reused, and the version of HTTP.
func TestConnections(t *testing.T) {
	overHTTP(t, func(w http.ResponseWriter, _ *http.Request) { _ = sendEvents(w, chatStop+chatDone) }, func(t *testing.T, b *http.Transport, target string) {
		r := newRecorder(t)
		for range 2 {
			_, err := call(t.Context(), NewTransport(b, WithTracerProvider(r)), target+chatPath, chatBody)
			require.NoError(t, err)
		}
		spans := r.named("chat gpt-5")
		require.Len(t, spans, 2)
		version := map[string]string{"HTTP/1.1": "1.1", "HTTP/2.0": "2"}[t.Name()[strings.Index(t.Name(), "/")+1:]]
		assertFacts(t, spans[0], map[attribute.Key]any{"llm.connection.reused": false, "llm.connection.idle": nil, "network.protocol.version": version})
		assertFacts(t, spans[1], map[attribute.Key]any{"llm.connection.reused": true, "network.protocol.version": version})
		if version == "1.1" {
			assert.Positive(t, spans[1].get("llm.connection.idle"))
		}
	})
	r := newRecorder(t)
	_, err := call(t.Context(), NewTransport(base(t), WithTracerProvider(r)), "http://"+nettest.Refused(t)+chatPath, chatBody)
	require.Error(t, err)
	assertFacts(t, r.only(t), map[attribute.Key]any{"llm.connection.reused": nil, "llm.connection.idle": nil, "network.protocol.version": nil})
}

type ownCause struct{}

func (ownCause) Error() string { return "secret" }

// TestCancelCauses checks that the type of a cancellation's cause is recorded, and its text is not.
func TestCancelCauses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cause  error
		source string
		chain  any
	}{
		{"no cause", nil, "unknown", nil},
		{"a type of the application's own", fmt.Errorf("secret: %w", &ownCause{}), "unknown", []string{"*fmt.wrapError", "*otelllm.ownCause"}},
		{"a text", errors.New("secret"), "unknown", []string{"*errors.errorString"}},
		{"typed", &AbortError{Source: AbortUser}, "user", nil},
	} {
		for _, early := range []bool{true, false} {
			t.Run(fmt.Sprint(tt.name, " early=", early), func(t *testing.T) {
				overHTTP(t, func(w http.ResponseWriter, r *http.Request) {
					_ = sendEvents(w, firstText)
					<-r.Context().Done()
				}, func(t *testing.T, b *http.Transport, target string) {
					r := newRecorder(t)
					ctx, cancel := context.WithCancelCause(t.Context())
					var rt http.RoundTripper = onFirstByte{b, func() { cancel(tt.cause) }}
					if early {
						rt = b
						cancel(tt.cause)
					}
					_, err := call(ctx, NewTransport(rt, WithTracerProvider(r)), target+chatPath, chatBody)
					require.Error(t, err)
					s := r.only(t)
					assertFacts(t, s, map[attribute.Key]any{
						"llm.abort.source": tt.source, "llm.transport.error_chain": tt.chain, "error.type": nil,
						"llm.stream.phase": map[bool]string{true: "before_connection", false: "text"}[early],
					})
					assert.False(t, s.failed())
					assert.NotContains(t, spantest.Text(s), "secret")
				})
			})
		}
	}
}

// TestOwnWatchdogs ends calls by a time limit of the application's own. They are recorded
// as failures, with the kind of the limit.
func TestOwnWatchdogs(t *testing.T) {
	typed := func(err error) func(context.Context) (context.Context, func()) {
		return func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(err) }
		}
	}
	declared := func(reason string) func(context.Context) (context.Context, func()) {
		return func(ctx context.Context) (context.Context, func()) {
			ctx, abort := WithAbort(ctx)
			return ctx, func() { abort(AbortWatchdog, reason) }
		}
	}
	for _, tt := range []struct {
		name  string
		ctx   func(context.Context) (context.Context, func())
		kind  any
		limit any
	}{
		{"a WatchdogError", typed(&WatchdogError{Kind: semconv.WatchdogKindIdle, Limit: time.Minute}), "idle", 60.0},
		{"a WatchdogError without a kind", typed(fmt.Errorf("x: %w", &WatchdogError{})), nil, nil},
		{"a typed abort", declared("first_progress"), "first_progress", nil},
		{"a typed abort for another reason", declared("budget"), nil, nil},
	} {
		for _, answered := range []bool{true, false} {
			t.Run(fmt.Sprint(tt.name, " answered=", answered), func(t *testing.T) {
				r := newRecorder(t)
				ctx, fire := tt.ctx(t.Context())
				defer fire()
				var rt http.RoundTripper = onFirstByte{base(t), fire}
				answer, then := sseHead+firstText, nettest.Wait
				if !answered {
					rt, answer, then = base(t), "", func(c net.Conn) { fire(); nettest.Wait(c) }
				}
				_, err := call(ctx, NewTransport(rt, WithTracerProvider(r), WithVerdicts()), scriptedServer(t, answer, then)+chatPath, chatBody)
				require.Error(t, err)
				s := r.only(t)
				assertFacts(t, s, map[attribute.Key]any{
					"llm.abort.source": "watchdog", "llm.watchdog.kind": tt.kind, "llm.watchdog.limit": tt.limit,
					"llm.stream.end": "cancelled", "error.type": "watchdog_timeout", "llm.transport.error_chain": nil,
				})
				assert.True(t, s.failed())
				assert.Contains(t, s.events(), "llm.watchdog.fired")
				if tt.kind != nil {
					assertFacts(t, s, map[attribute.Key]any{"llm.failure.class": "watchdog_timeout", "llm.failure.cause": tt.kind})
				}
			})
		}
	}
}

// If a gateway's own watchdog ended the call upstream, the served request failed: it was
// not stopped deliberately.
func TestGatewaysOwnWatchdog(t *testing.T) {
	target := scriptedServer(t, sseHead+firstText, nettest.Wait)
	g := newGateway(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		rt := onFirstByte{base(t), func() { cancel(&WatchdogError{Kind: semconv.WatchdogKindIdle, Limit: time.Second}) }}
		_, err := call(ctx, NewTransport(rt), target+chatPath, chatBody)
		assert.Error(t, err)
		w.WriteHeader(http.StatusGatewayTimeout)
	}))
	_, err := call(t.Context(), base(t), g.url+chatPath, chatBody)
	require.NoError(t, err)
	for _, s := range []span{g.upstream(t), g.served(t)} {
		assertFacts(t, s, map[attribute.Key]any{"llm.watchdog.kind": "idle", "llm.abort.source": "watchdog", "error.type": "watchdog_timeout"})
		assert.True(t, s.failed())
	}
}

// TestSilenceBeforeTheEnd checks that the silence before a stream was closed, or broke,
// counts for its longest gap, and that silence after its terminal event does not.
func TestSilenceBeforeTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []string // a second apart
		then   error    // a minute after; nil: the consumer closes
		gap    float64
	}{
		{"the consumer closes", []string{firstText, chatText}, nil, 60},
		{"it breaks", []string{firstText, chatText}, syscall.ECONNRESET, 60},
		{"it ends early", []string{firstText}, io.EOF, 60},
		{"it was complete", []string{firstText, chatText + chatStop + chatDone}, io.EOF, 1},
		{"it was complete but for the terminal event", []string{firstText, chatText + chatStop}, nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder(t)
				rt := roundTripper(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(&paced{tt.events, tt.then})}, nil
				})
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+chatPath, strings.NewReader(chatBody))
				require.NoError(t, err)
				resp, err := requestTransport(rt, WithTracerProvider(r)).RoundTrip(req)
				require.NoError(t, err)
				for range tt.events {
					_, err = resp.Body.Read(make([]byte, 1<<12))
					require.NoError(t, err)
				}
				if tt.then == nil {
					time.Sleep(time.Minute)
				} else {
					_, err = resp.Body.Read(make([]byte, 1))
					require.ErrorIs(t, err, tt.then)
				}
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, tt.gap, r.only(t).get("llm.stream.longest_gap")) //nolint:testifylint // by a clock of the test: exact
			})
		})
	}
}

// paced returns its events one second apart, and its error one minute after them.
type paced struct {
	events []string
	then   error
}

func (p *paced) Read(b []byte) (int, error) {
	if len(p.events) == 0 {
		time.Sleep(time.Minute)
		return 0, p.then
	}
	time.Sleep(time.Second)
	n := copy(b, p.events[0])
	p.events = p.events[1:]
	return n, nil
}
