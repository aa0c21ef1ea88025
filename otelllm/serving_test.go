package otelllm

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
)

// overVersions runs test against a new gateway for each HTTP version. Configure, if not
// nil, changes the server before it starts.
func overVersions(t *testing.T, handler func(*testing.T, *recorder) http.Handler, configure func(*http.Server), test func(*testing.T, *testGateway, *http.Transport)) {
	t.Helper()
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			g := &testGateway{recorder: newRecorder(t)}
			var rt *http.Transport
			rt, g.url = serve(t, version, handler(t, g.recorder), configure)
			test(t, g, rt)
		})
	}
}

// withHandler returns h with a handler around it that records spans and verdicts to r.
func withHandler(h http.Handler, r *recorder) http.Handler {
	return NewHandler(h, WithTracerProvider(r), WithVerdicts())
}

// post sends a model call to the gateway and returns its response. The test closes its body.
func (g *testGateway) post(ctx context.Context, rt http.RoundTripper) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, strings.NewReader(chatBody))
	if err != nil {
		return nil, err
	}
	return rt.RoundTrip(req)
}

// assertFacts compares attributes of a span. A nil means that the attribute must be missing.
func assertFacts(t *testing.T, s span, want map[attribute.Key]any) {
	t.Helper()
	for key, value := range want {
		assert.Equal(t, value, s.get(key), key)
	}
}

// clientGoneFacts are the facts of a call whose client went away before any answer.
var clientGoneFacts = map[attribute.Key]any{
	"llm.stream.end": "consumer_closed", "llm.stream.phase": "awaiting_response", "llm.abort.source": "consumer",
	"http.response.status_code": nil, "error.type": nil, "llm.provider_error.kind": nil, "llm.transport.cause": nil,
	"llm.failure.class": "local_abort", "llm.failure.cause": "consumer_closed",
}

// TestGatewayClientGoneBeforeHeaders checks that a response to a client that has gone away
// does not count as an answer, be it the 502 of httputil.ReverseProxy or a clean end.
func TestGatewayClientGoneBeforeHeaders(t *testing.T) {
	swallow := func(t *testing.T, target string) http.Handler {
		rt := NewTransport(base(t))
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked, _ := io.ReadAll(r.Body)
			_, err := call(r.Context(), rt, target+chatPath, string(asked))
			assert.Error(t, err)
			_ = sendEvents(w, chatDone)
		})
	}
	leaving := map[string]func(ctx context.Context, arrived <-chan struct{}) (context.Context, context.CancelFunc){
		"cancel": func(ctx context.Context, arrived <-chan struct{}) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			go func() {
				<-arrived
				cancel()
			}()
			return ctx, cancel
		},
		"deadline": func(ctx context.Context, arrived <-chan struct{}) (context.Context, context.CancelFunc) {
			go func() { <-arrived }()
			return context.WithTimeout(ctx, 300*time.Millisecond)
		},
	}
	for name, next := range map[string]func(*testing.T, string) http.Handler{"proxy": proxy, "swallowing": swallow} {
		for how, leave := range leaving {
			t.Run(name+"/"+how, func(t *testing.T) {
				arrived := make(chan struct{})
				upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					arrived <- struct{}{}
					<-r.Context().Done()
				}))
				defer upstream.Close()
				overVersions(t, func(t *testing.T, r *recorder) http.Handler { return withHandler(next(t, upstream.URL), r) }, nil,
					func(t *testing.T, g *testGateway, rt *http.Transport) {
						ctx, cancel := leave(t.Context(), arrived)
						defer cancel()
						_, err := call(ctx, rt, g.url+chatPath, chatBody)
						require.Error(t, err)
						s, up := g.served(t), g.upstream(t)
						want := maps.Clone(clientGoneFacts)
						if name == "swallowing" { // it has answered a client that had gone away
							want["http.response.status_code"], want["llm.stream.phase"] = int64(http.StatusOK), "response_started"
						}
						assertFacts(t, s, want)
						assert.False(t, s.failed())
						assert.Equal(t, "consumer", up.get("llm.abort.source"))
						assert.False(t, up.failed())
					})
			})
		}
	}
}

