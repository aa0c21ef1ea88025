package otelllm

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/otelllm/internal/spantest"
	"github.com/otelllm/otelllm-go/semconv"
)

// overHTTP runs test against a new server for each HTTP version: plain HTTP/1.1, and
// HTTP/2 over TLS.
func overHTTP(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, rt *http.Transport, url string)) {
	t.Helper()
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(version, func(t *testing.T) {
			rt, url := serve(t, version, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // only then a server notices that the client goes away
				handler(w, r)
			}), nil)
			test(t, rt, url)
		})
	}
}

// serve starts a server of an HTTP version, after configure, if not nil, has changed it.
// It returns a transport for that server.
func serve(t *testing.T, version string, h http.Handler, configure func(*http.Server)) (rt *http.Transport, url string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, version, r.Proto)
		h.ServeHTTP(w, r)
	}))
	if configure != nil {
		configure(s.Config)
	}
	if s.EnableHTTP2 = version == "HTTP/2.0"; s.EnableHTTP2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	rt, ok := s.Client().Transport.(*http.Transport)
	require.True(t, ok)
	rt.DisableCompression = true
	t.Cleanup(func() {
		rt.CloseIdleConnections()
		s.Close()
	})
	return rt, s.URL
}

// sendEvents sends pieces of an event stream and flushes them.
func sendEvents(w http.ResponseWriter, pieces ...string) error {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, p := range pieces {
		if _, err := io.WriteString(w, p); err != nil {
			return err
		}
	}
	return http.NewResponseController(w).Flush()
}

// TestHTTP2Breaks breaks streams in the ways of HTTP/2, over TLS: the causes in the frames
// are recorded.
func TestHTTP2Breaks(t *testing.T) {
	inText := func(then func(c *nettest.H2Conn, id uint32)) func(*nettest.H2Conn, uint32) {
		return func(c *nettest.H2Conn, id uint32) {
			c.Headers(id, "text/event-stream")
			c.Data(id, firstText)
			then(c, id)
		}
	}
	rst := func(code uint32) func(*nettest.H2Conn, uint32) {
		return func(c *nettest.H2Conn, id uint32) { c.RST(id, code) }
	}
	for _, tt := range []struct {
		name  string
		serve func(*nettest.H2Conn, uint32)
		cause semconv.TransportCause
		code  any
		end   semconv.StreamEnd
		phase string
	}{
		{"RST_STREAM INTERNAL_ERROR", inText(rst(2)), semconv.TransportCauseH2StreamReset, "INTERNAL_ERROR", semconv.StreamEndReadError, "text"},
		{"RST_STREAM NO_ERROR", inText(rst(0)), semconv.TransportCauseH2StreamReset, "NO_ERROR", semconv.StreamEndReadError, "text"},
		{"RST_STREAM PROTOCOL_ERROR", inText(rst(1)), semconv.TransportCauseH2StreamReset, "PROTOCOL_ERROR", semconv.StreamEndReadError, "text"},
		{"RST_STREAM REFUSED_STREAM", inText(rst(7)), semconv.TransportCauseH2StreamReset, "REFUSED_STREAM", semconv.StreamEndReadError, "text"},
		{"RST_STREAM CANCEL by the server", inText(rst(8)), semconv.TransportCauseH2StreamReset, "CANCEL", semconv.StreamEndReadError, "text"},
		{"RST_STREAM ENHANCE_YOUR_CALM", inText(rst(11)), semconv.TransportCauseH2StreamReset, "ENHANCE_YOUR_CALM", semconv.StreamEndReadError, "text"},
		{"RST_STREAM with an unknown code", inText(rst(0x7777)), semconv.TransportCauseH2StreamReset, "0x7777", semconv.StreamEndReadError, "text"},
		{"RST_STREAM before the headers", rst(2), semconv.TransportCauseH2StreamReset, "INTERNAL_ERROR", semconv.StreamEndNoResponse, "awaiting_response"},
		{"GOAWAY with an error, then the connection closes", inText(func(c *nettest.H2Conn, id uint32) {
			c.GoAway(id, 11, "CANARY")
			nettest.HangUp(c.Conn)
		}), semconv.TransportCauseH2Goaway, "ENHANCE_YOUR_CALM", semconv.StreamEndReadError, "text"},
		{"GOAWAY without an error, then the connection closes", inText(func(c *nettest.H2Conn, id uint32) {
			c.GoAway(id, 0, "")
			nettest.HangUp(c.Conn)
		}), semconv.TransportCauseH2Goaway, "NO_ERROR", semconv.StreamEndReadError, "text"},
		{"GOAWAY that gives the stream up", inText(func(c *nettest.H2Conn, _ uint32) { c.GoAway(0, 2, "CANARY") }), semconv.TransportCauseH2Goaway, "INTERNAL_ERROR", semconv.StreamEndReadError, "text"},
		{"a lost ping", inText(func(c *nettest.H2Conn, _ uint32) { c.Mute = true }), semconv.TransportCauseConnectionLost, nil, semconv.StreamEndReadError, "text"},
		{"a lost ping before the headers", func(c *nettest.H2Conn, _ uint32) { c.Mute = true }, semconv.TransportCauseConnectionLost, nil, semconv.StreamEndNoResponse, "awaiting_response"},
		{"a reset of the connection", inText(func(c *nettest.H2Conn, _ uint32) { nettest.Reset(c.Conn) }), semconv.TransportCauseConnectionReset, "ECONNRESET", semconv.StreamEndReadError, "text"},
		{"END_STREAM without the terminal event", inText(func(c *nettest.H2Conn, id uint32) { c.End(id) }), semconv.TransportCauseCleanEOF, nil, semconv.StreamEndEOF, "text"},
		{"END_STREAM before anything", func(c *nettest.H2Conn, id uint32) {
			c.Headers(id, "text/event-stream")
			c.End(id)
		}, semconv.TransportCauseCleanEOF, nil, semconv.StreamEndEOF, "response_started"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url, client := nettest.ListenH2(t, tt.serve)
			once := func(ping time.Duration) (s span, run *Run, err error) {
				r, rt := newRecorder(t), h2Base(t, client.Clone())
				rt.HTTP2 = &http.HTTP2Config{SendPingTimeout: ping, PingTimeout: ping} // 0: no pings are sent
				ctx, run := StartRun(t.Context(), "coder", WithTracerProvider(r))
				_, err = call(ctx, NewTransport(rt), url+chatPath, chatBody)
				return r.only(t), run, err
			}
			ping := time.Duration(0)
			if tt.cause == semconv.TransportCauseConnectionLost {
				ping = 20 * time.Millisecond
			}
			s, run, err := once(ping)
			for ping > 0 && s.get("llm.stream.phase") != tt.phase { // a busy machine may be slow to reach the wanted phase
				ping *= 2
				require.Less(t, ping, testTimeout)
				s, run, err = once(ping)
			}
			assert.Equal(t, tt.end == semconv.StreamEndEOF, err == nil, "%v", err)
			assert.Equal(t, tt.end.String(), s.get("llm.stream.end"), "%v", err)
			assert.Equal(t, tt.cause.String(), s.get("llm.transport.cause"), "%v", err)
			assert.Equal(t, tt.code, s.get("llm.transport.code"))
			assert.Equal(t, tt.phase, s.get("llm.stream.phase"))
			assert.Equal(t, tt.cause.String(), s.get("error.type"))
			assert.Nil(t, s.get("llm.abort.source"), "a reset by the server is not a cancellation by this side")
			assert.True(t, s.failed())
			assert.NotContains(t, spantest.Text(s), "CANARY")
			d := run.Diagnosis()
			assert.Equal(t, tt.cause.String(), d.Cause.String())
			assert.Equal(t, semconv.OriginTransport, d.Origin)
			run.End(err)
		})
	}
}

