package faultyllm_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/test/faultyllm"
)

var wires = append(faultyllm.Wires(), faultyllm.Gemini, faultyllm.Vertex)

func path(w faultyllm.Wire, stream bool) string {
	switch {
	case w == faultyllm.Chat:
		return "chat/completions"
	case w == faultyllm.Responses:
		return "responses"
	case w == faultyllm.Anthropic:
		return "v1/messages"
	}
	resource, method := "v1beta/models/m", ":generateContent"
	if w == faultyllm.Vertex {
		resource = "v1beta1/projects/p/locations/l/publishers/google/models/m"
	}
	if stream {
		method = ":streamGenerateContent?alt=sse"
	}
	return resource + method
}

// events counts the events of a stream by their terminators.
func events(w faultyllm.Wire, stream []byte) int {
	end := "\n\n"
	if w == faultyllm.Gemini || w == faultyllm.Vertex {
		end = "\r\n\r\n"
	}
	return bytes.Count(stream, []byte(end))
}

// post sends a request as an SDK would, without an SDK.
func post(ctx context.Context, t *testing.T, hc *http.Client, baseURL string, w faultyllm.Wire, stream bool) (*http.Response, error) {
	t.Helper()
	body := fmt.Sprintf(`{"model":"m","stream":%t}`, stream)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, baseURL+path(w, stream), strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	return hc.Do(req)
}

var script = []faultyllm.Step{
	faultyllm.Reasoning("Let me think."), faultyllm.Text("I will ", "apply it."),
	faultyllm.ToolCall("call_1", "apply_patch", `{"path":`, `"main.go"}`),
	faultyllm.Finish(faultyllm.ToolCalls),
}

func TestFaults(t *testing.T) {
	reset := func(t *testing.T, err error) { t.Helper(); require.ErrorIs(t, err, syscall.ECONNRESET) }
	truncated := func(t *testing.T, err error) { t.Helper(); require.ErrorIs(t, err, io.ErrUnexpectedEOF) }
	clean := func(t *testing.T, err error) { t.Helper(); require.NoError(t, err) } // ReadAll returns nil for EOF
	for _, tc := range []struct {
		name    string
		fault   faultyllm.Step
		framing faultyllm.Framing
		want    func(*testing.T, error)
		ending  faultyllm.Ending
	}{
		{"reset", faultyllm.Reset(), faultyllm.Natural, reset, faultyllm.EndedReset},
		{"reset, close delimited", faultyllm.Reset(), faultyllm.CloseDelimited, reset, faultyllm.EndedReset},
		{"truncated chunks", faultyllm.Truncate(), faultyllm.Natural, truncated, faultyllm.EndedTruncated},
		{"truncated length", faultyllm.Truncate(), faultyllm.ContentLength, truncated, faultyllm.EndedTruncated},
		{"clean end", faultyllm.CleanEnd(), faultyllm.Natural, clean, faultyllm.EndedEarly},
		{"clean end, close delimited", faultyllm.CleanEnd(), faultyllm.CloseDelimited, clean, faultyllm.EndedEarly},
	} {
		for _, w := range wires {
			t.Run(tc.name+"/"+w.String(), func(t *testing.T) {
				srv := start(t)
				whole := streamed(t, srv, "whole", w, faultyllm.Answer(script...))
				all := faultyllm.Answer(script...).Events(w)
				require.Equal(t, all, events(w, whole))
				for n := range all {
					const key = "whole" // the ids in the body are derived from it
					srv.Play(key, faultyllm.Answer(script...).CutAfter(n, tc.fault).Framed(tc.framing))
					resp, err := post(t.Context(), t, client(t), srv.BaseURL(key, w), w, true)
					require.NoError(t, err)
					got, err := io.ReadAll(resp.Body)
					tc.want(t, err)
					require.NoError(t, resp.Body.Close())
					require.True(t, bytes.HasPrefix(whole, got), "cut after %d: not a prefix of the whole", n)
					require.Equal(t, n, events(w, got))

					records, err := srv.Records(key)
					require.NoError(t, err)
					require.Len(t, records, 1)
					assert.Equal(t, tc.ending, records[0].Ending)
					assert.Equal(t, len(got), records[0].Sent.Bytes)
					assert.Equal(t, n, records[0].Sent.Events+records[0].Sent.Keepalives)
				}
			})
		}
	}
}

