package otelllm

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/otelllm/otelllm-go/semconv"
)

const keepalive = ": still here\n\n"

// part is a piece of a body, and the time after the start of the call when it arrives.
type part struct {
	at   time.Duration
	text string
}

// played is a body whose parts arrive by the clock. Like net/http's own bodies it ends with
// the request's context. The error is then another one over HTTP/2.
type played struct {
	ctx   context.Context
	http2 bool
	start time.Time
	parts []part
	then  error // at the end; nil: it goes silent
	// broken is the error of the body when the context ends; nil: the error of the context.
	broken error
}

func (p *played) endError() error {
	switch {
	case p.broken != nil:
		return p.broken
	case p.http2:
		return p.ctx.Err()
	default:
		return context.Cause(p.ctx)
	}
}

func (p *played) Read(b []byte) (int, error) {
	if p.ctx.Err() != nil {
		return 0, p.endError()
	}
	if len(p.parts) == 0 {
		if p.then != nil {
			return 0, p.then
		}
		<-p.ctx.Done()
		return 0, p.endError()
	}
	timer := time.NewTimer(p.parts[0].at - time.Since(p.start))
	defer timer.Stop()
	select {
	case <-timer.C:
		n := copy(b, p.parts[0].text)
		p.parts = p.parts[1:]
		return n, nil
	case <-p.ctx.Done():
		return 0, p.endError()
	}
}

func (*played) Close() error { return nil }

// watchedCall is one call under watchdogs, by a fake clock.
type watchedCall struct {
	name   string
	limits Watchdog
	path   string        // of the request; "": chatPath
	body   string        // of the request; "": chatBody
	once   bool          // the body can be read only once
	upload time.Duration // when the body has been read as it is sent; negative: never
	hooks  bool          // the transport below calls the hooks of httptrace
	conn   time.Duration // when it has a connection; negative: never
	header time.Duration // when the headers come; negative: never
	status int           // 0: 200
	kind   string        // Content-Type; "": an event stream
	coding string        // Content-Encoding
	parts  []part
	then   error
	broken error
	think  []time.Duration // before each Read
	abort  time.Duration   // when the user stops; 0: never

	fires semconv.WatchdogKind // Unset: none
	at    time.Duration        // when the consumer gets the error of the end
	end   semconv.StreamEnd    // if no watchdog fired; Unset: terminal_event
	err   error                // if no watchdog fired; nil: io.EOF
	span  string               // "": "chat gpt-5"
}

const never = -1

// keepalives returns one keepalive every second, from one moment until another.
func keepalives(from, to time.Duration) (parts []part) {
	for at := from; at < to; at += time.Second {
		parts = append(parts, part{at, keepalive})
	}
	return parts
}

func seq(lists ...[]part) (all []part) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

const sec = time.Second