// A GOAWAY that lets the stream finish does not break it.
func TestHTTP2GoAwayThatLetsTheStreamEnd(t *testing.T) {
	r := newRecorder(t)
	url, client := nettest.ListenH2(t, func(c *nettest.H2Conn, id uint32) {
		c.Headers(id, "text/event-stream")
		c.Data(id, firstText)
		c.GoAway(id, 0, "bye")
		c.Data(id, chatStop+chatDone)
		c.End(id)
	})
	got, err := call(t.Context(), requestTransport(h2Base(t, client), WithTracerProvider(r)), url+chatPath, chatBody)
	require.NoError(t, err)
	assert.Equal(t, firstText+chatStop+chatDone, got)
	assert.Equal(t, "terminal_event", r.only(t).get("llm.stream.end"))
	assert.Nil(t, r.only(t).get("llm.transport.cause"))
}

// A refused stream was not processed: net/http sends the request again by itself, and the
// span counts the resend.
func TestHTTP2Refused(t *testing.T) {
	var tries atomic.Int32
	url, client := nettest.ListenH2(t, func(c *nettest.H2Conn, id uint32) {
		if tries.Add(1) == 1 {
			c.RST(id, 7)
			return
		}
		c.Headers(id, "text/event-stream")
		c.Data(id, firstText+chatStop+chatDone)
		c.End(id)
	})
	r := newRecorder(t)
	got, err := call(t.Context(), requestTransport(h2Base(t, client), WithTracerProvider(r)), url+chatPath, chatBody)
	require.NoError(t, err)
	assert.Equal(t, firstText+chatStop+chatDone, got)
	assert.Equal(t, "terminal_event", r.only(t).get("llm.stream.end"))
	assert.Equal(t, int64(1), r.only(t).get("http.request.resend_count"))
}
