package otelllm

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/semconv"
)

// limit is a short limit for tests. No assertion depends on which of two goroutines is
// faster.
const limit = 30 * time.Millisecond

// noLeak fails the test if it leaves goroutines that did not exist before.
func noLeak(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// sendRepeatedly sends text again and again until that fails or the client has gone away.
func sendRepeatedly(w http.ResponseWriter, r *http.Request, text string) {
	for sendEvents(w, text) == nil {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// TestWatchdogsOverTheWire lets watchdogs end real requests. The server notices the
// cancellation, the reader gets the watchdog's own error, and no goroutine is left.
func TestWatchdogsOverTheWire(t *testing.T) {
	noLeak(t)
	firstProgress := func(limit time.Duration) Watchdog { return Watchdog{FirstProgress: limit} }
	idle := func(limit time.Duration) Watchdog { return Watchdog{Idle: limit} }
	total := func(limit time.Duration) Watchdog { return Watchdog{Total: limit, Idle: time.Hour} }
	for _, tt := range []struct {
		name   string
		limits func(limit time.Duration) Watchdog
		serve  http.HandlerFunc
		kind   semconv.WatchdogKind
		phase  string
	}{
		{"silent before the headers", firstProgress, func(http.ResponseWriter, *http.Request) {}, semconv.WatchdogKindFirstProgress, "awaiting_response"},
		{"silent after the headers", firstProgress, func(w http.ResponseWriter, _ *http.Request) { _ = sendEvents(w) }, semconv.WatchdogKindFirstProgress, ""},
		{"keepalives before anything else", firstProgress, func(w http.ResponseWriter, r *http.Request) { sendRepeatedly(w, r, keepalive) }, semconv.WatchdogKindFirstProgress, ""},
		{"silent in the text", idle, func(w http.ResponseWriter, _ *http.Request) { _ = sendEvents(w, firstText) }, semconv.WatchdogKindIdle, "text"},
		{"keepalives only", idle, func(w http.ResponseWriter, r *http.Request) {
			_ = sendEvents(w, firstText)
			sendRepeatedly(w, r, keepalive)
		}, semconv.WatchdogKindIdle, "text"},
		{"endless", total, func(w http.ResponseWriter, r *http.Request) { sendRepeatedly(w, r, firstText) }, semconv.WatchdogKindTotal, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var begun atomic.Int32
			gone := make(chan struct{}, 16)
			overHTTP(t, func(w http.ResponseWriter, r *http.Request) {
				begun.Add(1)
				tt.serve(w, r)
				<-r.Context().Done()
				gone <- struct{}{}
			}, func(t *testing.T, b *http.Transport, url string) {
				// A busy machine may be slow to reach the wanted phase.
				limit, served := limit, begun.Load()
				again := func() (s span, run *Run, err error) {
					r := newRecorder(t)
					ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
					_, err = call(ctx, NewTransport(b, WithWatchdog(tt.limits(limit))), url+chatPath, chatBody)
					require.Equal(t, &WatchdogError{Kind: tt.kind, Limit: limit}, err)
					return r.only(t), run, err
				}
				s, run, err := again()
				for begun.Load() == served || tt.phase != "" && s.get("llm.stream.phase") != tt.phase {
					limit *= 2
					require.Less(t, limit, testTimeout)
					s, run, err = again()
				}
				for range begun.Load() - served {
					<-gone // the server notices the cancellation
				}
				assert.Equal(t, "watchdog", s.get("llm.stream.end"))
				assert.Equal(t, tt.kind.String(), s.get("llm.watchdog.kind"))
				assert.InDelta(t, limit.Seconds(), s.get("llm.watchdog.limit"), 0)
				assert.Equal(t, "cancelled", s.get("llm.transport.cause"))
				assert.Equal(t, "watchdog_timeout", s.get("error.type"))
				assert.Contains(t, s.events(), semconv.EventWatchdogFired)
				assert.GreaterOrEqual(t, s.EndTime().Sub(s.StartTime()), limit)
				d := run.Diagnosis()
				assert.Equal(t, "watchdog_timeout/"+tt.kind.String(), d.Class.String()+"/"+d.Cause.String())
				run.End(err)
			})
		})
	}
}

// TestWatchdogBodyReadOnce watches requests whose body can be read only once, like those
// of the AWS SDK and of a reverse proxy, to a server that never answers.
func TestWatchdogBodyReadOnce(t *testing.T) {
	noLeak(t)
	watched := func(b *http.Transport, within time.Duration) *Transport {
		return NewTransport(b, WithWatchdog(Watchdog{FirstProgress: within}), WithTracerProvider(noop.NewTracerProvider()))
	}
	client := func(t *testing.T, b *http.Transport, url, body string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		require.NoError(t, err)
		req.GetBody = nil
		_, err = watched(b, limit).RoundTrip(req)
		return err
	}
	proxy := func(t *testing.T, b *http.Transport, target, body string) (err error) {
		u, parsing := url.Parse(target)
		require.NoError(t, parsing)
		p := &httputil.ReverseProxy{
			Rewrite:      func(r *httputil.ProxyRequest) { r.Out.URL = u },
			Transport:    watched(b, limit),
			ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, failed error) { err = failed },
		}
		p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(body)))
		return err
	}
	for _, tt := range []struct{ name, path, body string }{
		{"the body asks for a stream", chatPath, chatBody},
		{"Gemini's path asks for a stream", "/v1beta/models/gemini-3:streamGenerateContent", `{"contents":[]}`},
		{"Bedrock's path asks for a stream", "/model/m/converse-stream", `{"messages":[]}`},
		{"the path of Bedrock's InvokeModel asks for a stream", "/model/anthropic.m/invoke-with-response-stream", `{"messages":[]}`},
	} {
		for by, send := range map[string]func(t *testing.T, b *http.Transport, url, body string) error{"client": client, "proxy": proxy} {
			t.Run(tt.name+"/"+by, func(t *testing.T) {
				overHTTP(t, func(_ http.ResponseWriter, r *http.Request) {
					select {
					case <-r.Context().Done():
					case <-time.After(testTimeout / 5):
					}
				}, func(t *testing.T, b *http.Transport, url string) {
					assert.Equal(t, &WatchdogError{Kind: semconv.WatchdogKindFirstProgress, Limit: limit}, send(t, b, url+tt.path, tt.body))
				})
			})
		}
	}
}