var watchedCalls = []watchedCall{
	{name: "silent from the start", limits: Watchdog{FirstProgress: 10 * sec}, header: never, fires: semconv.WatchdogKindFirstProgress, at: 10 * sec},
	{name: "silent after the headers", limits: Watchdog{FirstProgress: 10 * sec}, header: 3 * sec, fires: semconv.WatchdogKindFirstProgress, at: 10 * sec},
	{name: "keepalives are not first progress", limits: Watchdog{FirstProgress: 10 * sec}, header: 3 * sec, parts: keepalives(4*sec, 60*sec), fires: semconv.WatchdogKindFirstProgress, at: 10 * sec},
	{name: "an empty first event is not first progress", limits: Watchdog{FirstProgress: 10 * sec}, header: sec, parts: []part{{9 * sec, "event: x\n"}, {11 * sec, "\n"}}, fires: semconv.WatchdogKindFirstProgress, at: 10 * sec},
	{
		name: "the consumer's own time before its first Read does not count", limits: Watchdog{FirstProgress: 10 * sec}, header: 3 * sec,
		think: []time.Duration{60 * sec}, fires: semconv.WatchdogKindFirstProgress, at: 70 * sec,
	},
	{name: "first progress in time, then silence", limits: Watchdog{FirstProgress: 10 * sec}, header: 3 * sec, parts: []part{{9 * sec, firstText}, {500 * sec, chatStop}, {501 * sec, chatDone}}, then: io.EOF, at: 501 * sec},
	{name: "Idle does not begin before the first progress", limits: Watchdog{Idle: 10 * sec}, header: 3 * sec, parts: []part{{300 * sec, chatText}, {301 * sec, chatStop + chatDone}}, then: io.EOF, at: 301 * sec},
	{name: "a body that is read as it is sent asks for a stream", limits: Watchdog{FirstProgress: 10 * sec}, once: true, upload: 2 * sec, header: never, fires: semconv.WatchdogKindFirstProgress, at: 10 * sec},
	{name: "sending the body counts for the limit", limits: Watchdog{FirstProgress: 10 * sec}, once: true, upload: 15 * sec, header: never, fires: semconv.WatchdogKindFirstProgress, at: 15 * sec},
	{name: "another limit is set already", limits: Watchdog{FirstProgress: 10 * sec, Total: 60 * sec}, once: true, upload: 2 * sec, header: never, fires: semconv.WatchdogKindFirstProgress, at: 10 * sec},
	{name: "another limit comes first", limits: Watchdog{FirstProgress: 10 * sec, Total: 5 * sec}, once: true, upload: 2 * sec, header: never, fires: semconv.WatchdogKindTotal, at: 5 * sec},
	{name: "a body that is read as it is sent does not ask for a stream", limits: Watchdog{FirstProgress: 10 * sec, Idle: 10 * sec}, body: `{"model":"gpt-5","messages":[]}`, once: true, header: 200 * sec, kind: "application/json", parts: []part{{250 * sec, `{"choices":[{"index":0,"message":{"content":"a"},`}, {300 * sec, `"finish_reason":"stop"}]}`}}, then: io.EOF, at: 300 * sec},
	{name: "a body that is never read to its end does not ask for a stream", limits: Watchdog{FirstProgress: 10 * sec}, once: true, upload: never, header: 100 * sec, fires: semconv.WatchdogKindFirstProgress, at: 100 * sec, span: "chat"},
	{name: "the user stops once the body has been read", limits: Watchdog{FirstProgress: 10 * sec}, once: true, upload: 2 * sec, header: never, abort: 5 * sec, end: semconv.StreamEndCancelled, err: context.Canceled, at: 5 * sec},
	{name: "the path says that it streams", limits: Watchdog{FirstProgress: 10 * sec}, path: "/model/gpt-5/converse-stream", body: `{"messages":[]}`, once: true, upload: never, header: never, fires: semconv.WatchdogKindFirstProgress, at: 10 * sec, span: "chat"},
	{name: "the path says that it does not", limits: Watchdog{FirstProgress: 10 * sec}, path: "/model/gpt-5/converse", body: `{"messages":[]}`, once: true, header: 100 * sec, kind: "application/json", parts: []part{{101 * sec, `{"output":{"message":{"content":[{"text":"a"}]}},"stopReason":"end_turn"}`}}, then: io.EOF, at: 101 * sec},
	{name: "the path says that it streams, and the body cannot be read", limits: Watchdog{FirstProgress: 10 * sec}, path: "/v1beta/models/gpt-5:streamGenerateContent", body: "secret", header: never, fires: semconv.WatchdogKindFirstProgress, at: 10 * sec, span: "generate_content gpt-5"},
	{
		name: "a stream of another type, asked for by a body that is read as it is sent", limits: Watchdog{Idle: 10 * sec}, path: "/api/chat", body: `{"model":"gpt-5","messages":[]}`, once: true,
		kind: "application/x-ndjson", parts: []part{{1 * sec, `{"message":{"role":"assistant","content":"a"},"done":false}` + "\n"}}, fires: semconv.WatchdogKindIdle, at: 11 * sec,
	},
	{name: "silent in the text", limits: Watchdog{Idle: 10 * sec}, parts: []part{{1 * sec, firstText}, {10 * sec, chatText}}, fires: semconv.WatchdogKindIdle, at: 20 * sec},
	{name: "keepalives only", limits: Watchdog{Idle: 10 * sec}, parts: seq([]part{{1 * sec, firstText}}, keepalives(2*sec, 60*sec)), fires: semconv.WatchdogKindIdle, at: 11 * sec},
	{name: "half an event", limits: Watchdog{Idle: 10 * sec}, parts: []part{{1 * sec, firstText}, {9 * sec, chatText[:20]}, {12 * sec, chatText[20:]}}, fires: semconv.WatchdogKindIdle, at: 11 * sec},
	{
		name: "progress right before the limit", limits: Watchdog{FirstProgress: 10 * sec, Idle: 10 * sec},
		parts: []part{{9 * sec, firstText}, {18*sec + 999*time.Millisecond, chatText}, {28 * sec, chatText}, {37 * sec, chatStop}, {46 * sec, chatDone}}, then: io.EOF, at: 46 * sec,
	},
	{
		name: "a consumer that takes its time", limits: Watchdog{FirstProgress: 10 * sec, Idle: 10 * sec},
		parts: []part{{1 * sec, firstText}, {2 * sec, chatText}, {3 * sec, chatText}, {4 * sec, chatStop}, {5 * sec, chatDone}}, then: io.EOF,
		think: []time.Duration{0, 60 * sec, 60 * sec, 60 * sec, 60 * sec, 60 * sec}, at: 301 * sec,
	},
	{
		name: "the waits before and after keepalives and the consumer's own time add up", limits: Watchdog{Idle: 10 * sec},
		parts: []part{{1 * sec, firstText}, {65 * sec, keepalive}, {130 * sec, keepalive}}, think: []time.Duration{0, 60 * sec, 60 * sec, 60 * sec},
		fires: semconv.WatchdogKindIdle, at: 191 * sec,
	},
	{name: "no stream: no limit for progress", limits: Watchdog{FirstProgress: 10 * sec, Idle: 10 * sec}, body: `{"model":"gpt-5","messages":[]}`, header: 200 * sec, kind: "application/json", parts: []part{{250 * sec, `{"choices":[{"index":0,"message":{"content":"a"},`}, {300 * sec, `"finish_reason":"stop"}]}`}}, then: io.EOF, at: 300 * sec},
	{name: "no stream: Total before the headers", limits: Watchdog{Total: 10 * sec}, body: `{"model":"gpt-5","messages":[]}`, header: never, fires: semconv.WatchdogKindTotal, at: 10 * sec},
	{name: "no stream: Total in the body", limits: Watchdog{Total: 10 * sec}, body: `{"model":"gpt-5","messages":[]}`, header: sec, kind: "application/json", parts: []part{{2 * sec, `{"choices":[`}}, fires: semconv.WatchdogKindTotal, at: 10 * sec},
	{name: "Total in the middle of progress", limits: Watchdog{Idle: 10 * sec, Total: 20 * sec}, parts: []part{{5 * sec, firstText}, {10 * sec, chatText}, {15 * sec, chatText}, {25 * sec, chatText}}, fires: semconv.WatchdogKindTotal, at: 20 * sec},
	{name: "Total counts the consumer's own time", limits: Watchdog{Total: 30 * sec}, parts: []part{{1 * sec, firstText}, {2 * sec, chatText}}, think: []time.Duration{0, 60 * sec}, fires: semconv.WatchdogKindTotal, at: 61 * sec},
	{name: "after the terminal event", limits: Watchdog{FirstProgress: 10 * sec, Idle: 10 * sec}, parts: []part{{1 * sec, firstText}, {2 * sec, chatStop + chatDone}, {500 * sec, keepalive}}, then: io.EOF, at: 500 * sec},
	{name: "an HTTP error is not a stream", limits: Watchdog{FirstProgress: 10 * sec, Idle: 10 * sec}, header: sec, status: 503, kind: "application/json", parts: []part{{100 * sec, `{"error":{}}`}}, then: io.EOF, end: semconv.StreamEndHTTPError, at: 100 * sec},
	{name: "an HTTP error that goes silent", limits: Watchdog{Total: 10 * sec}, header: sec, status: 503, kind: "application/json", parts: []part{{2 * sec, `{"error":{}}`}}, end: semconv.StreamEndHTTPError, err: &WatchdogError{Kind: semconv.WatchdogKindTotal, Limit: 10 * sec}, at: 10 * sec},
	{name: "an unreadable body is not watched for progress", limits: Watchdog{FirstProgress: 10 * sec, Idle: 10 * sec}, coding: "compress", parts: []part{{100 * sec, "x"}, {200 * sec, "y"}}, then: io.EOF, end: semconv.StreamEndUnset, at: 200 * sec},
	{name: "a body that is not gzip is not watched for progress", limits: Watchdog{FirstProgress: 10 * sec, Idle: 10 * sec}, coding: "gzip", parts: []part{{5 * sec, firstText}, {200 * sec, "y"}}, then: io.EOF, end: semconv.StreamEndUnset, at: 200 * sec},
	{name: "progress under gzip", limits: Watchdog{FirstProgress: 10 * sec, Idle: 10 * sec}, coding: "gzip", parts: timed(encodedPieces(codings[0].open, firstText, chatText, chatText, chatStop+chatDone), 9*sec), then: io.EOF, at: 45 * sec},
	{name: "keepalives under zstd", limits: Watchdog{Idle: 10 * sec}, coding: "zstd", parts: timed(encodedPieces(codings[4].open, firstText, keepalive, keepalive, keepalive), 4*sec), fires: semconv.WatchdogKindIdle, at: 14 * sec},
	{name: "silence under br", limits: Watchdog{Idle: 10 * sec}, coding: "br", parts: timed(encodedPieces(codings[3].open, firstText)[:1], 4*sec), fires: semconv.WatchdogKindIdle, at: 14 * sec},
	{name: "Connect", limits: Watchdog{Connect: 10 * sec}, hooks: true, conn: never, header: never, fires: semconv.WatchdogKindConnect, at: 10 * sec},
	{name: "Connect in time, late headers", limits: Watchdog{Connect: 10 * sec}, hooks: true, conn: 9 * sec, header: 100 * sec, parts: []part{{101 * sec, firstText + chatStop + chatDone}}, then: io.EOF, at: 101 * sec},
	{name: "Connect if connections are not reported", limits: Watchdog{Connect: 10 * sec}, header: 100 * sec, parts: []part{{101 * sec, firstText + chatStop + chatDone}}, then: io.EOF, at: 101 * sec},
	{name: "Connect met, then the next limit", limits: Watchdog{Connect: 10 * sec, FirstProgress: 15 * sec}, hooks: true, conn: 9 * sec, header: never, fires: semconv.WatchdogKindFirstProgress, at: 15 * sec},
	{name: "the earliest limit counts", limits: Watchdog{Connect: 10 * sec, FirstProgress: 5 * sec, Total: 7 * sec}, hooks: true, conn: never, header: never, fires: semconv.WatchdogKindFirstProgress, at: 5 * sec},
	{name: "limits that are not positive are off", limits: Watchdog{Connect: -1, FirstProgress: -1, Idle: -1, Total: -1}, header: 100 * sec, parts: []part{{5000 * sec, firstText + chatStop}, {5000 * sec, chatDone}}, then: io.EOF, at: 5000 * sec},
	{name: "off by default", header: 100 * sec, parts: []part{{5000 * sec, firstText + chatStop}, {5000 * sec, chatDone}}, then: io.EOF, at: 5000 * sec},
	{name: "the user stops before the limit", limits: Watchdog{Idle: 10 * sec}, parts: []part{{1 * sec, firstText}}, abort: 5 * sec, end: semconv.StreamEndCancelled, err: context.Canceled, at: 5 * sec},
	{name: "the user stops after the limit", limits: Watchdog{Idle: 10 * sec}, parts: []part{{1 * sec, firstText}}, abort: 15 * sec, fires: semconv.WatchdogKindIdle, at: 11 * sec},
	{name: "the user stops before the headers", limits: Watchdog{FirstProgress: 10 * sec}, header: never, abort: 5 * sec, end: semconv.StreamEndCancelled, err: context.Canceled, at: 5 * sec},
	{name: "it breaks before the limit", limits: Watchdog{Idle: 10 * sec}, parts: []part{{1 * sec, firstText}}, then: syscall.ECONNRESET, end: semconv.StreamEndReadError, err: syscall.ECONNRESET, at: 1 * sec},
	// The error itself decides: the reader got a broken connection at the moment of the limit.
	{name: "it breaks as the limit is reached", limits: Watchdog{Idle: 10 * sec}, parts: []part{{1 * sec, firstText}}, broken: syscall.ECONNRESET, end: semconv.StreamEndReadError, err: syscall.ECONNRESET, at: 11 * sec},
	{name: "it breaks as the limit is reached, before the headers", limits: Watchdog{FirstProgress: 10 * sec}, header: never, broken: syscall.ECONNRESET, end: semconv.StreamEndNoResponse, err: syscall.ECONNRESET, at: 10 * sec},
	// The answer is complete but for its terminal event: it counts as complete, and the reader
	// gets the watchdog's error.
	{name: "silent between the finish reason and the terminal event", limits: Watchdog{Idle: 10 * sec}, parts: []part{{1 * sec, firstText + chatStop}}, end: semconv.StreamEndTerminalEvent, err: &WatchdogError{Kind: semconv.WatchdogKindIdle, Limit: 10 * sec}, at: 11 * sec},
	{
		name: "silent after an answer whose protocol has no terminal event", limits: Watchdog{Idle: 10 * sec}, path: "/v1beta/models/gpt-5:streamGenerateContent", body: `{"contents":[]}`,
		parts: []part{{1 * sec, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]},\"finishReason\":\"STOP\"}]}\n\n"}, {500 * sec, keepalive}}, then: io.EOF, at: 500 * sec, span: "generate_content gpt-5",
	},
	// The end of the answer does not change, and the reader gets the watchdog's error.
	{name: "Total after the finish reason", limits: Watchdog{Total: 60 * sec}, parts: []part{{1 * sec, firstText + chatStop}}, end: semconv.StreamEndTerminalEvent, err: &WatchdogError{Kind: semconv.WatchdogKindTotal, Limit: 60 * sec}, at: 60 * sec},
	{name: "Total after a malformed event", limits: Watchdog{Idle: 10 * sec, Total: 60 * sec}, parts: []part{{1 * sec, "data: {nonsense\n\n"}}, end: semconv.StreamEndReadError, err: &WatchdogError{Kind: semconv.WatchdogKindTotal, Limit: 60 * sec}, at: 60 * sec},
	{
		name: "another candidate begins after one has finished", limits: Watchdog{Idle: 10 * sec}, path: "/v1beta/models/gpt-5:streamGenerateContent", body: `{"contents":[]}`,
		parts: []part{
			{1 * sec, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]},\"finishReason\":\"STOP\"}]}\n\n"},
			{30 * sec, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"b\"}]},\"index\":1}]}\n\n"},
		}, fires: semconv.WatchdogKindIdle, at: 40 * sec, span: "generate_content gpt-5",
	},
}