// TestGatewayHalfClosedClient checks that a complete answer counts if the client has only
// closed its own side of an HTTP/1 connection, so that it seems to have gone away.
func TestGatewayHalfClosedClient(t *testing.T) {
	r := newRecorder(t)
	gateway := httptest.NewServer(NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		_ = sendEvents(w, chatText, chatStop, chatDone)
	}), WithTracerProvider(r)))
	defer gateway.Close()
	conn, err := net.Dial("tcp", gateway.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", chatPath, len(chatBody), chatBody)
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(answer), "[DONE]")

	gateway.Close() // the handler has returned
	s := r.named("chat gpt-5")[0]
	assert.Equal(t, "terminal_event", s.get("llm.stream.end"))
	assert.Equal(t, int64(http.StatusOK), s.get("http.response.status_code"))
	assert.Nil(t, s.get("llm.abort.source"))
	assert.False(t, s.failed())
}

// TestGatewayFailedBeforeClientGone checks that an upstream that failed first stays the
// cause if the client goes away before it gets the error.
func TestGatewayFailedBeforeClientGone(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		then         func(net.Conn)
		want         map[attribute.Key]any
	}{
		{"a reset", "", reset, map[attribute.Key]any{
			"llm.stream.end": "no_response", "llm.abort.source": nil, "http.response.status_code": nil, "llm.failure.class": "stream_interrupted",
		}},
		{"an overload", "HTTP/1.1 529 x\r\nContent-Type: application/json\r\nRetry-After: 7\r\nConnection: close\r\n\r\n{\"error\":{\"type\":\"overloaded_error\"}}", nil, map[attribute.Key]any{
			"llm.stream.end": "no_response", "llm.abort.source": nil, "http.response.status_code": nil, "llm.retry.after": 7.0,
			"llm.provider_error.kind": "overloaded", "error.type": "overloaded_error", "llm.failure.class": "provider_error",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rt := NewTransport(base(t))
			failed := make(chan struct{})
			target := scriptedServer(t, tt.answer, tt.then)
			overVersions(t, func(_ *testing.T, r *recorder) http.Handler {
				return withHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked, _ := io.ReadAll(r.Body)
					_, _ = call(r.Context(), rt, target+chatPath, string(asked))
					failed <- struct{}{}
					<-r.Context().Done()
					w.WriteHeader(http.StatusBadGateway)
				}), r)
			}, nil, func(t *testing.T, g *testGateway, rt *http.Transport) {
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					<-failed
					cancel()
				}()
				_, err := call(ctx, rt, g.url+chatPath, chatBody)
				require.Error(t, err)
				s := g.served(t)
				assertFacts(t, s, tt.want)
				assert.NotEmpty(t, s.get("error.type"))
				assert.True(t, s.failed())
			})
		})
	}
}

// TestGatewayClientGoneAfterError checks that an error response that was sent stays the
// cause if the client goes away afterwards.
func TestGatewayClientGoneAfterError(t *testing.T) {
	overVersions(t, func(_ *testing.T, r *recorder) http.Handler {
		return withHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusServiceUnavailable)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}), r)
	}, nil, func(t *testing.T, g *testGateway, rt *http.Transport) {
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := g.post(ctx, rt)
		require.NoError(t, err)
		defer resp.Body.Close()
		cancel()
		s := g.served(t)
		assertFacts(t, s, map[attribute.Key]any{"llm.stream.end": "http_error", "http.response.status_code": int64(503), "error.type": "503", "llm.abort.source": nil})
		assert.True(t, s.failed())
	})
}

