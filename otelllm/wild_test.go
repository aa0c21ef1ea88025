package otelllm

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelllm/otelllm-go/otelllm/internal/nettest"
)

// wildCase is an answer from a public report, with the verdict that a careful reader gives.
type wildCase struct {
	Source         string            `yaml:"source"` // the report
	Name           string            `yaml:"name"`
	Path           string            `yaml:"path"`
	Request        string            `yaml:"request"` // "": a short one
	RequestHeaders map[string]string `yaml:"request_headers"`
	Status         int               `yaml:"status"` // 0: 200
	Type           string            `yaml:"type"`   // of the contents; "": none
	Headers        map[string]string `yaml:"headers"`
	Body           string            `yaml:"body"`
	Gzip           bool              `yaml:"gzip"` // the body is sent compressed
	Frames         []wildFrame       `yaml:"frames"`
	// End is how the connection ends: reset, hang up (within the body), no answer; "": as it should.
	End string `yaml:"end"`
	// CloseAfter: the client closes the body when it has read this, and the server sends no end.
	CloseAfter string `yaml:"close_after"`
	// Want has alternatives, separated by |, for what is said: see wildSaid. none means that nothing is, any that
	// something is, and "not x" anything but x.
	Want map[string]string `yaml:"want"`

	read chan struct{} // closed when the client has read the body
}

// wildFrame is a message of an AWS event stream.
type wildFrame struct {
	Type    string `yaml:"type"`
	Name    string `yaml:"name"`
	Payload string `yaml:"payload"`
}

// wildSaid are the attributes that a want may name.
var wildSaid = map[string]string{
	"class": "llm.failure.class", "cause": "llm.failure.cause", "origin": "llm.failure.origin", "safety": "llm.retry.safety",
	"kind": "llm.provider_error.kind", "calls": "llm.stream.tool_calls",
}

// TestWild holds the verdicts against public reports, over a real connection each. make wild prints the counts.
func TestWild(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "wild", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	cases, failed := 0, 0
	for _, file := range files {
		var all []wildCase
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		decoder := yaml.NewDecoder(bytes.NewReader(data))
		decoder.KnownFields(true)
		require.NoError(t, decoder.Decode(&all), file)
		for i := range all {
			c := &all[i]
			cases++
			if !t.Run(c.Source+" "+c.Name, c.run) {
				failed++
			}
		}
	}
	t.Logf("wild: %d cases, %d right, %d false", cases, cases-failed, failed)
}

func (c *wildCase) run(t *testing.T) {
	require.NotEmpty(t, c.Source)
	require.NotEmpty(t, c.Want)
	c.read = make(chan struct{})
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	r := newRecorder(t)
	c.call(t, requestTransport(base(t), WithTracerProvider(r), WithVerdicts()), server.URL)
	s := r.only(t)
	for _, key := range slices.Sorted(maps.Keys(c.Want)) {
		attribute, ok := wildSaid[key]
		require.True(t, ok, key)
		said := ""
		for _, kv := range s.Attributes() {
			if string(kv.Key) == attribute {
				said = kv.Value.String()
			}
		}
		assert.True(t, wildHolds(c.Want[key], said), "%s is %q, want %s", key, said, c.Want[key])
	}
}

// wildHolds reports whether what is said is one of the alternatives.
func wildHolds(want, said string) bool {
	return slices.ContainsFunc(strings.Split(want, "|"), func(one string) bool {
		not, isNot := strings.CutPrefix(one, "not ")
		return one == said || one == "none" && said == "" || one == "any" && said != "" || isNot && not != said
	})
}

func (c *wildCase) call(t *testing.T, rt http.RoundTripper, url string) {
	t.Helper()
	body := c.Request
	switch {
	case body != "":
	case strings.HasPrefix(c.Path, "/v1beta/"):
		body = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
	case strings.HasSuffix(c.Path, "/converse-stream"):
		body = `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`
	case c.Path == messagesPath, strings.HasPrefix(c.Path, "/model/"):
		body = `{"model":"m-1","stream":true,"max_tokens":900,"messages":[{"role":"user","content":"hi"}]}`
	case c.Path == responsesPath:
		body = `{"model":"m-1","stream":true,"input":"hi"}`
	default:
		body = `{"model":"m-1","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+c.Path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", jsonType)
	for name, value := range c.RequestHeaders {
		req.Header.Set(name, value)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	seen, buf, arrived := "", make([]byte, 4096), sync.OnceFunc(func() { close(c.read) })
	defer arrived()
	for err == nil && (c.CloseAfter == "" || !strings.Contains(seen, c.CloseAfter)) {
		var n int
		n, err = resp.Body.Read(buf)
		seen += string(buf[:n])
		if len(seen) >= len(c.Body) {
			arrived()
		}
	}
}

// ServeHTTP answers as the report says.
func (c *wildCase) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	body := []byte(c.Body)
	for _, f := range c.Frames {
		body = append(body, awsHeaders([][2]string{{":message-type", f.Type}, {":" + f.Type + "-type", f.Name}, {":content-type", jsonType}}, f.Payload)...)
	}
	w.Header()["Content-Type"] = nil
	if c.Type != "" {
		w.Header().Set("Content-Type", c.Type)
	}
	for name, value := range c.Headers {
		w.Header().Set(name, value)
	}
	if c.Gzip {
		w.Header().Set("Content-Encoding", "gzip")
		body = gzipped(c.Body)
	}
	if c.End != "no answer" {
		w.WriteHeader(max(c.Status, http.StatusOK))
		_, _ = w.Write(body)
	}
	if c.End == "" && c.CloseAfter == "" {
		return
	}
	if c.End != "no answer" {
		w.(http.Flusher).Flush()
	}
	if c.CloseAfter != "" {
		<-r.Context().Done()
		return
	}
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	if c.End == "reset" {
		<-c.read
		nettest.Reset(conn)
		return
	}
	nettest.HangUp(conn)
}