// timed returns texts as parts, one after every so much time.
func timed(texts []string, every time.Duration) (parts []part) {
	for i, text := range texts {
		parts = append(parts, part{time.Duration(i+1) * every, text})
	}
	return parts
}

// TestWatchdogs plays calls by the clock, with the errors of both HTTP versions.
func TestWatchdogs(t *testing.T) {
	for _, tt := range watchedCalls {
		for _, http2 := range []bool{false, true} {
			name := tt.name + "/HTTP/1"
			if http2 {
				name = tt.name + "/HTTP/2"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { playWatched(t, tt, http2) })
			})
		}
	}
}

// below returns the transport below a watched call.
func (tt *watchedCall) below(start time.Time, http2 bool, sent **http.Request) roundTripper {
	return func(req *http.Request) (*http.Response, error) {
		ctx := req.Context()
		*sent = req
		body := &played{ctx: ctx, http2: http2, start: start, parts: tt.parts, then: tt.then, broken: tt.broken}
		until := func(at time.Duration) bool {
			if at < 0 {
				<-ctx.Done()
				return false
			}
			select {
			case <-time.After(at - time.Since(start)):
				return true
			case <-ctx.Done():
				return false
			}
		}
		if tt.hooks {
			hooks := httptrace.ContextClientTrace(ctx)
			hooks.GetConn("x:80")
			if !until(tt.conn) {
				return nil, body.endError()
			}
			hooks.GotConn(httptrace.GotConnInfo{})
		}
		if tt.once && tt.upload >= 0 {
			if !until(tt.upload) {
				return nil, body.endError()
			}
			_, _ = io.Copy(io.Discard, req.Body)
		}
		if !until(tt.header) {
			return nil, body.endError()
		}
		h := http.Header{"Content-Type": {"text/event-stream"}}
		if tt.kind != "" {
			h.Set("Content-Type", tt.kind)
		}
		if tt.coding != "" {
			h.Set("Content-Encoding", tt.coding)
		}
		return &http.Response{StatusCode: max(tt.status, http.StatusOK), Header: h, Body: body}, nil
	}
}