// TestGatewayAbortedBeforeHeaders checks that a typed abort does not mean that the client
// has gone away: it receives the response.
func TestGatewayAbortedBeforeHeaders(t *testing.T) {
	overVersions(t, func(_ *testing.T, r *recorder) http.Handler {
		h := withHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }), r)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, abort := WithAbort(r.Context())
			abort(AbortShutdown, "")
			h.ServeHTTP(w, r.WithContext(ctx))
		})
	}, nil, func(t *testing.T, g *testGateway, rt *http.Transport) {
		resp, err := g.post(t.Context(), rt)
		require.NoError(t, err)
		defer resp.Body.Close()
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assertFacts(t, g.served(t), map[attribute.Key]any{"llm.stream.end": "http_error", "http.response.status_code": int64(503), "error.type": "503"})
	})
}

// textWriters returns functions that write text until writing fails, by each way that a handler has.
func textWriters(t *testing.T) map[string]func(w http.ResponseWriter) error {
	t.Helper()
	until := func(write func(w http.ResponseWriter) error) func(http.ResponseWriter) error {
		return func(w http.ResponseWriter) (err error) {
			for end := time.Now().Add(testTimeout); err == nil && time.Now().Before(end); time.Sleep(5 * pollInterval) {
				err = write(w)
			}
			return err
		}
	}
	return map[string]func(http.ResponseWriter) error{
		"controller": until(func(w http.ResponseWriter) error { return sendEvents(w, chatText) }),
		"Flusher": until(func(w http.ResponseWriter) error {
			_, err := io.WriteString(w, chatText)
			w.(http.Flusher).Flush()
			return err
		}),
		"Write": until(func(w http.ResponseWriter) error {
			_, err := w.Write([]byte(strings.Repeat(chatText, 100)))
			return err
		}),
	}
}

// TestGatewayWriteTimeout checks that a response that the server's own WriteTimeout cuts is
// not recorded as one whose client has gone away.
func TestGatewayWriteTimeout(t *testing.T) {
	for name, write := range textWriters(t) {
		t.Run(name, func(t *testing.T) {
			overVersions(t, func(t *testing.T, r *recorder) http.Handler {
				return withHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", "text/event-stream")
					assert.ErrorIs(t, write(w), os.ErrDeadlineExceeded)
				}), r)
			}, func(s *http.Server) { s.WriteTimeout = 100 * time.Millisecond }, func(t *testing.T, g *testGateway, rt *http.Transport) {
				resp, err := g.post(t.Context(), rt)
				require.NoError(t, err)
				defer resp.Body.Close()
				_, err = io.Copy(io.Discard, resp.Body)
				require.Error(t, err)
				s := g.served(t)
				assertFacts(t, s, map[attribute.Key]any{
					"llm.stream.end": "cancelled", "llm.abort.source": "deadline", "llm.stream.phase": "text", "http.response.status_code": int64(200),
					"llm.failure.class": "local_abort", "llm.failure.cause": "deadline", "llm.retry.safety": "user_confirmed_retry",
				})
				assert.False(t, s.failed())
			})
		})
	}
}

// TestGatewayWriteTimeoutUpstream checks that the attempt upstream records a WriteTimeout
// as such over HTTP/1, although net/http ends the request's context without a cause when
// it cannot write in time. Over HTTP/2 the context ends before anything is written.
func TestGatewayWriteTimeoutUpstream(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for sendEvents(w, chatText) == nil {
			time.Sleep(5 * pollInterval)
		}
	}))
	defer upstream.Close()
	g := &testGateway{recorder: newRecorder(t)}
	srv := httptest.NewUnstartedServer(withHandler(proxy(t, upstream.URL), g.recorder))
	srv.Config.WriteTimeout = 100 * time.Millisecond
	srv.Start()
	defer srv.Close()
	g.url = srv.URL
	_, err := call(t.Context(), base(t), g.url+chatPath, chatBody)
	require.Error(t, err)
	for _, s := range []span{g.served(t), g.upstream(t)} {
		assertFacts(t, s, map[attribute.Key]any{"llm.stream.end": "cancelled", "llm.abort.source": "deadline", "llm.stream.phase": "text", "error.type": nil})
		assert.False(t, s.failed())
	}
}

