package otelllm

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/internal/sample"
)

// codings are the encodings of answers, by what the header has.
var codings = []struct {
	name, header string
	open         func(io.Writer) flushWriter
}{
	{"gzip", "gzip", func(w io.Writer) flushWriter { return gzip.NewWriter(w) }},
	{"zlib", "deflate", func(w io.Writer) flushWriter { return zlib.NewWriter(w) }},
	{"raw deflate", "deflate", func(w io.Writer) flushWriter { f, _ := flate.NewWriter(w, 6); return f }},
	{"br", "br", func(w io.Writer) flushWriter { return brotli.NewWriter(w) }},
	{"zstd", "zstd", func(w io.Writer) flushWriter { z, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)); return z }},
	{"gzip and br", "gzip, br", func(w io.Writer) flushWriter {
		outer := brotli.NewWriter(w)
		return twice{gzip.NewWriter(outer), outer}
	}},
}

type flushWriter interface {
	io.WriteCloser
	Flush() error
}

type twice struct{ inner, outer flushWriter }

func (w twice) Write(p []byte) (int, error) { return w.inner.Write(p) }
func (w twice) Flush() error                { return errors.Join(w.inner.Flush(), w.outer.Flush()) }
func (w twice) Close() error                { return errors.Join(w.inner.Close(), w.outer.Close()) }

// encodedPieces returns texts as they are sent if each is flushed, and the end of the encoding
// as the last piece.
func encodedPieces(open func(io.Writer) flushWriter, texts ...string) (pieces []string) {
	var b bytes.Buffer
	w := open(&b)
	for _, text := range texts {
		_, _ = io.WriteString(w, text)
		_ = w.Flush()
		pieces = append(pieces, b.String())
		b.Reset()
	}
	_ = w.Close()
	return append(pieces, b.String())
}

// encodedAnswer is an answer as it is sent.
type encodedAnswer struct {
	status   int
	encoding string
	pieces   []string
	end      error // of the body
}

func (a *encodedAnswer) header(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	if a.encoding != "" {
		h.Set("Content-Encoding", a.encoding)
	}
}

// Read returns one piece.
func (a *encodedAnswer) Read(p []byte) (int, error) {
	if len(a.pieces) == 0 {
		return 0, a.end
	}
	n := copy(p, a.pieces[0])
	if a.pieces[0] = a.pieces[0][n:]; a.pieces[0] == "" {
		a.pieces = a.pieces[1:]
	}
	return n, nil
}

// record makes a call that gets the answer, through a transport or a handler, and returns what was
// recorded of it except times and sizes, and what its reader got.
func (a encodedAnswer) record(t *testing.T, served bool, path string) (facts map[string]any, got string, err error) {
	t.Helper()
	a.pieces = slices.Clone(a.pieces)
	r := newRecorder(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+path, strings.NewReader(bodyFor(path)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if served {
		w := httptest.NewRecorder()
		func() {
			defer func() { _ = recover() }()
			NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				a.header(w.Header())
				w.WriteHeader(a.status)
				for _, p := range a.pieces {
					_ = sendEvents(w, p)
				}
				if !errors.Is(a.end, io.EOF) {
					panic(http.ErrAbortHandler)
				}
			}), WithTracerProvider(r), WithoutInferredRuns()).ServeHTTP(w, req)
		}()
		got = w.Body.String()
	} else {
		resp, failed := requestTransport(roundTripper(func(req *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, req.Body)
			h := http.Header{}
			a.header(h)
			return &http.Response{StatusCode: a.status, Header: h, Body: io.NopCloser(&a), ProtoMajor: 1, ProtoMinor: 1}, nil
		}), WithTracerProvider(r)).RoundTrip(req)
		require.NoError(t, failed)
		var body []byte
		body, err = io.ReadAll(resp.Body)
		require.NoError(t, resp.Body.Close())
		got = string(body)
	}
	s := r.only(t)
	facts = map[string]any{"status": s.Status().Code.String(), "events": s.events()}
	for _, kv := range s.Attributes() {
		if _, isTime := kv.Value.AsInterface().(float64); !isTime && kv.Key != "llm.stream.bytes" {
			facts[string(kv.Key)] = kv.Value.AsInterface()
		}
	}
	return facts, got, err
}