// TestWatchdogBodiesReadAtOnce reads bodies to their end while limits are reached, answers
// come and callers cancel, in any order and many at the same time: no goroutine is left,
// and no call gets the error of another one.
func TestWatchdogBodiesReadAtOnce(t *testing.T) {
	noLeak(t)
	overHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(time.Duration(rand.IntN(6000)) * time.Microsecond):
			_ = sendEvents(w, firstText+chatStop+chatDone)
		}
	}, func(t *testing.T, b *http.Transport, url string) {
		var calls sync.WaitGroup
		for range 200 {
			within := time.Duration(1+rand.IntN(6000)) * time.Microsecond
			rt := NewTransport(b, WithWatchdog(Watchdog{FirstProgress: within, Total: time.Hour}), WithTracerProvider(newRecorder(t)))
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(20000))*time.Microsecond)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+chatPath, io.NopCloser(oneByOne{strings.NewReader(chatBody)}))
			require.NoError(t, err)
			calls.Go(func() {
				resp, err := rt.RoundTrip(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					_ = resp.Body.Close()
				}
				var fired *WatchdogError
				switch {
				case errors.As(err, &fired):
					assert.Equal(t, WatchdogError{Kind: semconv.WatchdogKindFirstProgress, Limit: within}, *fired)
				case err != nil && strings.Contains(err.Error(), "cannot rewind body after connection loss"):
					// net/http's own: many calls share a connection of HTTP/2, and it may go with one that was given up.
				case err != nil:
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				}
			})
		}
		calls.Wait()
	})
}

// TestConnectWatchdog keeps a request from getting a connection in every way.
func TestConnectWatchdog(t *testing.T) {
	noLeak(t)
	silent := func(t *testing.T) string {
		t.Helper()
		return nettest.Listen(t, nettest.Wait)
	}
	for _, tt := range []struct {
		name  string
		setup func(t *testing.T, b *http.Transport) (url string)
		stage string
	}{
		{"name lookup", func(_ *testing.T, b *http.Transport) string {
			b.DialContext = (&net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}}).DialContext
			return "http://model.example.com"
		}, "dns"},
		{"dialling", func(_ *testing.T, b *http.Transport) string {
			b.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return "http://model.example.com"
		}, "connect"},
		{"TLS", func(t *testing.T, _ *http.Transport) string { return "https://" + silent(t) }, "tls"},
		{"TLS that is to be HTTP/2", func(t *testing.T, b *http.Transport) string {
			b.ForceAttemptHTTP2 = true
			return "https://" + silent(t)
		}, "tls"},
		{"a proxy's CONNECT", func(t *testing.T, b *http.Transport) string {
			proxy, err := url.Parse("http://" + silent(t))
			require.NoError(t, err)
			b.Proxy = http.ProxyURL(proxy)
			return "https://model.example.com"
		}, "proxy"},
		{"no free connection", func(t *testing.T, b *http.Transport) string {
			b.MaxConnsPerHost = 1
			url := scriptedServer(t, sseHead+firstText, nettest.Wait)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(""))
			require.NoError(t, err)
			resp, err := b.RoundTrip(req) // takes it and keeps it
			require.NoError(t, err)
			t.Cleanup(func() { resp.Body.Close() })
			return url
		}, "connect"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := base(t)
			url := tt.setup(t, b)
			// A busy machine may be slow to reach the wanted stage.
			for within := limit; !connectWatched(t, b, url, within, tt.stage); within *= 2 {
				require.Less(t, within, testTimeout)
			}
		})
	}
}