func playWatched(t *testing.T, tt watchedCall, http2 bool) {
	t.Helper()
	r := newRecorder(t)
	start := time.Now()
	ctx, abort := WithAbort(t.Context())
	defer abort(AbortApplication, "over")
	if tt.abort > 0 {
		time.AfterFunc(tt.abort, func() { abort(AbortUser, "stop_button") })
	}
	ctx, run := StartRun(ctx, "coder", WithTracerProvider(r))
	var sent *http.Request
	opts := []TransportOption{WithWatchdog(tt.limits)}
	if tt.limits == (Watchdog{}) {
		opts = nil
	}
	body := cmp.Or(tt.body, chatBody)
	name := cmp.Or(tt.span, "chat gpt-5")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x"+cmp.Or(tt.path, chatPath), strings.NewReader(body))
	require.NoError(t, err)
	if tt.once {
		req.Body, req.GetBody = io.NopCloser(struct{ io.Reader }{req.Body}), nil
	}
	resp, err := NewTransport(tt.below(start, http2, &sent), opts...).RoundTrip(req)
	for i := 0; err == nil; i++ {
		if i < len(tt.think) {
			time.Sleep(tt.think[i])
		}
		_, err = resp.Body.Read(make([]byte, 4096))
	}
	assert.Equal(t, tt.at, time.Since(start), "%v", err)
	sp := r.named(name)
	require.Len(t, sp, 1, "the span ends when the consumer gets its error")

	if tt.fires != semconv.WatchdogKindUnset {
		want := &WatchdogError{Kind: tt.fires, Limit: tt.limits.of(tt.fires)}
		require.Equal(t, want, err, "not wrapped, over both versions")
		assert.Equal(t, "watchdog", sp[0].get("llm.stream.end"))
		assert.Equal(t, tt.fires.String(), sp[0].get("llm.watchdog.kind"))
		assert.InDelta(t, want.Limit.Seconds(), sp[0].get("llm.watchdog.limit"), 0)
		assert.Equal(t, "watchdog_timeout", sp[0].get("error.type"))
		assert.Equal(t, "cancelled", sp[0].get("llm.transport.cause"))
		assert.Nil(t, sp[0].get("llm.abort.source"))
		assert.Contains(t, sp[0].events(), semconv.EventWatchdogFired)
		d := run.Diagnosis()
		assert.Equal(t, "watchdog_timeout/"+tt.fires.String()+" watchdog", d.Class.String()+"/"+d.Cause.String()+" "+d.Origin.String())
	} else {
		end := tt.end
		if end == semconv.StreamEndUnset && (tt.coding == "" || errors.Is(tt.then, io.EOF) && tt.at == 45*sec) {
			end = semconv.StreamEndTerminalEvent
		}
		if end == semconv.StreamEndUnset {
			assert.Nil(t, sp[0].get("llm.stream.end"))
		} else {
			assert.Equal(t, end.String(), sp[0].get("llm.stream.end"))
		}
		assert.Nil(t, sp[0].get("llm.watchdog.kind"))
		assert.NotContains(t, sp[0].events(), semconv.EventWatchdogFired)
		want := tt.err
		switch {
		case want == nil:
			want = io.EOF
		case errors.As(want, new(*WatchdogError)):
			assert.Equal(t, want, err)
			want = err
		}
		require.ErrorIs(t, err, want)
		assert.NotEqual(t, semconv.ClassWatchdogTimeout, run.Diagnosis().Class)
	}
	if resp != nil {
		_, again := resp.Body.Read(make([]byte, 1))
		if tt.then == nil && tt.broken == nil && tt.fires != semconv.WatchdogKindUnset {
			assert.Equal(t, err, again, "later Reads return the same error")
		}
		require.NoError(t, resp.Body.Close())
	}
	if tt.limits == (Watchdog{}) {
		assert.NoError(t, sent.Context().Err(), "a call that is not watched is sent with its own context")
		return
	}
	require.Error(t, sent.Context().Err(), "its context is released")
	cause := context.Cause(sent.Context())
	time.Sleep(1000 * time.Hour) // no timer is left that could change anything
	assert.Equal(t, cause, context.Cause(sent.Context()))
	assert.Len(t, r.named(name), 1)
}