// TestEncodedAnswers checks that an answer under every encoding is recorded as the same answer without one is, at
// every event and however it ends, and that the reader gets every byte and the error.
func TestEncodedAnswers(t *testing.T) {
	noLeak(t)
	for _, served := range []bool{false, true} {
		for _, stream := range ownStreams() {
			for n := 0; n <= len(stream.events); n += sample.Every(3) {
				for _, end := range []error{io.EOF, syscall.ECONNRESET} {
					if served && !errors.Is(end, io.EOF) {
						end = http.ErrAbortHandler
					}
					texts := stream.events[:n]
					want, _, _ := encodedAnswer{http.StatusOK, "", texts, end}.record(t, served, stream.path)
					for _, coding := range codings {
						pieces := encodedPieces(coding.open, texts...)
						if !errors.Is(end, io.EOF) {
							pieces = pieces[:n]
						}
						sent := strings.Join(pieces, "")
						facts, got, err := encodedAnswer{http.StatusOK, coding.header, pieces, end}.record(t, served, stream.path)
						if !assert.Equal(t, want, facts, "%s: %d events of %s, then %v, served: %t", coding.name, n, stream.name, end, served) {
							return
						}
						assertSame(t, sent, got)
						if !served && !errors.Is(end, io.EOF) {
							require.ErrorIs(t, err, end)
						}
					}
				}
			}
		}
	}
}

// TestCutWithinEncoding checks that a body whose encoding was cut is recorded as one whose transfer
// was: its reader finds an end that came too early, though the connection ended well.
func TestCutWithinEncoding(t *testing.T) {
	stream := ownStreams()[0]
	for _, coding := range codings {
		for n := 1; n < len(stream.events); n++ {
			texts := stream.events[:n]
			want, _, _ := encodedAnswer{http.StatusOK, "", texts, io.ErrUnexpectedEOF}.record(t, false, stream.path)
			pieces := encodedPieces(coding.open, texts...)[:n]
			facts, _, err := encodedAnswer{http.StatusOK, coding.header, pieces, io.EOF}.record(t, false, stream.path)
			require.NoError(t, err, "it is for the reader to find out")
			assert.Equal(t, want, facts, "%s cut after %d events", coding.name, n)
			assert.Equal(t, "body_truncated", facts["llm.transport.cause"])
		}
		// After the final event nothing is missing that matters.
		pieces := encodedPieces(coding.open, stream.events...)
		facts, _, _ := encodedAnswer{http.StatusOK, coding.header, pieces[:len(stream.events)], io.EOF}.record(t, false, stream.path)
		assert.Equal(t, "terminal_event", facts["llm.stream.end"], coding.name)
		assert.Equal(t, "Unset", facts["status"])
	}
}

// TestEncodedErrors checks that the body of an error response is read under every encoding.
func TestEncodedErrors(t *testing.T) {
	for _, served := range []bool{false, true} {
		for status, body := range map[int]string{
			http.StatusTooManyRequests: `{"error":{"message":"secret","type":"insufficient_quota","code":"insufficient_quota"}}`,
			http.StatusBadRequest:      `{"error":{"message":"secret","code":"context_length_exceeded"}}`,
		} {
			want, _, _ := encodedAnswer{status, "", []string{body}, io.EOF}.record(t, served, chatPath)
			assert.NotNil(t, want["llm.provider_error.code"])
			for _, coding := range codings {
				facts, _, _ := encodedAnswer{status, coding.header, encodedPieces(coding.open, body), io.EOF}.record(t, served, chatPath)
				assert.Equal(t, want, facts, coding.name)
			}
		}
	}
}

