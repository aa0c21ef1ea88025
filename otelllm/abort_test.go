package otelllm

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/abort"
	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/semconv"
)

// halfCall is the beginning of a call.
const halfCall = "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n\n"

const firstText = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"

func keepOpen(tb testing.TB) func(net.Conn) {
	tb.Helper()
	return func(net.Conn) { <-tb.Context().Done() }
}

// TestAborts ends a call deliberately in every way, before and during the answer, over
// HTTP/1 and HTTP/2. None of these ends is recorded as an error.
func TestAborts(t *testing.T) {
	typed := errors.New("the application's own cause")
	hows := []struct {
		name   string
		ctx    func(context.Context) (context.Context, func())
		source string
		reason any
	}{
		{"user", func(ctx context.Context) (context.Context, func()) {
			ctx, abort := WithAbort(ctx)
			return ctx, func() { abort(AbortUser, "stop_button") }
		}, "user", "stop_button"},
		{"shutdown", func(ctx context.Context) (context.Context, func()) {
			ctx, abort := WithAbort(ctx)
			return ctx, func() { abort(AbortShutdown, ""); abort(AbortUser, "too_late") }
		}, "shutdown", nil},
		{"application, with a sentence as the reason", func(ctx context.Context) (context.Context, func()) {
			ctx, abort := WithAbort(ctx)
			return ctx, func() { abort(AbortApplication, "secret words of the application") }
		}, "application", "redacted"},
		{"no source", func(ctx context.Context) (context.Context, func()) {
			ctx, abort := WithAbort(ctx)
			return ctx, func() { abort(semconv.AbortSourceUnset, "") }
		}, "unknown", nil},
		{"plain cancel", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancel(ctx)
			return ctx, cancel
		}, "unknown", nil},
		{"a cause of the application's own", func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(typed) }
		}, "unknown", nil},
		{"deadline", func(ctx context.Context) (context.Context, func()) {
			e := &expiring{Context: ctx, done: make(chan struct{})}
			return e, e.expire
		}, "deadline", nil},
		{"deadline with a cause", func(ctx context.Context) (context.Context, func()) {
			// Long enough for a busy machine to bring the call into the wanted phase.
			ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Second, typed)
			_ = cancel // the deadline has to pass
			return ctx, func() { <-ctx.Done() }
		}, "deadline", nil},
	}
	servers := []struct {
		name  string
		phase string
		// ready is called when the call is in the wanted phase.
		setup func(t *testing.T, ready func()) (http.RoundTripper, string)
	}{
		{"dialling", "before_connection", func(t *testing.T, ready func()) (http.RoundTripper, string) {
			b := base(t)
			b.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				ready()
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return b, "http://model.example.com"
		}},
		{"awaiting headers", "awaiting_response", func(t *testing.T, ready func()) (http.RoundTripper, string) {
			return base(t), scriptedServer(t, "", func(c net.Conn) { ready(); nettest.Wait(c) })
		}},
		{"awaiting headers, HTTP/2", "awaiting_response", func(t *testing.T, ready func()) (http.RoundTripper, string) {
			url, client := nettest.ListenH2(t, func(*nettest.H2Conn, uint32) { ready() })
			return h2Base(t, client), url
		}},
		{"in text", "text", func(t *testing.T, ready func()) (http.RoundTripper, string) {
			return onFirstByte{base(t), ready}, scriptedServer(t, sseHead+firstText, nettest.Wait)
		}},
		{"in text, HTTP/2", "text", func(t *testing.T, ready func()) (http.RoundTripper, string) {
			url, client := nettest.ListenH2(t, func(c *nettest.H2Conn, id uint32) {
				c.Headers(id, "text/event-stream")
				c.Data(id, firstText)
			})
			return onFirstByte{h2Base(t, client), ready}, url
		}},
	}
	for _, server := range servers {
		for _, how := range hows {
			t.Run(server.name+"/"+how.name, func(t *testing.T) {
				t.Parallel()
				r := newRecorder(t)
				ctx, abort := how.ctx(t.Context())
				rt, url := server.setup(t, abort)
				ctx, run := StartRun(ctx, "coder", WithTracerProvider(r))
				_, err := call(ctx, NewTransport(rt), url+chatPath, chatBody)
				require.Error(t, err)
				run.End(err)
				d := run.Diagnosis()

				require.Len(t, r.named("chat gpt-5"), 1)
				for _, s := range []span{r.named("chat gpt-5")[0], r.named("invoke_agent coder")[0]} {
					assert.Equal(t, how.source, s.get("llm.abort.source"), "%v", err)
					assert.Equal(t, how.reason, s.get("llm.abort.reason"))
					assert.Nil(t, s.get("error.type"))
					assert.False(t, s.failed())
				}
				s := r.named("chat gpt-5")[0]
				assert.Equal(t, "cancelled", s.get("llm.stream.end"))
				assert.Equal(t, "cancelled", s.get("llm.transport.cause"))
				assert.Equal(t, server.phase, s.get("llm.stream.phase"))
				assert.Nil(t, s.get("gen_ai.response.finish_reasons"), "no finish reason is expected after an abort")
				assert.Contains(t, s.events(), "llm.abort")
				assert.Equal(t, semconv.ClassLocalAbort, d.Class)
				assert.Equal(t, how.source, d.Cause.String())
				assert.Equal(t, semconv.RunOutcomeAborted, d.Outcome)
			})
		}
	}
}

