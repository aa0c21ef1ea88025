package otelllm

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// TestStreamErrors ends streams in every way, over both HTTP versions: a stream that broke
// off returns a StreamError with the diagnosis, and everything else is unchanged.
func TestStreamErrors(t *testing.T) {
	noLeak(t)
	answer := func(status int, contentType, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	sse := func(text string) http.HandlerFunc { return answer(http.StatusOK, "text/event-stream", text) }
	const truncatedJSON = `{"choices":[{"index":0,"message":{"content":"a"`
	for _, tt := range []struct {
		name  string
		serve http.HandlerFunc
		body  string
		limit Watchdog
		abort bool
		cause string // "": no StreamError
		is    error  // what the reader's error wraps; nil: there is no error
		text  string // what is read before the end or the abort
	}{
		{name: "clean end in the text", serve: sse(firstText), cause: "stream_interrupted/clean_eof", is: io.ErrUnexpectedEOF, text: firstText},
		{name: "clean end before anything", serve: sse(""), cause: "stream_interrupted/clean_eof", is: io.ErrUnexpectedEOF},
		{name: "keepalives, then a clean end", serve: sse(keepalive + keepalive), cause: "stream_interrupted/clean_eof", is: io.ErrUnexpectedEOF, text: keepalive + keepalive},
		{name: "terminal event within a call", serve: sse(halfCall + chatDone), cause: "stream_interrupted/clean_eof", is: io.ErrUnexpectedEOF, text: halfCall + chatDone},
		{name: "terminal event without a finish reason", serve: sse(firstText + chatDone), text: firstText + chatDone},
		{name: "half a document", serve: answer(http.StatusOK, "application/json", truncatedJSON), body: `{"model":"gpt-5","messages":[]}`, cause: "stream_interrupted/clean_eof", is: io.ErrUnexpectedEOF, text: truncatedJSON},
		{name: "a page under 200", serve: answer(http.StatusOK, "text/html", "<html>login</html>"), cause: "protocol_violation/unexpected_content_type", is: io.ErrUnexpectedEOF, text: "<html>login</html>"},
		{name: "nonsense in the stream", serve: sse("data: {nonsense\n\n"), cause: "protocol_violation/malformed_event", is: io.ErrUnexpectedEOF, text: "data: {nonsense\n\n"},
		{name: "it breaks", serve: func(w http.ResponseWriter, _ *http.Request) {
			_ = sendEvents(w, firstText)
			panic(http.ErrAbortHandler)
		}, cause: "stream_interrupted/", is: errAny, text: firstText},
		{name: "a watchdog", limit: Watchdog{Idle: limit}, serve: func(w http.ResponseWriter, r *http.Request) {
			_ = sendEvents(w, firstText)
			<-r.Context().Done()
		}, cause: "watchdog_timeout/idle", is: &WatchdogError{Kind: semconv.WatchdogKindIdle, Limit: limit}, text: firstText},

		{name: "complete", serve: sse(firstText + chatStop + chatDone), text: firstText + chatStop + chatDone},
		{name: "complete, with the content type of a page", serve: answer(http.StatusOK, "text/html; charset=UTF-8", firstText+chatStop+chatDone), text: firstText + chatStop + chatDone},
		{name: "complete without the terminal event", serve: sse(firstText + chatStop), text: firstText + chatStop},
		{name: "cut short by max_tokens", serve: sse(firstText + strings.Replace(chatStop, "stop", "length", 1) + chatDone), text: firstText + strings.Replace(chatStop, "stop", "length", 1) + chatDone},
		{name: "a complete document", serve: answer(http.StatusOK, "application/json", truncatedJSON+`},"finish_reason":"stop"}]}`), body: `{"model":"gpt-5","messages":[]}`, text: truncatedJSON + `},"finish_reason":"stop"}]}`},
		{name: "in-band error", serve: sse(firstText + "data: {\"error\":{\"code\":\"server_error\"}}\n\n"), text: firstText + "data: {\"error\":{\"code\":\"server_error\"}}\n\n"},
		{name: "HTTP error", serve: answer(http.StatusServiceUnavailable, "application/json", `{"error":{"code":"overloaded"}`), text: `{"error":{"code":"overloaded"}`},
		{name: "HTTP error with a page", serve: answer(http.StatusBadGateway, "text/html", "<html>"), text: "<html>"},
		{name: "HTTP error that breaks", serve: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_ = sendEvents(w, `{"error"`)
			panic(http.ErrAbortHandler)
		}, is: errAny, text: `{"error"`},
		{name: "redirect", serve: answer(http.StatusNotModified, "text/event-stream", "")},
		{name: "abort after a terminal event within a call", abort: true, serve: func(w http.ResponseWriter, r *http.Request) {
			_ = sendEvents(w, halfCall+chatDone)
			<-r.Context().Done()
		}, is: context.Canceled, text: halfCall + chatDone},
		{name: "abort after nonsense", abort: true, serve: func(w http.ResponseWriter, r *http.Request) {
			_ = sendEvents(w, "data: {nonsense\n\n")
			<-r.Context().Done()
		}, is: context.Canceled, text: "data: {nonsense\n\n"},
		{name: "abort", abort: true, serve: func(w http.ResponseWriter, r *http.Request) {
			_ = sendEvents(w, firstText)
			<-r.Context().Done()
		}, is: context.Canceled, text: firstText},
	} {
		t.Run(tt.name, func(t *testing.T) {
			overHTTP(t, tt.serve, func(t *testing.T, b *http.Transport, url string) {
				r := newRecorder(t)
				ctx, abort := WithAbort(t.Context())
				defer abort(AbortApplication, "over")
				ctx, run := StartRun(ctx, "coder", WithTracerProvider(r))
				body := tt.body
				if body == "" {
					body = chatBody
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+chatPath, strings.NewReader(body))
				require.NoError(t, err)
				resp, err := NewTransport(b, WithStreamErrors(), WithWatchdog(tt.limit)).RoundTrip(req)
				require.NoError(t, err)
				defer resp.Body.Close()
				if tt.abort {
					_, err = io.ReadFull(resp.Body, make([]byte, len(tt.text)))
					require.NoError(t, err)
					abort(AbortUser, "stop_button")
				}
				got, err := io.ReadAll(resp.Body)
				if !tt.abort {
					assert.Equal(t, tt.text, string(got), "the reader gets every byte")
				}
				switch {
				case tt.is == nil:
					require.NoError(t, err)
				case errors.Is(tt.is, errAny):
					require.Error(t, err)
				case errors.As(tt.is, new(*WatchdogError)):
					var fired *WatchdogError
					require.ErrorAs(t, err, &fired)
					assert.Equal(t, tt.is, fired)
				default:
					require.ErrorIs(t, err, tt.is)
				}
				var broken *StreamError
				if tt.cause == "" {
					require.NotErrorAs(t, err, &broken)
					if err == nil {
						_, err = resp.Body.Read(make([]byte, 1))
						assert.Equal(t, io.EOF, err, "not wrapped")
					}
					return
				}
				require.ErrorAs(t, err, &broken)
				require.NotErrorIs(t, err, io.EOF, "an SDK would take it for the normal end")
				assert.True(t, strings.HasPrefix(broken.Diagnosis.Class.String()+"/"+broken.Diagnosis.Cause.String(), tt.cause), broken.Diagnosis.Cause)
				assert.True(t, strings.HasPrefix(err.Error(), "otelllm: "+broken.Diagnosis.Summary+" ("), err)
				assert.NotEmpty(t, broken.Diagnosis.Summary)
				facts, _ := run.run.Facts()
				require.Len(t, facts.Requests, 1)
				assert.Equal(t, run.run.JudgeRequest(&facts.Requests[0]), broken.Diagnosis, "the run's diagnosis of this request")
				assert.Equal(t, run.Diagnosis().Cause, broken.Diagnosis.Cause)
				for range 2 {
					n, again := resp.Body.Read(make([]byte, 8))
					assert.Zero(t, n)
					assert.Same(t, err, again, "later Reads return the same error")
				}
			})
		})
	}
}

