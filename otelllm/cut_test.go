package otelllm

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/otelllm/otelllm-go/internal/sample"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts/spanread"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// cut is a way in which a stream stops after some of its events.
type cut struct {
	name string
	// chunked: the answer has chunked encoding; otherwise the end of the connection ends it.
	chunked bool
	stop    func(net.Conn) // on the server's side; nil: the server goes silent
	// local: this side stops reading. With cancel it cancels the context first.
	local, cancel bool
	// sparse: a long stream is cut only after every sparseStep-th event. What the decoder
	// knows there is the same as for the other kinds of cut; only the stop differs.
	sparse bool

	class  semconv.Class // of an answer that is cut in this way
	cause  semconv.Cause
	origin semconv.Origin
	end    semconv.StreamEnd
}

const sparseStep = 7

var cuts = []cut{
	{
		name: "clean EOF", stop: nettest.HangUp,
		class: semconv.ClassStreamInterrupted, cause: semconv.CauseCleanEOF, origin: semconv.OriginTransport, end: semconv.StreamEndEOF,
	},
	{
		name: "reset", chunked: true, stop: nettest.Reset,
		class: semconv.ClassStreamInterrupted, cause: semconv.CauseConnectionReset, origin: semconv.OriginTransport, end: semconv.StreamEndReadError,
	},
	{
		name: "truncated", sparse: true, chunked: true, stop: nettest.HangUp,
		class: semconv.ClassStreamInterrupted, cause: semconv.CauseBodyTruncated, origin: semconv.OriginTransport, end: semconv.StreamEndReadError,
	},
	{
		name: "consumer closes", sparse: true, chunked: true, local: true,
		class: semconv.ClassLocalAbort, cause: semconv.CauseConsumerClosed, origin: semconv.OriginLocal, end: semconv.StreamEndConsumerClosed,
	},
	{
		name: "user stops", sparse: true, chunked: true, local: true, cancel: true,
		class: semconv.ClassLocalAbort, cause: semconv.CauseUser, origin: semconv.OriginLocal, end: semconv.StreamEndCancelled,
	},
}

// cutServer answers a request with the piece of a stream that the test has put into next.
type cutServer struct {
	url  string
	next chan piece
}

type piece struct {
	text    string
	chunked bool
	read    chan struct{} // closed when the client has it all
	stop    func(net.Conn)
}

func newCutServer(tb testing.TB) *cutServer {
	tb.Helper()
	s := &cutServer{next: make(chan piece, 1)}
	s.url = "http://" + nettest.Listen(tb, func(c net.Conn) {
		if nettest.ReadRequest(c) == nil {
			return
		}
		p := <-s.next
		head, text := "Connection: close\r\n\r\n", p.text
		if p.chunked {
			head = "Transfer-Encoding: chunked\r\n\r\n"
			if text != "" {
				text = fmt.Sprintf("%x\r\n%s\r\n", len(text), text)
			}
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"+head+text)
		<-p.read
		if p.stop == nil {
			nettest.Wait(c)
			return
		}
		p.stop(c)
	})
	return s
}

// TestCuts cuts every stream after every event in every way, over real
// connections, and checks the verdict against the cut.
func TestCuts(t *testing.T) {
	last := &lastSpan{}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(last))
	server := newCutServer(t)
	rt := NewTransport(base(t))
	for _, s := range streams(t) {
		protocol, _, ok := wire.Match(http.MethodPost, s.path)
		require.True(t, ok)
		t.Run(s.name, func(t *testing.T) {
			for _, c := range cuts {
				for k := range len(s.events) + 1 {
					if c.sparse && k%sparseStep != 0 && len(s.events) > 2*sparseStep {
						continue
					}
					if k%sample.Every(12) != 0 && len(s.events) > 40 {
						continue
					}
					prefix := strings.Join(s.events[:k], "")
					d, request := runCut(t, rt, provider, server, s.path, prefix, c)
					checkCut(t, c, expectCut(protocol, prefix, c), d, &request)

					read := spanread.Request(last.request())
					assert.Equal(t, request, read, "the span holds the facts that were judged")
					if t.Failed() {
						t.Fatalf("%s: %s after event %d of %d", s.name, c.name, k, len(s.events))
					}
				}
			}
		})
	}
}