// TestGatewayAbortBeatsWriteErrors checks that a typed abort is the cause of the write
// errors that follow it.
func TestGatewayAbortBeatsWriteErrors(t *testing.T) {
	for name, write := range textWriters(t) {
		t.Run(name, func(t *testing.T) {
			var hangUp func()
			overVersions(t, func(t *testing.T, r *recorder) http.Handler {
				h := withHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					assert.NoError(t, sendEvents(w, chatText))
					<-r.Context().Done()
					hangUp()
					assert.Error(t, write(w))
				}), r)
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					ctx, abort := WithAbort(r.Context())
					time.AfterFunc(20*time.Millisecond, func() { abort(AbortShutdown, "") })
					h.ServeHTTP(w, r.WithContext(ctx))
				})
			}, func(s *http.Server) { hangUp = func() { _ = s.Close() } }, func(t *testing.T, g *testGateway, rt *http.Transport) {
				resp, err := g.post(t.Context(), rt)
				require.NoError(t, err)
				defer resp.Body.Close()
				_, err = io.Copy(io.Discard, resp.Body)
				require.Error(t, err)
				s := g.served(t)
				assertFacts(t, s, map[attribute.Key]any{"llm.stream.end": "cancelled", "llm.abort.source": "shutdown", "llm.failure.cause": "shutdown"})
				assert.False(t, s.failed())
			})
		})
	}
}

// TestGatewayHandlersMistakes checks that a write that net/http refuses does not mean that the
// client has gone away.
func TestGatewayHandlersMistakes(t *testing.T) {
	const answer = `{"id":"c","model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`
	for _, tt := range []struct {
		name  string
		serve func(*testing.T, http.ResponseWriter)
		want  map[attribute.Key]any
	}{
		{"a body that is not allowed", func(t *testing.T, w http.ResponseWriter) {
			w.WriteHeader(http.StatusNoContent)
			_, err := io.WriteString(w, "{}")
			assert.ErrorIs(t, err, http.ErrBodyNotAllowed)
		}, map[attribute.Key]any{"http.response.status_code": int64(204), "llm.abort.source": nil}},
		{"more than was declared", func(t *testing.T, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "10")
			_, err := io.WriteString(w, answer[:10])
			assert.NoError(t, err)
			assert.NoError(t, http.NewResponseController(w).Flush()) // HTTP/2 does not check the length before
			_, err = io.WriteString(w, answer[10:])
			assert.Error(t, err)
		}, map[attribute.Key]any{"http.response.status_code": int64(200), "llm.abort.source": nil, "llm.stream.bytes": int64(10)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overVersions(t, func(t *testing.T, r *recorder) http.Handler {
				return withHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { tt.serve(t, w) }), r)
			}, nil, func(t *testing.T, g *testGateway, rt *http.Transport) {
				resp, err := g.post(t.Context(), rt)
				require.NoError(t, err)
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				assertFacts(t, g.served(t), tt.want)
			})
		})
	}
}

// TestHandlerFlushError checks that http.ResponseController.Flush fails as without the
// handler: a gateway may stop on that error.
func TestHandlerFlushError(t *testing.T) {
	for name, wrap := range map[string]func(http.Handler, *recorder) http.Handler{
		"plain":      func(h http.Handler, _ *recorder) http.Handler { return h },
		"NewHandler": withHandler,
	} {
		t.Run(name, func(t *testing.T) {
			flushed := make(chan error, 1)
			overVersions(t, func(_ *testing.T, r *recorder) http.Handler {
				return wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					c := http.NewResponseController(w)
					var err error
					for end := time.Now().Add(testTimeout); err == nil && time.Now().Before(end); time.Sleep(5 * pollInterval) {
						_, _ = io.WriteString(w, chatText)
						err = c.Flush()
					}
					flushed <- err
				}), r)
			}, nil, func(t *testing.T, g *testGateway, rt *http.Transport) {
				ctx, cancel := context.WithCancel(t.Context())
				resp, err := g.post(ctx, rt)
				require.NoError(t, err)
				defer resp.Body.Close()
				cancel()
				require.Error(t, <-flushed)
				if name == "plain" {
					return
				}
				assertFacts(t, g.served(t), map[attribute.Key]any{"llm.stream.end": "consumer_closed", "llm.abort.source": "consumer"})
			})
		})
	}
}

