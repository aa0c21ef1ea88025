package faultyllm_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/test/faultyllm"
)

// decompress returns a reader of a body, and does not read from it before it has to.
func decompress(t *testing.T, e faultyllm.Encoding, body io.Reader) io.Reader {
	t.Helper()
	switch e {
	case faultyllm.Gzip:
		r, err := gzip.NewReader(body)
		require.NoError(t, err)
		return r
	case faultyllm.Brotli:
		return brotli.NewReader(body)
	case faultyllm.Zstd:
		r, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1))
		require.NoError(t, err)
		return r
	default:
		return body
	}
}

// accepting sends a request that accepts these encodings, and returns the response as it came.
func accepting(ctx context.Context, t *testing.T, baseURL, accept string, stream bool) *http.Response {
	t.Helper()
	body := `{"model":"m","stream":false}`
	if stream {
		body = `{"model":"m","stream":true}`
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, baseURL+path(faultyllm.Chat, stream), strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Accept-Encoding", accept) // with one of its own, Go's client leaves the body alone
	resp, err := client(t).Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestCompressedAnswers(t *testing.T) {
	srv := start(t)
	const key = "c" // the ids in the body are derived from it
	for _, stream := range []bool{true, false} {
		srv.Play(key, faultyllm.Answer(script...))
		plain, err := io.ReadAll(accepting(t.Context(), t, srv.BaseURL(key, faultyllm.Chat), "", stream).Body)
		require.NoError(t, err)
		for _, e := range faultyllm.Encodings() {
			for _, framing := range []faultyllm.Framing{faultyllm.Natural, faultyllm.ContentLength, faultyllm.CloseDelimited} {
				srv.Play(key, faultyllm.Answer(script...).Compressed(e).Framed(framing))
				resp := accepting(t.Context(), t, srv.BaseURL(key, faultyllm.Chat), string(e), stream)
				assert.Equal(t, string(e), resp.Header.Get("Content-Encoding"))
				got, err := io.ReadAll(decompress(t, e, resp.Body))
				require.NoError(t, err, "%s", e)
				assert.Equal(t, string(plain), string(got), "%s", e)
				_, err = io.ReadAll(resp.Body)
				require.NoError(t, err, "%s", e)
				records, err := srv.Records(key)
				require.NoError(t, err)
				assert.Equal(t, e, records[0].Encoding)
				assert.Equal(t, len(plain), records[0].Sent.Bytes)
			}
		}
	}
}

// A client that accepts no encoding on offer gets the answer as it is.
func TestAcceptedEncodings(t *testing.T) {
	srv := start(t)
	for accept, want := range map[string]string{
		"":                                  "",
		"identity":                          "",
		"deflate":                           "",
		"gzip":                              "gzip",
		"gzip, deflate, br, zstd":           "zstd",
		"gzip, deflate, br;q=0.5, zstd;q=0": "br",
		"GZIP ; q=0.1":                      "gzip",
		"*":                                 "zstd",
		"*, zstd;q=0.0":                     "br",
		"*;q=0":                             "",
	} {
		srv.Play("c", faultyllm.Answer(script...).Compressed(faultyllm.Encodings()...))
		resp := accepting(t.Context(), t, srv.BaseURL("c", faultyllm.Chat), accept, true)
		assert.Equal(t, want, resp.Header.Get("Content-Encoding"), "%q", accept)
	}
	srv.Play("c", faultyllm.Answer(script...).CompressedAnyway(faultyllm.Gzip))
	resp := accepting(t.Context(), t, srv.BaseURL("c", faultyllm.Chat), "identity", true)
	assert.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
}

// What has been sent can be read before more comes, and a fault takes effect after it.
func TestCompressedAnswersBreak(t *testing.T) {
	srv := start(t)
	for _, tc := range []struct {
		fault faultyllm.Step
		http  error // of the body
		whole bool  // the encoding has ended
	}{
		{faultyllm.Reset(), syscall.ECONNRESET, false},
		{faultyllm.Truncate(), io.ErrUnexpectedEOF, false},
		{faultyllm.CutEncoding(), nil, false},
		{faultyllm.CleanEnd(), nil, true},
	} {
		for _, e := range faultyllm.Encodings() {
			steps := []faultyllm.Step{faultyllm.Text("one", "two"), tc.fault, faultyllm.Text("three")}
			srv.Play("c", faultyllm.Answer(steps...).Compressed(e))
			resp := accepting(t.Context(), t, srv.BaseURL("c", faultyllm.Chat), string(e), true)
			sent := &bytes.Buffer{}
			_, err := io.Copy(sent, resp.Body)
			if tc.http == nil {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, tc.http)
			}
			got, err := io.ReadAll(decompress(t, e, sent))
			assert.Equal(t, tc.whole, err == nil, "%s: %v", e, err)
			assert.Contains(t, string(got), `"two"`, "%s", e)
			assert.NotContains(t, string(got), `"three"`, "%s", e)
			records, err := srv.Records("c")
			require.NoError(t, err)
			assert.Equal(t, len(got), records[0].Sent.Bytes, "%s", e)
			assert.Equal(t, 2, records[0].Sent.TextChunks, "%s", e)
		}
	}
}

func TestEventsAreFlushedInTheEncoding(t *testing.T) {
	srv := start(t)
	for _, e := range faultyllm.Encodings() {
		srv.Play("c", faultyllm.Answer(faultyllm.Text("so"), faultyllm.Stall()).Compressed(e))
		ctx, cancel := context.WithCancel(t.Context())
		resp := accepting(ctx, t, srv.BaseURL("c", faultyllm.Chat), string(e), true)
		plain := decompress(t, e, resp.Body)
		var got []byte
		for buf := make([]byte, 4096); !bytes.Contains(got, []byte(`"so"`)); {
			n, err := plain.Read(buf)
			require.NoError(t, err)
			got = append(got, buf[:n]...)
		}
		cancel()
		_, err := io.Copy(io.Discard, resp.Body)
		require.ErrorIs(t, err, context.Canceled)
	}
}

func TestCompressedErrors(t *testing.T) {
	srv := start(t)
	srv.Play("c", faultyllm.Refuse(faultyllm.Failure{Trouble: faultyllm.Overloaded}).Compressed(faultyllm.Brotli))
	resp := accepting(t.Context(), t, srv.BaseURL("c", faultyllm.Chat), "br", true)
	got, err := io.ReadAll(brotli.NewReader(resp.Body))
	require.NoError(t, err)
	assert.Contains(t, string(got), "server_is_overloaded")
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
}
