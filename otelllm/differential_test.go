package otelllm

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/internal/sample"
)

// wireStream is a complete answer of one of the wire protocols.
type wireStream struct {
	name, path, request, contentType string
	events                           []string
}

func (w wireStream) text() string { return strings.Join(w.events, "") }

// wireStreams returns answers of every wire protocol in every framing.
func wireStreams() (all []wireStream) {
	const sse = "text/event-stream"
	for _, s := range ownStreams() {
		all = append(all, wireStream{s.name, s.path, bodyFor(s.path), sse, s.events})
	}
	const (
		contents = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
		gemini1  = `{"candidates":[{"index":0,"content":{"parts":[{"text":"a"},{"functionCall":{"name":"read_file","args":{"p":1}}}]}}]}`
		gemini2  = `{"candidates":[{"index":0,"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2}}`
	)
	return append(all,
		wireStream{"gemini", "/v1beta/models/gemini-x:streamGenerateContent", contents, sse, []string{"data: " + gemini1 + "\r\n\r\n", "data: " + gemini2 + "\r\n\r\n"}},
		wireStream{"gemini array", "/v1beta/models/gemini-x:streamGenerateContent", contents, "application/json", []string{"[" + gemini1, ",\r\n" + gemini2, "]"}},
		wireStream{"bedrock", "/model/anthropic.claude-x/converse-stream", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, "application/vnd.amazon.eventstream", []string{
			awsMessage("messageStart", `{"role":"assistant"}`), awsMessage("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"a"}}`),
			awsMessage("contentBlockStop", `{"contentBlockIndex":0}`), awsMessage("messageStop", `{"stopReason":"end_turn"}`), awsMessage("metadata", `{"usage":{"inputTokens":3,"outputTokens":2}}`),
		}},
		wireStream{"ollama", "/api/chat", `{"model":"llama-x","messages":[{"role":"user","content":"hi"}]}`, "application/x-ndjson", []string{
			"{\"model\":\"llama-x\",\"message\":{\"role\":\"assistant\",\"content\":\"a\"},\"done\":false}\n",
			"{\"model\":\"llama-x\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":3,\"eval_count\":2}\n",
		}},
		wireStream{"chat document", chatPath, `{"model":"gpt-5","messages":[]}`, "application/json", []string{`{"id":"c","model":"gpt-5-x","choices":[{"index":0,"message":{"role":"assistant","content":"a"},`, `"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`}},
		wireStream{"messages document", messagesPath, `{"model":"claude-x","messages":[]}`, "application/json", []string{`{"type":"message","id":"m","model":"claude-x","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn",`, `"usage":{"input_tokens":3,"output_tokens":4}}`}},
		wireStream{"responses document", responsesPath, `{"model":"gpt-5","input":"x"}`, "application/json", []string{`{"id":"resp_1","object":"response","status":"completed","model":"gpt-5-x","output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}],`, `"usage":{"input_tokens":3,"output_tokens":4}}`}},
	)
}

// pieces is a body that returns one piece per Read, and then the error end.
type pieces struct {
	left []string
	end  error
	// with: the error comes together with the last piece, which io.Reader allows.
	with bool
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, p.end
	}
	n := copy(b, p.left[0])
	if p.left[0] = p.left[0][n:]; p.left[0] == "" {
		p.left = p.left[1:]
	}
	if p.with && len(p.left) == 0 {
		return n, p.end
	}
	return n, nil
}

func (*pieces) Close() error { return nil }

// readsOf reads a body to its end and beyond, with buffers of various sizes.
func readsOf(body io.Reader) (calls []readCall) {
	sizes := []int{512, 1, 0, 4096, 7}
	ended := 0
	for i := 0; ended < 3; i++ {
		b := make([]byte, sizes[i%len(sizes)])
		n, err := body.Read(b)
		calls = append(calls, readCall{len(b), n, string(b[:n]), err})
		if err != nil {
			ended++
		}
	}
	return calls
}

// answering returns a transport that answers every request with this response.
func answering(status int, header http.Header, body io.ReadCloser) roundTripper {
	return func(req *http.Request) (*http.Response, error) {
		if req.Body != nil {
			_, _ = io.Copy(io.Discard, req.Body)
		}
		return &http.Response{StatusCode: status, Header: header, Body: body, Request: req}, nil
	}
}

// readThrough sends a request through a transport and reads the answer.
func readThrough(t *testing.T, rt http.RoundTripper, path, request string) []readCall {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/", strings.NewReader(request))
	require.NoError(t, err)
	req.URL.Path = path
	resp, err := rt.RoundTrip(req)
	require.NoError(t, err)
	assert.Same(t, req, resp.Request)
	calls := readsOf(resp.Body)
	require.NoError(t, resp.Body.Close())
	return calls
}

// TestDifferentialSplits splits every answer at every byte. Every Read of the consumer
// returns what it would return without the transport, and what is recorded does not
// depend on where the network splits.
func TestDifferentialSplits(t *testing.T) {
	for _, w := range wireStreams() {
		t.Run(w.name, func(t *testing.T) {
			r := newRecorder(t)
			text := w.text()
			header := http.Header{"Content-Type": {w.contentType}}
			var whole map[string]any
			for k := 0; k <= len(text); k += sample.Every(7) {
				split := func() *pieces {
					return &pieces{left: slices.DeleteFunc([]string{text[:k], text[k:]}, func(s string) bool { return s == "" }), end: io.EOF}
				}
				got := readThrough(t, requestTransport(answering(http.StatusOK, header, split()), WithTracerProvider(r)), w.path, w.request)
				if !assert.Equal(t, readsOf(split()), got, "split at %d", k) {
					return
				}
				attrs := facts(t, r.only(t))
				r.spans.Reset()
				if k == 0 {
					whole = attrs
					assert.Equal(t, "terminal_event", whole["llm.stream.end"])
				}
				if !assert.Equal(t, whole, attrs, "split at %d", k) {
					return
				}
			}
		})
	}
}