// of returns the limit of a kind.
func (w Watchdog) of(k semconv.WatchdogKind) time.Duration {
	return map[semconv.WatchdogKind]time.Duration{
		semconv.WatchdogKindConnect:       w.Connect,
		semconv.WatchdogKindFirstProgress: w.FirstProgress,
		semconv.WatchdogKindIdle:          w.Idle,
		semconv.WatchdogKindTotal:         w.Total,
	}[k]
}

// A watchdog works without a recorded span: it is not part of the telemetry.
func TestWatchdogUnrecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tt := watchedCall{parts: []part{{sec, firstText}}}
		var sent *http.Request
		_, err := call(t.Context(), NewTransport(tt.below(time.Now(), false, &sent), WithWatchdog(Watchdog{Idle: 10 * sec}), WithTracerProvider(noop.NewTracerProvider())), "http://x"+chatPath, chatBody)
		assert.Equal(t, &WatchdogError{Kind: semconv.WatchdogKindIdle, Limit: 10 * sec}, err)
	})
}

// A consumer that closes a stream stops the watchdog.
func TestWatchdogClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t)
		tt := watchedCall{parts: []part{{sec, firstText}}}
		var sent *http.Request
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+chatPath, strings.NewReader(chatBody))
		require.NoError(t, err)
		resp, err := NewTransport(tt.below(time.Now(), false, &sent), WithWatchdog(Watchdog{Idle: 10 * sec, Total: 20 * sec}), WithTracerProvider(r)).RoundTrip(req)
		require.NoError(t, err)
		_, err = resp.Body.Read(make([]byte, 4096))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, "consumer_closed", r.only(t).get("llm.stream.end"))
		assert.Equal(t, context.Canceled, context.Cause(sent.Context()))
		time.Sleep(time.Hour)
		assert.Nil(t, r.only(t).get("llm.watchdog.kind"))
	})
	t.Run("after the limit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRecorder(t)
			tt := watchedCall{parts: []part{{sec, firstText}}}
			var sent *http.Request
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+chatPath, strings.NewReader(chatBody))
			require.NoError(t, err)
			resp, err := NewTransport(tt.below(time.Now(), false, &sent), WithWatchdog(Watchdog{Total: 20 * sec}), WithTracerProvider(r)).RoundTrip(req)
			require.NoError(t, err)
			_, err = resp.Body.Read(make([]byte, 4096))
			require.NoError(t, err)
			time.Sleep(time.Minute)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, "watchdog", r.only(t).get("llm.stream.end"), "the watchdog ended it before the consumer closed it")
			assert.Equal(t, "total", r.only(t).get("llm.watchdog.kind"))
		})
	})
}

func TestWatchdogError(t *testing.T) {
	var err error = &WatchdogError{Kind: semconv.WatchdogKindIdle, Limit: 30 * sec}
	require.EqualError(t, err, "otelllm: watchdog: no progress within 30s")
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout())
	w := DefaultWatchdog()
	assert.Positive(t, w.Connect)
	assert.Positive(t, w.FirstProgress)
	assert.Positive(t, w.Idle)
	assert.Zero(t, w.Total)
}