// streamed plays one complete exchange and returns the body.
func streamed(t *testing.T, srv *faultyllm.Server, key string, w faultyllm.Wire, e faultyllm.Exchange) []byte {
	t.Helper()
	srv.Play(key, e)
	resp, err := post(t.Context(), t, client(t), srv.BaseURL(key, w), w, true)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return body
}

func TestADocumentBreaksInItsMiddle(t *testing.T) {
	srv := start(t)
	for _, w := range wires {
		srv.Play("c", faultyllm.Answer(faultyllm.Text("a long answer"), faultyllm.Truncate(), faultyllm.Finish(faultyllm.Stop)))
		resp, err := post(t.Context(), t, client(t), srv.BaseURL("c", w), w, false)
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, resp.ContentLength/2, int64(len(got)))
	}
}

func TestNothingComesBeforeTheHeaders(t *testing.T) {
	srv := start(t)
	for _, tc := range []struct {
		fault faultyllm.Step
		want  error
	}{{faultyllm.Reset(), syscall.ECONNRESET}, {faultyllm.Truncate(), io.EOF}, {faultyllm.CleanEnd(), io.EOF}} {
		srv.Play("c", faultyllm.BeforeHeaders(tc.fault))
		resp, err := post(t.Context(), t, client(t), srv.BaseURL("c", faultyllm.Chat), faultyllm.Chat, true)
		require.ErrorIs(t, err, tc.want)
		require.Nil(t, resp)
		records, err := srv.Records("c")
		require.NoError(t, err)
		assert.Zero(t, records[0].Status)
	}
}

func TestAStallLastsUntilTheClientGoes(t *testing.T) {
	srv := start(t)
	srv.Play("c", faultyllm.Answer(faultyllm.Text("so"), faultyllm.Stall(), faultyllm.Text("never")))
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := post(ctx, t, client(t), srv.BaseURL("c", faultyllm.Anthropic), faultyllm.Anthropic, true)
	require.NoError(t, err)
	buf := make([]byte, 4096)
	var got []byte
	for !bytes.Contains(got, []byte(`"so"`)) {
		n, err := resp.Body.Read(buf)
		require.NoError(t, err)
		got = append(got, buf[:n]...)
	}
	cancel()
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, resp.Body.Close())
	records, err := srv.Records("c")
	require.NoError(t, err)
	assert.Equal(t, faultyllm.EndedByClient, records[0].Ending)
	assert.Equal(t, 1, records[0].Sent.TextChunks)
}

func TestClosingEndsAStall(t *testing.T) {
	srv, err := faultyllm.Start()
	require.NoError(t, err)
	srv.Play("c", faultyllm.BeforeHeaders(faultyllm.Stall()))
	failed := make(chan error, 1)
	hc := client(t)
	go func() {
		_, err := ask(t.Context(), faultyllm.Chat, srv.BaseURL("c", faultyllm.Chat), hc, true, 0)
		failed <- err
	}()
	require.Eventually(t, func() bool { // the request has arrived
		return srv.Started("c") == 1
	}, 5*time.Second, time.Millisecond)
	require.NoError(t, srv.Close())
	require.Error(t, <-failed)
}

func TestCasesDoNotDisturbEachOther(t *testing.T) {
	srv := start(t)
	var all sync.WaitGroup
	for i := range 20 {
		key := fmt.Sprint("case-", i)
		srv.Play(key,
			faultyllm.Answer(faultyllm.Text(key+" first"), faultyllm.Finish(faultyllm.Stop)),
			faultyllm.Answer(faultyllm.Text(key+" second"), faultyllm.Finish(faultyllm.Stop)))
		hc := client(t)
		all.Go(func() {
			for _, word := range []string{" first", " second"} {
				got, err := ask(t.Context(), faultyllm.Responses, srv.BaseURL(key, faultyllm.Responses), hc, true, 0)
				if err != nil || got.text != key+word {
					t.Errorf("%s: %q, %v", key+word, got.text, err)
				}
			}
		})
	}
	all.Wait()
}