// TestAbortAfterTheCause aborts streams that had already failed. The earlier failure is
// the cause, and no attribute of the span contradicts it.
func TestAbortAfterTheCause(t *testing.T) {
	for _, tt := range []struct{ name, said, end, cause, class string }{
		{"nonsense", firstText + "data: {nonsense\n\n", "read_error", "malformed_event", "protocol_violation"},
		{"a terminal event within a call", firstText + halfCall + chatDone, "eof", "clean_eof", "stream_interrupted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overHTTP(t, func(w http.ResponseWriter, r *http.Request) {
				_ = sendEvents(w, tt.said)
				<-r.Context().Done()
			}, func(t *testing.T, b *http.Transport, url string) {
				r := newRecorder(t)
				ctx, abort := WithAbort(t.Context())
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+chatPath, strings.NewReader(chatBody))
				require.NoError(t, err)
				resp, err := NewTransport(b, WithTracerProvider(r), WithVerdicts()).RoundTrip(req)
				require.NoError(t, err)
				defer resp.Body.Close()
				_, err = io.ReadFull(resp.Body, make([]byte, len(tt.said)))
				require.NoError(t, err)
				abort(AbortUser, "stop_button")
				_, err = resp.Body.Read(make([]byte, 1))
				require.ErrorIs(t, err, context.Canceled)
				s := r.only(t)
				assert.Equal(t, tt.end, s.get("llm.stream.end"))
				assert.Equal(t, tt.cause, s.get("llm.transport.cause"))
				assert.Equal(t, tt.cause, s.get("error.type"))
				assert.Equal(t, tt.class, s.get("llm.failure.class"))
				assert.Nil(t, s.get("llm.abort.source"))
				assert.True(t, s.failed())
			})
		})
	}
}

// expiring is a context whose deadline passes when the test calls expire, independently
// of the clock.
type expiring struct {
	context.Context

	done chan struct{}
}

func (e *expiring) expire()                     { close(e.done) }
func (e *expiring) Done() <-chan struct{}       { return e.done }
func (e *expiring) Deadline() (time.Time, bool) { return time.Now().Add(time.Hour), true }

func (e *expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// onFirstByte calls call when the first byte of a body has been read.
type onFirstByte struct {
	http.RoundTripper

	call func()
}

func (o onFirstByte) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := o.RoundTripper.RoundTrip(req)
	if err == nil {
		resp.Body = &firstByteBody{ReadCloser: resp.Body, call: o.call}
	}
	return resp, err
}

type firstByteBody struct {
	io.ReadCloser

	call func()
}