// runCut makes one request in a new run. It returns the run's diagnosis and the facts of the request.
func runCut(t *testing.T, rt *Transport, provider *sdktrace.TracerProvider, server *cutServer, path, prefix string, c cut) (classify.Diagnosis, classify.Request) {
	t.Helper()
	ctx, abort := WithAbort(t.Context())
	defer abort(AbortApplication, "done")
	ctx, run := StartRun(ctx, "cutter", WithTracerProvider(provider), WithToolsRecorded())
	p := piece{text: prefix, chunked: c.chunked, stop: c.stop, read: make(chan struct{})}
	server.next <- p
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.url+path, strings.NewReader(`{"model":"m","stream":true,"tools":[],"messages":[],"input":[]}`))
	require.NoError(t, err)
	resp, err := rt.RoundTrip(req)
	require.NoError(t, err)
	got := make([]byte, len(prefix))
	_, err = io.ReadFull(resp.Body, got)
	require.NoError(t, err)
	require.Equal(t, prefix, string(got))
	close(p.read)
	switch {
	case c.cancel:
		abort(AbortUser, "stop_button")
		_, err = resp.Body.Read(make([]byte, 1))
		require.ErrorIs(t, err, context.Canceled)
	case !c.local:
		rest, err := io.ReadAll(resp.Body)
		require.Empty(t, rest)
		switch c.cause {
		case semconv.CauseCleanEOF:
			require.NoError(t, err)
		case semconv.CauseConnectionReset:
			require.ErrorIs(t, err, syscall.ECONNRESET)
		default:
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
	}
	require.NoError(t, resp.Body.Close())
	d := run.Diagnosis()
	facts, _ := run.run.Facts()
	require.Len(t, facts.Requests, 1)
	require.Empty(t, facts.Requests[0].HistoryCalls)
	run.End(nil)
	return d, facts.Requests[0]
}

// expected is the expected verdict on an answer that was cut.
type expected struct {
	class  semconv.Class
	cause  semconv.Cause
	origin semconv.Origin
	phase  semconv.Phase
	end    semconv.StreamEnd
	safety semconv.RetrySafety
	reason semconv.RetryReason
}

// expectCut returns the expected verdict, given what the piece of the answer holds.
func expectCut(p wire.Protocol, prefix string, c cut) expected {
	d := p.NewDecoder("text/event-stream")
	d.Write([]byte(prefix))
	if c.cause == semconv.CauseCleanEOF {
		d.Close()
	}
	st := d.State()
	want := expected{class: c.class, cause: c.cause, origin: c.origin, phase: st.Phase, end: c.end}
	switch {
	case st.Err != nil:
		want.class, want.cause, want.origin, want.end = semconv.ClassProviderError, semconv.CauseOverloaded, semconv.OriginProvider, semconv.StreamEndTerminalEvent
	case st.Terminal, st.Complete && c.cause != semconv.CauseConnectionReset && c.cause != semconv.CauseBodyTruncated:
		want = expected{end: semconv.StreamEndTerminalEvent, phase: semconv.PhaseStreamEnd}
		switch classify.ParseFinish(st.FinishReasons) {
		case classify.FinishRefusal:
			want.class, want.cause, want.origin = semconv.ClassOutputLimited, semconv.CauseRefusal, semconv.OriginProvider
		case classify.FinishPaused:
			want.class, want.cause, want.origin = semconv.ClassOutputLimited, semconv.CausePaused, semconv.OriginProvider
		case classify.FinishMaxTokens:
			want.class, want.cause, want.origin = semconv.ClassOutputLimited, semconv.CauseMaxOutputTokens, semconv.OriginProvider
		}
	}
	if st.Broken && st.Err == nil {
		want.class, want.cause, want.origin = semconv.ClassProtocolViolation, semconv.CauseMalformedEvent, semconv.OriginProvider
		if st.Spliced {
			want.origin = semconv.OriginGateway
		}
		if c.cancel && !st.Terminal {
			want.end = semconv.StreamEndReadError // the abort answers the violation
		}
	}
	switch {
	case want.class == semconv.ClassUnset:
	case c.cancel && want.class == semconv.ClassLocalAbort:
		want.safety, want.reason = classify.NoRetry, semconv.RetryReasonUserAbort
	case want.class == semconv.ClassLocalAbort, want.class == semconv.ClassOutputLimited:
		want.safety, want.reason = classify.NoRetry, semconv.RetryReasonNotTransient
	case slices.ContainsFunc(st.ProviderTools, func(name string) bool { return !onlyRead[name] }):
		want.safety, want.reason = classify.UserConfirmedRetry, semconv.RetryReasonProviderToolSideEffect
	case st.TextChunks > 0:
		want.safety, want.reason = classify.UserConfirmedRetry, semconv.RetryReasonVisibleOutput
	default:
		want.safety, want.reason = classify.SafeAutoRetry, safeReason(st)
	}
	return want
}

// onlyRead are the provider-executed tools of the streams that change nothing.
var onlyRead = map[string]bool{
	"file_search": true, "google_search": true, "mcp_list_tools": true, "tool_search": true, "web_fetch": true, "web_search": true,
}

func safeReason(st *wire.State) semconv.RetryReason {
	switch {
	case st.ToolInputsCompleted > 0:
		return semconv.RetryReasonToolCallNotExecuted
	case st.ToolInputsStarted > 0:
		return semconv.RetryReasonIncompleteToolInput
	case st.ReasoningChunks > 0:
		return semconv.RetryReasonReasoningOnly
	default:
		return semconv.RetryReasonNoOutput
	}
}

