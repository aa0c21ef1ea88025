package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// memory is a RoundTripper that responds at once with a body from memory.
type memory struct {
	header http.Header
	open   func() io.Reader
}

func (m *memory) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: m.header, Body: io.NopCloser(m.open()), ContentLength: -1, Request: req,
	}, nil
}

// answers returns a memory that responds with data, in Reads as large as the reader's
// buffer.
func answers(contentType string, data []byte) *memory {
	return &memory{header: http.Header{"Content-Type": {contentType}}, open: func() io.Reader { return bytes.NewReader(data) }}
}

// eventwise delivers one event per Read, as a connection does when each event comes in
// a packet of its own. An event that is larger than the reader's buffer comes in
// pieces.
type eventwise struct {
	events [][]byte
	rest   []byte
}

func (r *eventwise) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if len(r.events) == 0 {
			return 0, io.EOF
		}
		r.rest, r.events = r.events[0], r.events[1:]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// message frames one message of an AWS event stream: big-endian total and header
// lengths, their CRC, headers of type string, payload, CRC of the whole message.
func message(event string, payload []byte) []byte {
	var headers []byte
	for _, h := range [...][2]string{{":event-type", event}, {":content-type", "application/json"}, {":message-type", "event"}} {
		headers = append(headers, byte(len(h[0])))
		headers = append(headers, h[0]...)
		headers = append(headers, 7)
		headers = binary.BigEndian.AppendUint16(headers, uint16(len(h[1])))
		headers = append(headers, h[1]...)
	}
	const overhead = 16
	out := binary.BigEndian.AppendUint32(nil, uint32(overhead+len(headers)+len(payload)))
	out = binary.BigEndian.AppendUint32(out, uint32(len(headers)))
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
	out = append(append(out, headers...), payload...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}

// nowhere is a span processor that drops all spans.
type nowhere struct{}

func (nowhere) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (nowhere) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (nowhere) Shutdown(context.Context) error                  { return nil }
func (nowhere) ForceFlush(context.Context) error                { return nil }

// sdk returns a provider that records complete spans and keeps none of them.
func sdk(opts ...sdktrace.TracerProviderOption) *sdktrace.TracerProvider {
	return sdktrace.NewTracerProvider(append(opts, sdktrace.WithSpanProcessor(nowhere{}))...)
}

// post returns a request of this wire protocol with GetBody set, as SDKs make them.
func (w *wire) post(ctx context.Context, tb testing.TB, body []byte) *http.Request {
	tb.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	require.NoError(tb, err)
	req.Header.Set("Content-Type", "application/json")
	return req
}

// send sends req and returns the response, which memory provides at once.
func send(tb testing.TB, rt http.RoundTripper, req *http.Request) *http.Response {
	tb.Helper()
	resp, err := rt.RoundTrip(req)
	require.NoError(tb, err)
	return resp
}