func TestRequestBeyondTheScriptIsAnError(t *testing.T) {
	srv := start(t)
	srv.Play("c", faultyllm.Answer(faultyllm.Text("one"), faultyllm.Finish(faultyllm.Stop)))
	for range 2 {
		resp, err := post(t.Context(), t, client(t), srv.BaseURL("c", faultyllm.Chat), faultyllm.Chat, true)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	records, err := srv.Records("c")
	require.ErrorContains(t, err, `case "c": 2 requests, but only 1 exchanges are scripted`)
	assert.Len(t, records, 1)
	_, err = srv.Records("d")
	require.ErrorContains(t, err, `no case "d"`)
}

func TestTheSameScriptGivesTheSameBytes(t *testing.T) {
	for _, w := range wires {
		first := streamed(t, start(t), "c", w, faultyllm.Answer(script...))
		again := streamed(t, start(t), "c", w, faultyllm.Answer(script...))
		assert.Equal(t, string(first), string(again))
	}
}

func TestPortsThatCannotBeReached(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		p, err := faultyllm.RefusingPort()
		require.NoError(t, err)
		defer p.Close()
		for range 3 {
			_, err = net.Dial("tcp", p.Addr())
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
		}
	})
	t.Run("untrusted certificate", func(t *testing.T) {
		p, err := faultyllm.UntrustedTLS()
		require.NoError(t, err)
		defer p.Close()
		_, err = post(t.Context(), t, client(t), p.BaseURL("https", faultyllm.Chat), faultyllm.Chat, true)
		var unverified *tls.CertificateVerificationError
		require.ErrorAs(t, err, &unverified)
		var unknown x509.UnknownAuthorityError
		require.ErrorAs(t, err, &unknown)
	})
	t.Run("no TLS", func(t *testing.T) {
		p, err := faultyllm.GarbageTLS()
		require.NoError(t, err)
		defer p.Close()
		_, err = post(t.Context(), t, client(t), p.BaseURL("https", faultyllm.Chat), faultyllm.Chat, true)
		var header tls.RecordHeaderError
		require.ErrorAs(t, err, &header)
	})
	t.Run("names", func(t *testing.T) {
		d, err := faultyllm.StartDNS()
		require.NoError(t, err)
		defer d.Close()
		for host, want := range map[string]func(*net.DNSError) bool{
			faultyllm.UnknownHost:  func(e *net.DNSError) bool { return e.IsNotFound },
			faultyllm.TroubledHost: func(e *net.DNSError) bool { return e.IsTemporary && !e.IsNotFound },
		} {
			_, err := d.Resolver().LookupHost(t.Context(), host)
			var e *net.DNSError
			require.ErrorAs(t, err, &e)
			assert.True(t, want(e), "%s: %+v", host, e)
		}
	})
}

func TestBodiesWithoutProtocol(t *testing.T) {
	srv := start(t)
	srv.Play("c", faultyllm.HTMLPage().With("X-Proxy", "portal"), faultyllm.Body("application/json", []byte("{not json")))
	resp, err := post(t.Context(), t, client(t), srv.BaseURL("c", faultyllm.Chat), faultyllm.Chat, true)
	require.NoError(t, err)
	page, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
	assert.Equal(t, "portal", resp.Header.Get("X-Proxy"))
	assert.Contains(t, string(page), "<html>")

	resp, err = post(t.Context(), t, client(t), srv.BaseURL("c", faultyllm.Chat), faultyllm.Chat, false)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "{not json", string(body))
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	srv := start(t)
	srv.Play("c", faultyllm.Answer(faultyllm.Finish(faultyllm.Stop)))
	for _, tc := range []struct{ path, body, want string }{
		{"v1/responses", "{", "the request body is not JSON"},
		{"v1beta/models/m:generateContent", "[", "the request body is not JSON"},
		{"v1beta/models/m:streamGenerateContent", "{}", "served with alt=sse only"},
	} {
		resp, err := http.Post("http://"+srv.Addr()+"/case/c/"+tc.path, "application/json", strings.NewReader(tc.body))
		require.NoError(t, err)
		said, err := io.ReadAll(resp.Body)
		require.NoError(t, errors.Join(err, resp.Body.Close()))
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Contains(t, string(said), tc.want)
	}
	assert.Zero(t, srv.Started("c"), "no exchange of the script was played")
}

func TestOtherPathsAreNotFound(t *testing.T) {
	srv := start(t)
	for _, url := range []string{"/", "/case/c/v1/models", "/case//v1/responses", "/v1/responses"} {
		resp, err := http.Post("http://"+srv.Addr()+url, "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		require.NoError(t, errors.Join(resp.Body.Close()))
		assert.Equal(t, http.StatusNotFound, resp.StatusCode, url)
	}
}