// TestDifferential answers with anything that may come: bytes of one protocol under the
// path, the status and the content type of another, and ends and errors of every kind.
func TestDifferential(t *testing.T) {
	streams := wireStreams()
	bodies := map[string][]string{
		"nothing": nil, "one byte": {"x"}, "nonsense": {"\x00\xff\xfe", "\n\n", "data:"}, "page": {"<html>", "</html>"},
		"deep": {strings.Repeat("[", 5000)}, "endless event": {"data: ", strings.Repeat("a", 50000), "\n\n"}, "only newlines": {strings.Repeat("\r\n", 500)},
		"truncated length": {"\x7f\xff\xff\xff\x00\x00\x00\x10"}, "error": {`{"error":{"message":"x","code":429}}`}, "null": {"null"},
	}
	for _, w := range streams {
		bodies[w.name] = w.events
		bodies[w.name+", cut"] = []string{w.text()[:len(w.text())*2/3]}
	}
	own := errors.New("own")
	ends := map[string]error{"EOF": io.EOF, "cut": io.ErrUnexpectedEOF, "own": own}
	types := []string{"text/event-stream; charset=utf-8", "application/json", "application/x-ndjson", "application/vnd.amazon.eventstream", "text/html", "", ";;;"}
	paths := map[string]wireStream{}
	for _, w := range streams {
		paths[w.path+w.request] = w
	}
	r := newRecorder(t)
	n := 0
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		w := paths[path]
		for i, name := range slices.Sorted(maps.Keys(bodies)) {
			for end, err := range ends {
				for j, status := range []int{http.StatusOK, http.StatusAccepted, http.StatusFound, http.StatusBadRequest, http.StatusTooManyRequests, 529} {
					if n++; n%sample.Every(5) != 0 {
						continue
					}
					header := http.Header{"Content-Type": {types[(i+j)%len(types)]}}
					fresh := func() *pieces { return &pieces{left: slices.Clone(bodies[name]), end: err, with: j%2 == 0} }
					want := readsOf(fresh())
					got := readThrough(t, requestTransport(answering(status, header, fresh()), WithTracerProvider(r), WithVerdicts(), WithWatchdog(Watchdog{Idle: time.Hour})), w.path, w.request)
					if !assert.Equal(t, want, got, "%s as %s %d %v %s", name, w.name, status, header, end) {
						return
					}
					// Stream errors change the error at the end, and nothing else.
					got = readThrough(t, requestTransport(answering(status, header, fresh()), WithTracerProvider(r), WithStreamErrors()), w.path, w.request)
					for k := range got {
						if broken := (*StreamError)(nil); errors.As(got[k].err, &broken) {
							final := want[k].err
							if final == io.EOF { //nolint:errorlint // bodies return it bare
								final = io.ErrUnexpectedEOF
							}
							require.ErrorIs(t, got[k].err, final)
							got[k].err = want[k].err
						}
					}
					if !assert.Equal(t, want, got, "%s as %s %d %v %s, with stream errors", name, w.name, status, header, end) {
						return
					}
				}
			}
		}
		for _, s := range r.spans.Ended() {
			assert.NotNil(t, span{s}.get("llm.stream.phase"))
		}
		r.spans.Reset()
	}
}

// TestDifferentialOverTheWire reads the answers of every protocol from real servers over
// both HTTP versions, trailers included, with and without the transport.
func TestDifferentialOverTheWire(t *testing.T) {
	type answer struct {
		status           int
		header, trailers http.Header
		body             string
		failed           bool
	}
	for i, w := range wireStreams() {
		t.Run(w.name, func(t *testing.T) {
			trailers := http.Header{"X-Undeclared": {"2"}} // an undeclared trailer appears only at the end
			overHTTP(t, func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", w.contentType)
				if i%2 == 0 {
					rw.Header().Set("Trailer", "X-Declared")
				}
				rw.Header()["Date"] = nil
				for _, e := range w.events {
					_, _ = io.WriteString(rw, e)
					_ = http.NewResponseController(rw).Flush()
				}
				if i%2 == 0 {
					rw.Header().Set("X-Declared", "1")
				}
				rw.Header().Set(http.TrailerPrefix+"X-Undeclared", "2")
			}, func(t *testing.T, b *http.Transport, url string) {
				read := func(rt http.RoundTripper) answer {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+w.path, strings.NewReader(w.request))
					require.NoError(t, err)
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err)
					defer resp.Body.Close()
					body, err := io.ReadAll(resp.Body)
					return answer{resp.StatusCode, resp.Header, resp.Trailer, string(body), err != nil}
				}
				r := newRecorder(t)
				bare := read(b)
				assert.Equal(t, bare, read(requestTransport(b, WithTracerProvider(r), WithStreamErrors(), WithWatchdog(Watchdog{Total: time.Hour}))))
				assert.Equal(t, w.text(), bare.body)
				if i%2 == 0 {
					trailers.Set("X-Declared", "1")
				}
				assert.Equal(t, trailers, bare.trailers)
				assert.Equal(t, "terminal_event", r.only(t).get("llm.stream.end"))
			})
		})
	}
}