// connectWatched makes a request that gets no connection. It reports whether the request
// had reached this stage when the watchdog ended it.
func connectWatched(t *testing.T, b *http.Transport, url string, within time.Duration, stage string) bool {
	t.Helper()
	r := newRecorder(t)
	ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+chatPath, strings.NewReader(chatBody))
	require.NoError(t, err)
	client := http.Client{Transport: NewTransport(b, WithWatchdog(Watchdog{Connect: within}), WithStreamErrors())}
	_, err = client.Do(req)
	var fired *WatchdogError
	require.ErrorAs(t, err, &fired)
	assert.Equal(t, WatchdogError{Kind: semconv.WatchdogKindConnect, Limit: within}, *fired)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout(), "as http.Client reports it")
	require.NotErrorAs(t, err, new(*StreamError), "no stream was broken")

	s := r.only(t)
	assert.Equal(t, "watchdog", s.get("llm.stream.end"))
	assert.Equal(t, "connect", s.get("llm.watchdog.kind"))
	assert.Equal(t, "before_connection", s.get("llm.stream.phase"))
	d := run.Diagnosis()
	assert.Equal(t, "watchdog_timeout/connect safe_auto_retry", d.Class.String()+"/"+d.Cause.String()+" "+d.Retry.Safety.String(), "nothing was sent")
	run.End(err)
	return s.get("llm.transport.stage") == stage
}

// TestEndsAtOnce lets a reset by the server, an abort by the user and a watchdog happen
// at the same time, in any order. What is recorded has to agree with the error that the
// reader gets.
func TestEndsAtOnce(t *testing.T) {
	noLeak(t)
	const rounds = 150
	type round struct {
		now   chan struct{} // closed when the call is in the wanted phase
		early bool          // before the headers
	}
	due := make(chan round, 1)
	next := func() (round, bool) {
		select {
		case r := <-due:
			return r, true
		case <-t.Context().Done(): // a request that came too late
			return round{}, false
		}
	}
	h1 := "http://" + nettest.Listen(t, func(c net.Conn) {
		if nettest.ReadRequest(c) == nil {
			return
		}
		current, ok := next()
		if !ok {
			return
		}
		if !current.early {
			_, _ = io.WriteString(c, sseHead+firstText)
		}
		close(current.now)
		nettest.Reset(c)
	})
	h2, config := nettest.ListenH2(t, func(c *nettest.H2Conn, id uint32) {
		current, ok := next()
		if !ok {
			return
		}
		if !current.early {
			c.Headers(id, "text/event-stream")
			c.Data(id, firstText)
		}
		close(current.now)
		c.RST(id, 2)
	})
	endedBy := map[string]int{}
	for i := range rounds {
		var (
			b   = base(t)
			url = h1
		)
		if i%2 == 1 {
			b, url = h2Base(t, config.Clone()), h2
		}
		current := round{make(chan struct{}), i%3 == 0}
		due <- current
		r := newRecorder(t)
		ctx, abort := WithAbort(t.Context())
		stopped := make(chan struct{})
		go func() {
			<-current.now
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			abort(AbortUser, "stop_button")
			close(stopped)
		}()
		_, err := call(ctx, NewTransport(b, WithTracerProvider(r), WithWatchdog(Watchdog{Total: time.Duration(1+rand.IntN(6000)) * time.Microsecond})), url+chatPath, chatBody)
		select {
		case <-current.now:
		default: // the limit came before the server had the request, or while it was sent
			select {
			case <-due:
				close(current.now)
			case <-current.now:
			}
		}
		<-stopped
		b.CloseIdleConnections()

		s := r.only(t)
		end, cause, abortSource, kind := s.get("llm.stream.end"), s.get("llm.transport.cause"), s.get("llm.abort.source"), s.get("llm.watchdog.kind")
		var fired *WatchdogError
		switch {
		case errors.As(err, &fired):
			endedBy["watchdog"]++
			assert.Equal(t, []any{"watchdog", "cancelled", nil, "total"}, []any{end, cause, abortSource, kind}, "%v", err)
		case errors.Is(err, context.Canceled):
			endedBy["abort"]++
			assert.Equal(t, []any{"cancelled", "cancelled", "user", nil}, []any{end, cause, abortSource, kind}, "%v", err)
		default:
			endedBy["break"]++
			require.Error(t, err)
			assert.Equal(t, []any{nil, nil}, []any{abortSource, kind}, "%v", err)
			assert.Contains(t, []any{"read_error", "no_response"}, end, "%v", err)
			assert.NotEqual(t, "cancelled", cause, "%v", err)
			if i%2 == 0 {
				assert.True(t, errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE), "%v", err)
			}
		}
		require.False(t, t.Failed(), "round %d: %v", i, err)
	}
	t.Logf("ended by: %v", endedBy)
}