// optionalInterfaces reports which optional interfaces a response writer has.
func optionalInterfaces(w http.ResponseWriter) map[string]bool {
	_, flusher := w.(http.Flusher)
	_, flushError := w.(interface{ FlushError() error })
	_, closeNotifier := w.(interface{ CloseNotify() <-chan bool })
	_, hijacker := w.(http.Hijacker)
	_, readerFrom := w.(io.ReaderFrom)
	_, pusher := w.(http.Pusher)
	_, stringWriter := w.(io.StringWriter)
	return map[string]bool{
		"Flusher": flusher, "FlushError": flushError, "CloseNotifier": closeNotifier, "Hijacker": hijacker,
		"ReaderFrom": readerFrom, "Pusher": pusher, "StringWriter": stringWriter,
	}
}

// TestHandlerInterfaces checks that the writers of net/http have the same optional
// interfaces with and without the handler.
func TestHandlerInterfaces(t *testing.T) {
	overVersions(t, func(t *testing.T, r *recorder) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body) // the test does not need full duplex, only the call
			want := optionalInterfaces(w)
			assert.True(t, want["FlushError"] && want["StringWriter"])
			withHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				assert.Equal(t, want, optionalInterfaces(w))
				c := http.NewResponseController(w)
				assert.NoError(t, c.SetWriteDeadline(time.Now().Add(testTimeout)))
				assert.NoError(t, c.SetReadDeadline(time.Now().Add(testTimeout)))
				assert.NoError(t, c.EnableFullDuplex())
				n, err := io.WriteString(w, chatText+chatStop+chatDone)
				assert.Equal(t, len(chatText+chatStop+chatDone), n)
				assert.NoError(t, err)
				assert.NoError(t, c.Flush())
			}), r).ServeHTTP(w, req)
		})
	}, nil, func(t *testing.T, g *testGateway, rt *http.Transport) {
		read, err := call(t.Context(), rt, g.url+chatPath, chatBody)
		require.NoError(t, err)
		assert.Equal(t, chatText+chatStop+chatDone, read)
		assertFacts(t, g.served(t), map[attribute.Key]any{"llm.stream.bytes": int64(len(read)), "http.response.status_code": int64(200)})
	})
}

// http3Writer has the interfaces that the response writers of HTTP/3 have.
type http3Writer struct{ http.ResponseWriter }

func (http3Writer) Flush()            {}
func (http3Writer) FlushError() error { return io.ErrClosedPipe }

// TestHandlerOtherWriters checks the same of writers that are not of net/http.
func TestHandlerOtherWriters(t *testing.T) {
	bare := struct{ http.ResponseWriter }{httptest.NewRecorder()}
	for name, tt := range map[string]struct {
		w    http.ResponseWriter
		want error
	}{
		"HTTP/3": {http3Writer{bare}, io.ErrClosedPipe},
		"bare":   {bare, http.ErrNotSupported},
	} {
		t.Run(name, func(t *testing.T) {
			withHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				assert.Equal(t, optionalInterfaces(tt.w), optionalInterfaces(w))
				assert.ErrorIs(t, http.NewResponseController(w).Flush(), tt.want)
			}), newRecorder(t)).ServeHTTP(tt.w, httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(chatBody)))
		})
	}
}