func (b *firstByteBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && b.call != nil {
		b.call()
		b.call = nil
	}
	return n, err
}

// TestTimeouts checks that http.Client's own timeout is a deadline of the caller, and that
// other timeouts of net/http are not.
func TestTimeouts(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		client     http.Client
		headers    time.Duration // the transport's ResponseHeaderTimeout
		want       map[string]any
	}{
		{"the client's, before headers", "", http.Client{Timeout: 30 * time.Millisecond}, 0, map[string]any{"llm.abort.source": "deadline", "llm.stream.end": "cancelled"}},
		{"the client's, in the body", sseHead + firstText, http.Client{Timeout: 30 * time.Millisecond}, 0, map[string]any{"llm.abort.source": "deadline", "llm.stream.end": "cancelled"}},
		{"headers", "", http.Client{}, 10 * time.Millisecond, map[string]any{"llm.abort.source": nil, "llm.stream.end": "no_response", "llm.transport.cause": "header_timeout"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder(t)
			ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
			b := base(t)
			b.ResponseHeaderTimeout = tt.headers
			tt.client.Transport = NewTransport(b)
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, scriptedServer(t, tt.text, keepOpen(t))+chatPath, strings.NewReader(chatBody))
			require.NoError(t, err)
			resp, err := tt.client.Do(req)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			require.ErrorIs(t, err, context.DeadlineExceeded, "every timeout matches it")
			run.End(err)
			s := r.named("chat gpt-5")[0]
			for key, want := range tt.want {
				assert.Equal(t, want, s.get(attribute.Key(key)), key)
			}
			runSpan := r.named("invoke_agent coder")[0]
			assert.Equal(t, tt.want["llm.abort.source"], runSpan.get("llm.abort.source"))
			assert.Equal(t, tt.want["llm.abort.source"] == nil, runSpan.failed())
		})
	}
}

// A broken connection while the context ends is recorded as a broken connection: the error
// itself decides.
func TestBreakAndAbortTogether(t *testing.T) {
	for _, abortFirst := range []bool{true, false} {
		r := newRecorder(t)
		ctx, abort := WithAbort(t.Context())
		body := io.NopCloser(io.MultiReader(strings.NewReader(firstText), failing{func() error {
			if abortFirst {
				abort(AbortUser, "stop_button")
			}
			return io.ErrUnexpectedEOF
		}}))
		rt := roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body}, nil
		})
		_, err := call(ctx, NewTransport(rt, WithTracerProvider(r)), "http://x"+chatPath, chatBody)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		abort(AbortUser, "stop_button")
		s := r.only(t)
		assert.Equal(t, "body_truncated", s.get("llm.transport.cause"))
		assert.Nil(t, s.get("llm.abort.source"))
		assert.True(t, s.failed())
	}
}

// The state at the moment when the reading failed is recorded: an abort after the reader
// got the error of a broken connection changes nothing, nor does a break after an abort.
func TestOrderOfAbortAndBreak(t *testing.T) {
	t.Run("broken, then aborted", func(t *testing.T) {
		overHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
			_ = sendEvents(w, firstText)
			panic(http.ErrAbortHandler)
		}, func(t *testing.T, b *http.Transport, url string) {
			r := newRecorder(t)
			ctx, abort := WithAbort(t.Context())
			ctx, run := StartRun(ctx, "coder", WithTracerProvider(r))
			_, err := call(ctx, NewTransport(b), url+chatPath, chatBody)
			require.Error(t, err)
			require.NotErrorIs(t, err, context.Canceled)
			abort(AbortUser, "stop_button")
			run.End(err)
			assert.Equal(t, "read_error", r.named("chat gpt-5")[0].get("llm.stream.end"))
			assert.Nil(t, r.named("chat gpt-5")[0].get("llm.abort.source"))
			assert.Equal(t, semconv.ClassStreamInterrupted, run.Diagnosis().Class)
		})
	})
	t.Run("aborted, then broken", func(t *testing.T) {
		gone := make(chan struct{})
		overHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			_ = sendEvents(w, firstText)
			<-r.Context().Done()
			defer func() { gone <- struct{}{} }()
			panic(http.ErrAbortHandler)
		}, func(t *testing.T, b *http.Transport, url string) {
			r := newRecorder(t)
			ctx, abort := WithAbort(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+chatPath, strings.NewReader(chatBody))
			require.NoError(t, err)
			resp, err := NewTransport(b, WithTracerProvider(r)).RoundTrip(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			_, err = io.ReadFull(resp.Body, make([]byte, len(firstText)))
			require.NoError(t, err)
			abort(AbortUser, "stop_button")
			<-gone // the server has closed the connection, too
			_, err = io.ReadAll(resp.Body)
			require.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, "cancelled", r.only(t).get("llm.stream.end"))
			assert.Equal(t, "user", r.only(t).get("llm.abort.source"))
		})
	})
}

