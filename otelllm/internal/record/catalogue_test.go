package record

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue/source"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts/spanread"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// TestEveryEntryIsReached reads a body of every entry of the catalogue as a response has it, and
// requires that this entry decides.
func TestEveryEntryIsReached(t *testing.T) {
	entries, _, err := source.Load(filepath.Join("..", "catalogue"))
	require.NoError(t, err)
	require.Greater(t, len(entries), 300)
	providers := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		providers[e.Provider] = true
		if e.StatusCode() != 0 && !(e.Status == 0 && e.InBand) {
			t.Run(e.ID, func(t *testing.T) { entryUnderStatus(t, e) })
		}
		if e.InBand || e.Status == 0 {
			t.Run(e.ID+" in a stream", func(t *testing.T) { entryInStream(t, e) })
		}
	}
	assert.Greater(t, len(providers), 25)
}

// entryUnderStatus reads the body of an error response.
func entryUnderStatus(t *testing.T, e *source.Entry) {
	asked := askedOf(e)
	header := http.Header{}
	for name, value := range e.Headers {
		header.Set(name, value)
	}
	for _, name := range [...]string{"openai_chat", "anthropic_messages", "openai_responses", "gemini"} {
		resp := response{protocol: protocolNamed(t, name), errorResponse: &errorResponse{header: header, body: []byte(e.Body())}}
		f := spanfacts.Request{}
		f.Status = e.StatusCode()
		resp.readError(&f, asked)
		read := wire.CompleteError(resp.protocol.ReadError(f.Status, resp.errorResponse.body), header.Get)
		assertReached(t, e, decided(asked, f.Status, &read), &f)
		assert.Equal(t, e.Intermediary || catalogue.IntermediaryType(read.Type), f.Provider.Intermediary, "something in front of the provider")
	}
}

// entryInStream reads the body as an event of a stream and as a document of the protocols that
// may have it.
func entryInStream(t *testing.T, e *source.Entry) {
	asked := askedOf(e)
	reached := false
	for _, name := range [...]string{
		"openai_chat", "openai_responses", "anthropic_messages", "gemini", "ollama", "cohere_chat", "bedrock_converse", "gemini_interactions",
	} {
		for _, form := range [...]struct{ media, before, after string }{
			{"text/event-stream", "data: ", "\n\n"}, {"text/event-stream", "", "\n\n"}, {"application/json", "", ""},
		} {
			d := protocolNamed(t, name).NewDecoder(form.media)
			d.Write([]byte(form.before + e.Body() + form.after))
			d.Close()
			if d.State().Err == nil {
				continue
			}
			if v := decided(asked, http.StatusOK, d.State().Err); v.Key == e.Key() {
				f := spanfacts.Request{}
				applyError(&f, asked, http.StatusOK, d.State().Err)
				assertReached(t, e, v, &f)
				reached = true
			}
			d.Release()
		}
	}
	assert.True(t, reached, "%s: no protocol reads it in %s", e.Key(), e.Body())
}

func decided(asked catalogue.Request, status int, e *wire.Error) catalogue.Verdict {
	return applyError(&spanfacts.Request{}, asked, status, e)
}

// askedOf returns the request that an entry's error depends on.
func askedOf(e *source.Entry) catalogue.Request {
	return catalogue.Request{Host: e.Host, BrokenInput: e.BrokenInput}
}

func assertReached(t *testing.T, e *source.Entry, v catalogue.Verdict, f *spanfacts.Request) {
	t.Helper()
	assert.Equal(t, e.Key(), v.Key, e.Body())
	assert.Equal(t, e.ProviderErrorKind().String(), f.Provider.Kind.String(), e.Body())
	history, _ := semconv.ParseProviderErrorHistory(e.History)
	assert.Equal(t, history, f.Provider.History)
	if e.Wait == "message" && e.Passes { // elsewhere it may be a moment, which has passed
		assert.Greater(t, f.RetryAfter, time.Duration(0), "the wait in %s", e.Body())
	}
}

func protocolNamed(t *testing.T, name string) wire.Protocol {
	t.Helper()
	p, ok := wire.ByName(name)
	require.True(t, ok, name)
	return p
}

// TestHeadersOfErrors: what only the headers say, with the verdict that they lead to.
func TestHeadersOfErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		header map[string]string
		body   string
		kind   string
		front  bool
		origin string
	}{
		{"advised against", 429, map[string]string{"X-Should-Retry": "false"}, `{"error":{"message":"x"}}`, "quota_exhausted", false, "provider"},
		{"a failure of the server, advised against", 500, map[string]string{"X-Should-Retry": "false"}, `{"error":{"message":"x"}}`, "server_error", false, "provider"},
		{"advised for", 409, map[string]string{"X-Should-Retry": "true"}, `{"error":{"message":"x"}}`, "rate_limited", false, "provider"},
		{"advised for what never passes", 401, map[string]string{"X-Should-Retry": "true"}, `{"error":{"message":"x"}}`, "authentication", false, "provider"},
		{"a code outweighs the advice", 400, map[string]string{"X-Should-Retry": "true"}, `{"error":{"code":"context_length_exceeded"}}`, "context_length_exceeded", false, "provider"},
		{"a challenge", 429, map[string]string{"Cf-Mitigated": "challenge", "Content-Type": "text/html"}, "<html>", "permission", true, "gateway"},
		{"a CDN's timeout", 524, map[string]string{"Server": "cloudflare"}, "", "timeout", true, "gateway"},
		{"a CDN's page", 520, map[string]string{"Server": "cloudflare", "Content-Type": "text/html"}, "<!DOCTYPE html>", "server_error", true, "gateway"},
		{"a proxy's password", 407, nil, "", "authentication", true, "gateway"},
		{"the provider behind a CDN", 529, map[string]string{"Server": "cloudflare", "Cf-Ray": "1"}, `{"type":"error","error":{"type":"overloaded_error"}}`, "overloaded", false, "provider"},
		{"the provider's 524", 524, nil, `{"error":{"code":524,"message":"x"}}`, "timeout", false, "provider"},
	} {
		h := http.Header{}
		for name, value := range tt.header {
			h.Set(name, value)
		}
		f := spanfacts.Request{}
		f.Status, f.Ended, f.Phase, f.Failed = tt.status, semconv.StreamEndHTTPError, semconv.PhaseResponseStarted, classify.Yes
		resp := response{protocol: protocolNamed(t, "anthropic_messages"), errorResponse: &errorResponse{header: h, body: []byte(tt.body)}}
		resp.readError(&f, catalogue.Request{})
		assert.Equal(t, tt.kind, f.Provider.Kind.String(), tt.name)
		assert.Equal(t, tt.front, f.Provider.Intermediary, tt.name)
		live := classify.Judge(&classify.Run{Requests: []classify.Request{f.Request}}).Requests[0]
		assert.Equal(t, tt.origin, live.Origin.String(), tt.name)

		// The same facts, read back from a span.
		read := spanread.Request(&spanread.Span{Attributes: f.Append(nil), Error: true})
		assert.Equal(t, f.Provider, read.Provider, tt.name)
	}
}
