package otelllm

import (
	"cmp"
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// shares counts, by the kind of a failure, how many of those that are truly safe to repeat are
// called safe, and by which reason the others are not.
type shares map[string]*share

type share struct {
	n, safe int
	asked   map[string]int
}

func (s shares) add(kind string, d *classify.Diagnosis) {
	of := s[kind]
	if of == nil {
		of = &share{asked: map[string]int{}}
		s[kind] = of
	}
	if of.n++; d.Retry.Safety == classify.SafeAutoRetry {
		of.safe++
		return
	}
	of.asked[brief(d)]++
}

// badModel is a model whose next answer breaks.
type badModel struct {
	status      int
	contentType string
	header      http.Header
	body        cutBody
	err         error
}

func (m *badModel) RoundTrip(req *http.Request) (*http.Response, error) {
	if m.err != nil {
		return nil, m.err
	}
	h := m.header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Content-Type", m.contentType)
	return &http.Response{StatusCode: m.status, Header: h, Body: &m.body, Request: req}, nil
}

// asks makes one request in a run, whose application executes this many of its calls, and returns
// the verdicts on the request and on the run.
func (m *badModel) asks(tb testing.TB, path, request string, declared bool, executed int) (last, whole classify.Diagnosis) {
	tb.Helper()
	var opts []RunOption
	if declared {
		opts = append(opts, WithToolsRecorded())
	}
	ctx, run := StartRun(tb.Context(), "", opts...)
	defer run.End(nil)
	asked, of := WithLastRequest(ctx)
	req, err := http.NewRequestWithContext(asked, http.MethodPost, "http://x/", strings.NewReader(request))
	if err != nil {
		tb.Fatal(err)
	}
	req.URL.Path = path
	req.Header.Set("User-Agent", checkingClient)
	if resp, err := NewTransport(m).RoundTrip(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	for range executed {
		if declared {
			_, tool := StartTool(context.WithoutCancel(ctx), ToolCall{Name: "f", Effect: EffectNonIdempotent})
			tool.End(nil)
		}
	}
	return of.Diagnosis(), run.Diagnosis()
}

// offers are what requests may offer, by protocol: nothing that the provider executes with an
// effect.
var offers = map[string]map[string]string{
	"chat":      {"functions": `,"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"auto","temperature":0,"stream_options":{"include_usage":true}}`},
	"responses": {"functions": `,"tools":[{"type":"function","name":"f","parameters":{}}],"store":false,"include":["reasoning.encrypted_content"],"reasoning":{"effort":"low"}}`, "a search": `,"tools":[{"type":"web_search"}]}`},
	"messages":  {"functions": `,"tools":[{"name":"f","input_schema":{}}],"system":"x","thinking":{"type":"enabled","budget_tokens":1024}}`, "a search": `,"tools":[{"type":"web_search_20250305","name":"web_search"}]}`},
	"gemini":    {"functions": `,"tools":[{"functionDeclarations":[{"name":"f"}]}],"generationConfig":{"temperature":1}}`, "a search": `,"tools":[{"googleSearch":{}}]}`},
	"bedrock":   {"functions": `,"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{}}}}]},"inferenceConfig":{"maxTokens":99}}`},
	"ollama":    {"functions": `,"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"options":{"num_ctx":99},"keep_alive":"5m"}`},
}

// TestSafeShare breaks random answers at their bytes in every way, refuses requests in the ways that
// pass, and counts: of the failures of which a reference client has executed nothing and shown
// nothing, a share is called safe to repeat. Caution that nothing needs shows here.
func TestSafeShare(t *testing.T) {
	all, m := shares{}, &badModel{}
	unsafe := 0
	for i, kind := range eagerKinds() {
		r := rand.New(rand.NewPCG(3, uint64(i)))
		requests := map[string]string{"nothing": kind.request}
		for name, offer := range offers[strings.TrimSuffix(strings.TrimSuffix(kind.name, " array"), " document")] {
			requests[name] = strings.TrimSuffix(kind.request, "}") + offer
		}
		for _, offer := range slices.Sorted(maps.Keys(requests)) {
			for _, declared := range []bool{false, true} {
				for _, f := range refusals {
					*m = f.badModel
					m.body.left = cmp.Or(m.body.left, `{"error":{"message":"x","type":"server_error"}}`)
					m.body.end = io.EOF
					last, whole := m.asks(t, kind.path, requests[offer], declared, 0)
					all.add("refused: "+f.name, &last)
					all.add("refused, run: "+f.name, &whole)
				}
				for range 2 {
					w := eagerAnswer(t, &kind, r)
					text := w.text()
					for n := r.IntN(sample.Every(47)); n <= len(text); n += 1 + len(text)/(400/sample.Every(47)) {
						for _, end := range eagerEnds {
							client := executedOf(kind.name, []byte(text[:n]), end.name == endsClean.name)
							*m = badModel{status: http.StatusOK, contentType: kind.contentType, body: cutBody{left: text[:n], end: end.end}}
							last, whole := m.asks(t, kind.path, requests[offer], declared, client.executed)
							if client.executed > 0 || client.text {
								unsafe += b2i(client.executed > 0 && last.Retry.Safety == classify.SafeAutoRetry)
								unsafe += b2i(client.executed > 0 && whole.Retry.Safety == classify.SafeAutoRetry)
								continue
							}
							if last.Class == semconv.ClassUnset || last.Class == semconv.ClassProtocolViolation {
								continue // an input with a newline in it breaks an event
							}
							what := "before a call"
							if client.opened {
								what = "within a call"
							}
							name := strings.Fields(kind.name)[0] + ", " + offer + " offered, " + what + ", " + end.name
							all.add(name, &last)
							all.add(name+", run", &whole)
						}
					}
				}
			}
		}
	}
	assert.Zero(t, unsafe, "called safe after a call was executed")
	var n, safe int
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		of := all[kind]
		n, safe = n+of.n, safe+of.safe
		t.Logf("%s: %d of %d safe; others %v", kind, of.safe, of.n, of.asked)
		assert.GreaterOrEqual(t, 100*of.safe, 75*of.n, "%s: %v", kind, of.asked)
	}
	t.Logf("all: %d of %d safe", safe, n)
	assert.GreaterOrEqual(t, 1000*safe, 995*n)
}

// refusals are answers that the provider, or something in front of it, refused for a while.
var refusals = []struct {
	name string
	badModel
}{
	{"503", badModel{status: 503, contentType: jsonType}},
	{"529", badModel{status: 529, contentType: jsonType}},
	{"500", badModel{status: 500, contentType: jsonType}},
	{"429", badModel{status: 429, contentType: jsonType, header: http.Header{"Retry-After": {"1"}}}},
	{"429 without a wait", badModel{status: 429, contentType: jsonType}},
	{"504 of a proxy", badModel{status: 504, contentType: "text/html", body: cutBody{left: "<html><center>nginx</center></html>"}}},
	{"502 of a proxy", badModel{status: 502, contentType: "text/html", body: cutBody{left: "<html><center>nginx</center></html>"}}},
	{"refused connection", badModel{err: &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}},
	{"reset before the headers", badModel{err: endsReset.end}},
}