type failing struct{ err func() error }

func (f failing) Read([]byte) (int, error) { return 0, f.err() }

// If the consumer loses the body without closing it, the recording ends all the same, and
// the watchdog releases the request.
func TestAbandoned(t *testing.T) {
	gone := make(chan struct{})
	overHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		_ = sendEvents(w, firstText)
		<-r.Context().Done()
		gone <- struct{}{}
	}, func(t *testing.T, b *http.Transport, url string) {
		r := newRecorder(t)
		ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
		func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+chatPath, strings.NewReader(chatBody))
			require.NoError(t, err)
			resp, err := NewTransport(b, WithWatchdog(Watchdog{Total: time.Hour})).RoundTrip(req) //nolint:contextcheck // the request has it
			require.NoError(t, err)
			_, err = io.ReadFull(resp.Body, make([]byte, len(firstText)))
			require.NoError(t, err)
			assert.Empty(t, r.spans.Ended())
		}()
		require.Eventually(t, func() bool {
			runtime.GC()
			return len(r.spans.Ended()) == 1
		}, testTimeout, time.Millisecond)
		<-gone
		s := r.only(t)
		assert.Equal(t, "abandoned", s.get("llm.stream.end"))
		assert.Equal(t, "consumer", s.get("llm.abort.source"))
		d := run.Diagnosis()
		assert.Equal(t, semconv.ClassLocalAbort, d.Class)
		assert.Equal(t, semconv.CauseConsumerClosed, d.Cause)
	})
}

// A lost body counts as lost even if its response is kept.
func TestAbandonedBodyOfAResponseThatIsKept(t *testing.T) {
	r := newRecorder(t)
	url := scriptedServer(t, sseHead+"data: {\"choices\":[]}\n\n", nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+chatPath, strings.NewReader(chatBody))
	require.NoError(t, err)
	resp, err := NewTransport(base(t), WithTracerProvider(r)).RoundTrip(req)
	require.NoError(t, err)
	resp.Body = http.NoBody //nolint:bodyclose // the test loses it on purpose
	require.Eventually(t, func() bool {
		runtime.GC()
		return len(r.spans.Ended()) == 1
	}, testTimeout, time.Millisecond)
	assert.Equal(t, "abandoned", r.only(t).get("llm.stream.end"))
	runtime.KeepAlive(resp)
}

// TestConsumerCloses closes the body early, over both HTTP versions. This is a close by
// this side and not a failure. If a context ended before the close, its abort is recorded.
func TestConsumerCloses(t *testing.T) {
	for _, tt := range []struct {
		name        string
		before      func(abort func(AbortSource, string))
		end, source string
	}{
		{"close", func(func(AbortSource, string)) {}, "consumer_closed", "consumer"},
		{"abort, then close", func(abort func(AbortSource, string)) { abort(AbortUser, "stop_button") }, "cancelled", "user"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overHTTP(t, func(w http.ResponseWriter, r *http.Request) {
				_ = sendEvents(w, firstText)
				<-r.Context().Done()
			}, func(t *testing.T, b *http.Transport, url string) {
				r := newRecorder(t)
				ctx, abort := WithAbort(t.Context())
				defer abort(AbortApplication, "")
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+chatPath, strings.NewReader(chatBody))
				require.NoError(t, err)
				resp, err := NewTransport(b, WithTracerProvider(r)).RoundTrip(req)
				require.NoError(t, err)
				_, err = io.ReadFull(resp.Body, make([]byte, len(firstText)))
				require.NoError(t, err)
				tt.before(abort)
				require.NoError(t, resp.Body.Close())
				_, err = resp.Body.Read(make([]byte, 1))
				require.Error(t, err)
				abort(AbortShutdown, "too_late")
				require.NoError(t, resp.Body.Close())
				s := r.only(t)
				assert.Equal(t, tt.end, s.get("llm.stream.end"))
				assert.Equal(t, tt.source, s.get("llm.abort.source"))
				assert.Equal(t, "text", s.get("llm.stream.phase"))
				assert.False(t, s.failed())
			})
		})
	}
}