func checkCut(t *testing.T, c cut, want expected, d classify.Diagnosis, r *classify.Request) {
	t.Helper()
	if want.class == semconv.ClassProviderError {
		want.cause, want.safety, want.reason = d.Cause, d.Retry.Safety, d.Retry.Reason // by the provider's code
	}
	got := expected{d.Class, d.Cause, d.Origin, d.Phase, r.Ended, d.Retry.Safety, d.Retry.Reason}
	if want.class == semconv.ClassUnset {
		got.phase = r.Phase
	}
	assert.Equal(t, want, got, "%s; evidence %v", d.Summary, d.Evidence)
	if d.Failed() {
		assert.NotEmpty(t, d.Summary)
	}
	if c.cause == semconv.CauseConnectionReset && d.Cause == c.cause {
		assert.Equal(t, classify.Transport{Stage: semconv.TransportStageBody, Cause: semconv.TransportCauseConnectionReset, Code: "ECONNRESET"}, r.Transport)
	}
}

// lastSpan is a span processor that keeps the newest span of a request.
type lastSpan struct {
	sdktrace.SpanProcessor

	span sdktrace.ReadOnlySpan
}

func (l *lastSpan) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (l *lastSpan) OnEnd(s sdktrace.ReadOnlySpan) {
	if strings.HasPrefix(s.Name(), "chat") {
		l.span = s
	}
}

func (l *lastSpan) request() *spanread.Span { return readable(l.span) }

func readable(s sdktrace.ReadOnlySpan) *spanread.Span {
	return &spanread.Span{Start: s.StartTime(), End: s.EndTime(), Attributes: s.Attributes(), Error: span{s}.failed()}
}

// TestCutsHTTP2 resets and ends HTTP/2 streams after every event.
func TestCutsHTTP2(t *testing.T) {
	for _, s := range ownStreams() {
		protocol, _, _ := wire.Match(http.MethodPost, s.path)
		for _, c := range []struct {
			name  string
			stop  func(*nettest.H2Conn, uint32)
			cause semconv.Cause
			code  string
			end   semconv.StreamEnd
		}{
			{"reset", func(c *nettest.H2Conn, id uint32) { c.RST(id, 2) }, semconv.CauseH2StreamReset, "INTERNAL_ERROR", semconv.StreamEndReadError},
			{"end", func(c *nettest.H2Conn, id uint32) { c.End(id) }, semconv.CauseCleanEOF, "", semconv.StreamEndEOF},
			{"goaway", func(c *nettest.H2Conn, id uint32) { c.GoAway(id, 11, "secret"); nettest.HangUp(c.Conn) }, semconv.CauseH2Goaway, "ENHANCE_YOUR_CALM", semconv.StreamEndReadError},
		} {
			t.Run(s.name+"/"+c.name, func(t *testing.T) {
				for k := range len(s.events) + 1 {
					if k%sparseStep != 0 && len(s.events) > 2*sparseStep {
						continue
					}
					prefix := strings.Join(s.events[:k], "")
					read := make(chan struct{})
					url, client := nettest.ListenH2(t, func(conn *nettest.H2Conn, id uint32) {
						conn.Headers(id, "text/event-stream")
						conn.Data(id, prefix)
						<-read
						c.stop(conn, id)
					})
					r := newRecorder(t)
					ctx, run := StartRun(t.Context(), "cutter", WithTracerProvider(r), WithToolsRecorded())
					rt := NewTransport(h2Base(t, client))
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+s.path, strings.NewReader(`{"model":"m","stream":true,"messages":[],"input":[]}`))
					require.NoError(t, err)
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err)
					_, err = io.ReadFull(resp.Body, make([]byte, len(prefix)))
					require.NoError(t, err)
					close(read)
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
					require.Equal(t, c.end == semconv.StreamEndEOF, err == nil, "%v", err)

					way := cut{class: semconv.ClassStreamInterrupted, cause: c.cause, origin: semconv.OriginTransport, end: c.end}
					want := expectCut(protocol, prefix, way)
					if d := protocol.NewDecoder("text/event-stream"); c.end == semconv.StreamEndReadError {
						d.Write([]byte(prefix))
						if st := d.State(); st.Complete && !st.Terminal { // complete, but cut before its terminal event
							want = expected{
								class: way.class, cause: way.cause, origin: way.origin, phase: st.Phase, end: way.end,
								safety: classify.UserConfirmedRetry, reason: semconv.RetryReasonVisibleOutput,
							}
							if st.TextChunks == 0 {
								want.safety, want.reason = classify.SafeAutoRetry, safeReason(st)
							}
						}
					}
					facts, _ := run.run.Facts()
					require.Len(t, facts.Requests, 1)
					checkCut(t, way, want, run.Diagnosis(), &facts.Requests[0])
					if facts.Requests[0].Transport.Cause.String() == c.cause.String() {
						assert.Equal(t, c.code, facts.Requests[0].Transport.Code)
					}
					if t.Failed() {
						t.Fatalf("after event %d", k)
					}
				}
			})
		}
	}
}

func h2Base(tb testing.TB, client *tls.Config) *http.Transport {
	tb.Helper()
	rt := &http.Transport{TLSClientConfig: client, ForceAttemptHTTP2: true, DisableCompression: true}
	tb.Cleanup(rt.CloseIdleConnections)
	return rt
}