// TestNotAsEncoded checks answers that are not encoded as their header says: nothing is claimed of them, and
// [WithStreamErrors] changes nothing. One whose connection breaks is never safe to repeat.
func TestNotAsEncoded(t *testing.T) {
	for _, encoding := range []string{"gzip", "deflate", "br", "zstd", "gzip, br", "compress", "gzip, compress"} {
		for _, text := range []string{"data: {}\n\n", ": ping\n\n", strings.Join(ownStreams()[0].events, ""), `{"choices":[]}`, "<html></html>", "x", "busy"} {
			for _, served := range []bool{false, true} {
				facts, got, err := encodedAnswer{http.StatusOK, encoding, []string{text}, io.EOF}.record(t, served, chatPath)
				require.NoError(t, err)
				assert.Equal(t, text, got)
				assert.Nil(t, facts["llm.stream.end"], "%s: %q", encoding, text)
				assert.Nil(t, facts["error.type"], "%s: %q", encoding, text)
				assert.Equal(t, true, facts["llm.stream.unread"], "%s: %q", encoding, text)
			}
			r := newRecorder(t)
			rt := roundTripper(func(*http.Request) (*http.Response, error) {
				a := &encodedAnswer{http.StatusOK, encoding, []string{text}, syscall.ECONNRESET}
				h := http.Header{}
				a.header(h)
				return &http.Response{StatusCode: a.status, Header: h, Body: io.NopCloser(a)}, nil
			})
			_, err := call(t.Context(), requestTransport(rt, WithTracerProvider(r), WithStreamErrors()), "http://x"+chatPath, chatBody)
			var broken *StreamError
			require.ErrorAs(t, err, &broken)
			assert.Equal(t, "user_confirmed_retry", broken.Diagnosis.Retry.Safety.String(), "%s: %q", encoding, text)

			rt = roundTripper(func(*http.Request) (*http.Response, error) {
				a := &encodedAnswer{http.StatusOK, encoding, []string{text}, io.EOF}
				h := http.Header{}
				a.header(h)
				return &http.Response{StatusCode: a.status, Header: h, Body: io.NopCloser(a)}, nil
			})
			_, err = call(t.Context(), requestTransport(rt, WithTracerProvider(r), WithStreamErrors()), "http://x"+chatPath, chatBody)
			require.NoError(t, err)
		}
	}
}

// TestLostEncodedBody checks that a compressed body which its reader loses leaves no goroutine behind.
func TestLostEncodedBody(t *testing.T) {
	noLeak(t)
	r := newRecorder(t)
	pieces := encodedPieces(codings[0].open, firstText, chatText)
	lose := func() {
		a := &encodedAnswer{http.StatusOK, "gzip", pieces[:1], io.EOF}
		rt := requestTransport(roundTripper(func(*http.Request) (*http.Response, error) {
			h := http.Header{}
			a.header(h)
			return &http.Response{StatusCode: a.status, Header: h, Body: io.NopCloser(a)}, nil
		}), WithTracerProvider(r))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+chatPath, strings.NewReader(chatBody))
		require.NoError(t, err)
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		_, err = resp.Body.Read(make([]byte, 4096))
		require.NoError(t, err)
	}
	lose()
	require.Eventually(t, func() bool {
		runtime.GC()
		return len(r.spans.Ended()) == 1
	}, testTimeout, pollInterval)
	s := r.only(t)
	assert.Equal(t, "abandoned", s.get("llm.stream.end"))
	assert.Equal(t, int64(1), s.get("llm.stream.text_chunks"))
}

// TestResponseBomb checks that a megabyte which decodes to a gigabyte costs bounded time, and is unread.
func TestResponseBomb(t *testing.T) {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 1024 / sample.Every(32) {
		_, _ = w.Write(zeros)
	}
	_ = w.Close()
	for _, prefix := range []string{"", firstText} {
		pieces := []string{string(gzipped(prefix)) + bomb.String()}
		start := time.Now()
		facts, got, err := encodedAnswer{http.StatusOK, "gzip", pieces, io.EOF}.record(t, false, chatPath)
		t.Logf("%d bytes in %v", len(got), time.Since(start))
		require.NoError(t, err)
		assert.Len(t, got, len(string(gzipped(prefix)))+bomb.Len())
		assert.Nil(t, facts["llm.stream.end"])
		assert.Equal(t, true, facts["llm.stream.unread"])
	}
}