// A body that one goroutine closes while another one reads it was closed by this side,
// whichever of the two reports the end first.
func TestClosedWhileRead(t *testing.T) {
	overHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		_ = sendEvents(w, firstText)
		<-r.Context().Done()
	}, func(t *testing.T, b *http.Transport, url string) {
		for range 20 {
			r := newRecorder(t)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+chatPath, strings.NewReader(chatBody))
			require.NoError(t, err)
			resp, err := NewTransport(b, WithTracerProvider(r), WithStreamErrors()).RoundTrip(req)
			require.NoError(t, err)
			_, err = io.ReadFull(resp.Body, make([]byte, len(firstText)))
			require.NoError(t, err)
			read := make(chan error)
			go func() {
				_, err := resp.Body.Read(make([]byte, 1))
				read <- err
			}()
			require.NoError(t, resp.Body.Close())
			err = <-read
			require.Error(t, err)
			require.NotErrorAs(t, err, new(*StreamError))
			assert.Equal(t, "consumer_closed", r.only(t).get("llm.stream.end"), "%v", err)
		}
	})
}

// A body that is being read is never taken for a lost one.
func TestNotAbandonedWhileRead(t *testing.T) {
	r := newRecorder(t)
	var b strings.Builder
	for range 300 {
		b.WriteString(firstText)
	}
	rt := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(&gcReader{strings.NewReader(b.String())})}, nil
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+chatPath, strings.NewReader(chatBody))
	require.NoError(t, err)
	resp, err := NewTransport(rt, WithTracerProvider(r)).RoundTrip(req)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body) // the last use of the body: there is no Close after it
	require.NoError(t, err)
	assert.Equal(t, "eof", r.only(t).get("llm.stream.end"))
}

// gcReader runs the garbage collector during every Read.
type gcReader struct{ r io.Reader }

func (c *gcReader) Read(p []byte) (int, error) {
	runtime.GC()
	return c.r.Read(p[:min(len(p), 1000)])
}

func TestAbortError(t *testing.T) {
	ctx, abort := WithAbort(t.Context())
	abort(AbortUser, "stop_button")
	abort(AbortShutdown, "late")
	err := context.Cause(ctx)
	var typed *AbortError
	require.ErrorAs(t, err, &typed)
	assert.Equal(t, AbortError{AbortUser, "stop_button"}, *typed, "the first one counts")
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.EqualError(t, err, "otelllm: aborted by user (stop_button)")
	require.EqualError(t, &AbortError{}, "otelllm: aborted")
	assert.ErrorIs(t, ctx.Err(), context.Canceled)
}

func TestAbortOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		assert.Zero(t, abort.Of(t.Context(), time.Now()))
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(time.Second))
		defer cancel()
		assert.Zero(t, abort.Of(ctx, time.Now()))
		// The deadline has passed, and the context's timer is a little late.
		assert.Equal(t, classify.Abort{Source: semconv.AbortSourceDeadline}, abort.Of(ctx, time.Now().Add(time.Second)))
		time.Sleep(2 * time.Second)
		assert.Equal(t, classify.Abort{Source: semconv.AbortSourceDeadline}, abort.Of(ctx, time.Now()))
	})
}