// errAny is any error.
var errAny = errors.New("any error")

// Without the option the reader gets the error of the body.
func TestStreamErrorsAreOptIn(t *testing.T) {
	_, err := call(t.Context(), NewTransport(base(t), WithTracerProvider(newRecorder(t))), scriptedServer(t, sseHead+firstText, nil)+chatPath, chatBody)
	require.NoError(t, err)
}

// Outside of a run, and without a recorded span, the error is the same.
func TestStreamErrorsWithoutARun(t *testing.T) {
	_, err := call(t.Context(), NewTransport(base(t), WithStreamErrors()), scriptedServer(t, sseHead+firstText, nil)+chatPath, chatBody)
	var broken *StreamError
	require.ErrorAs(t, err, &broken)
	assert.Equal(t, semconv.CauseCleanEOF, broken.Diagnosis.Cause)
	assert.Equal(t, semconv.PhaseText, broken.Diagnosis.Phase)

	_, err = call(t.Context(), NewTransport(base(t), WithStreamErrors()), scriptedServer(t, sseHead+firstText+chatStop+chatDone, nil)+chatPath, chatBody)
	require.NoError(t, err)
}

// A request that got no response is not a broken stream: its error is unchanged.
func TestStreamErrorsBeforeAResponse(t *testing.T) {
	own := errors.New("own")
	rt := roundTripper(func(*http.Request) (*http.Response, error) { return nil, own })
	_, err := call(t.Context(), NewTransport(rt, WithStreamErrors(), WithTracerProvider(newRecorder(t))), "http://x"+chatPath, chatBody)
	assert.Same(t, own, err)
	stuck := roundTripper(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	})
	_, err = call(t.Context(), NewTransport(stuck, WithStreamErrors(), WithWatchdog(Watchdog{Total: time.Millisecond})), "http://x"+chatPath, chatBody)
	assert.Equal(t, &WatchdogError{Kind: semconv.WatchdogKindTotal, Limit: time.Millisecond}, err)
}

// An SDK reads a stream by lines with a bufio.Scanner. With the option, the scanner has an
// error when the stream broke off.
func TestStreamErrorsUnderAScanner(t *testing.T) {
	for _, opts := range [][]TransportOption{nil, {WithStreamErrors()}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, scriptedServer(t, sseHead+firstText, nil)+chatPath, strings.NewReader(chatBody))
		require.NoError(t, err)
		resp, err := NewTransport(base(t), append(opts, WithTracerProvider(newRecorder(t)))...).RoundTrip(req)
		require.NoError(t, err)
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			_ = lines.Text()
		}
		assert.Equal(t, opts != nil, lines.Err() != nil)
		require.NoError(t, resp.Body.Close())
	}
}
