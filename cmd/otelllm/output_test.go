package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// refusesWithCanary answers with an error whose message repeats what must not be recorded.
func refusesWithCanary(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = fmt.Fprintf(w, `{"error":{"type":"invalid_request_error","message":"%s %s %s"}}`, canaryPrompt, canaryAnswer, canaryKey)
}

var pageAddress = regexp.MustCompile(`runs are shown on (\S+)`)

// shownOn returns what the page shows at a path.
func shownOn(p *program, path string) string {
	found := pageAddress.FindStringSubmatch(p.stderr.String())
	if found == nil {
		return "no page is announced"
	}
	resp, err := http.Get(found[1] + path)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return resp.Status + string(all) + fmt.Sprint(err)
}

// Every output has the run, and none has prompts, answers or keys, whatever is logged. Only their
// owner can read the files.
func TestOutputsHaveNoContent(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{"whole": whole, "broken": broken, "refused": refusesWithCanary} {
		for _, command := range []string{"run", "proxy"} {
			t.Run(command+" "+name, func(t *testing.T) {
				t.Parallel()
				var p *program
				started := make(chan *program, 1)
				shown := make(chan string, 1)
				srv := model(t, func(w http.ResponseWriter, r *http.Request) {
					if command == "run" {
						shown <- shownOn(<-started, "/")
					}
					answer(w, r)
				})
				dir := t.TempDir()
				args := []string{command, "--page", "--log-level", "debug", "--report", filepath.Join(dir, "runs.html"), "--keep", filepath.Join(dir, "kept")}
				want := 2
				if command == "run" {
					want = 3
					p = otelllm(t, asks(srv), append(append(args, "--json", filepath.Join(dir, "runs.jsonl"), "--"), asking(t, "ask")...)...)
					p.Stdout = io.Discard // the command prints the answer
					started <- p
					assert.Zero(t, p.run(t), "%s", &p.stderr)
				} else {
					p = otelllm(t, nil, append(args, "--listen", "127.0.0.1:0", "--upstream", srv.URL)...)
					askThrough(t, http.DefaultTransport, p.listens(t), nil)
					shown <- shownOn(p, "/")
					if name == "whole" { // a run that failed waits for another attempt
						require.Eventually(t, func() bool { return strings.Contains(shownOn(p, "/runs"), "gpt-5") }, patience, tick)
					}
					shown <- <-shown + shownOn(p, "/runs")
					require.NoError(t, p.Process.Signal(os.Interrupt))
					assert.Zero(t, p.exit(t), "%s", &p.stderr)
				}
				outputs := map[string]string{"log": p.stderr.String(), "page": <-shown}
				assert.Contains(t, outputs["page"], "200 OK")
				require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
					if err != nil || d.IsDir() {
						return err
					}
					raw, err := os.ReadFile(path)
					require.NoError(t, err)
					outputs[path] = string(raw)
					assert.Contains(t, string(raw), "gpt-5", path)
					info, err := d.Info()
					require.NoError(t, err)
					assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), path)
					return nil
				}))
				assert.Len(t, outputs, 2+want, "each flag makes a file")
				for what, text := range outputs {
					for _, canary := range []string{canaryPrompt, canaryAnswer, canaryKey} {
						assert.NotContains(t, text, canary, what)
					}
				}
			})
		}
	}
}

// askThrough sends a request with canaries through a proxy, and returns the status; 0 if the
// answer does not come whole.
func askThrough(t *testing.T, transport http.RoundTripper, base string, header map[string]string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, base+"/v1/chat/completions?k="+canaryKey, strings.NewReader(`{"model":"gpt-5","messages":[{"role":"user","content":"`+canaryPrompt+`"}]}`))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+canaryKey)
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0
	}
	return resp.StatusCode
}

// A file that cannot be written makes a command that succeeded fail, and no other.
func TestRunFailsIfFilesDo(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	for _, tt := range []struct {
		name string
		args []string
		want int
	}{
		{"report", []string{"--report", "/dev/full", "--", "true"}, statusError},
		{"keep", []string{"--keep", "kept", "--", "rm", "-r", "kept"}, statusError},
		{"report, before the command starts", []string{"--report", "/dev/full", "--", "sh", "-c", "exit 7"}, statusError},
		{"keep of a command that fails", []string{"--keep", "kept", "--", "sh", "-c", "rm -r kept; exit 7"}, 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := otelllm(t, nil, append([]string{"run"}, tt.args...)...)
			assert.Equal(t, tt.want, p.run(t))
			assert.Contains(t, p.stderr.String(), "otelllm: ")
		})
	}
	t.Run("json", func(t *testing.T) {
		t.Parallel()
		p := otelllm(t, nil, "run", "--json", "/dev/full", "--", "touch", "started")
		assert.Equal(t, statusError, p.run(t))
		assert.Contains(t, p.stderr.String(), "--json: nothing can be written")
		assert.NoFileExists(t, filepath.Join(p.Dir, "started"))
	})
}

// What fails at the start leaves the files of the last time as they are.
func TestFailedStartEmptiesNoFile(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	for _, args := range [][]string{
		{"proxy", "--report", "old", "--listen", busy.Addr().String()},
		{"run", "--report", "old", "--set", "nobody", "--", "true"},
		{"run", "--json", "old", "--set", "nobody", "--", "true"},
	} {
		p := otelllm(t, nil, args...)
		old := filepath.Join(p.Dir, "old")
		require.NoError(t, os.WriteFile(old, []byte("runs"), 0o600))
		assert.Equal(t, statusError, p.run(t), "%s", &p.stderr)
		raw, err := os.ReadFile(old)
		require.NoError(t, err)
		assert.Equal(t, "runs", string(raw), args)
	}
}

func TestRunQuietly(t *testing.T) {
	t.Parallel()
	p := otelllm(t, asks(model(t, broken)), append([]string{"run", "--quiet", "--page", "--"}, asking(t, "ask")...)...)
	assert.Zero(t, p.run(t))
	assert.Empty(t, p.stderr.String())
}

// --json and --fail-on concern every run, also those for which there is no room in memory.
func TestRunTakesEveryRun(t *testing.T) {
	var requests atomic.Int32
	srv := model(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			broken(w, r)
			return
		}
		whole(w, r)
	})
	t.Setenv("OPENAI_BASE_URL", srv.URL+"/v1")
	file := filepath.Join(t.TempDir(), "runs.jsonl")
	self, err := os.Executable()
	require.NoError(t, err)
	o := runOptions{json: file, failOn: []string{"interrupted"}, quiet: true, logLevel: "error", maxSpans: 4}
	command := fmt.Sprintf("for task in one two three; do %s=$task %q >%s; done", asClient, self, os.DevNull)
	assert.Equal(t, statusCode(statusFailOn), o.run(t.Context(), []string{"sh", "-c", command}))
	records := readRecords(t, file)
	require.Len(t, records, 3)
	outcomes := make(map[string]int)
	for i := range records {
		outcomes[text(&records[i], semconv.RunOutcomeKey)]++
		assert.Len(t, records[i].Requests, 1)
	}
	assert.Equal(t, map[string]int{"succeeded": 2, "failed": 1}, outcomes)
}

func TestProxyServesTLS(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	defer certified.Close()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw}), 0o600))
	der, err := x509.MarshalPKCS8PrivateKey(certified.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))

	p := otelllm(t, nil, "proxy", "--listen", "127.0.0.1:0", "--upstream", model(t, whole).URL, "--tls-cert", cert, "--tls-key", key)
	base := p.listens(t)
	assert.Contains(t, base, "https://")
	roots := certified.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	assert.Equal(t, http.StatusOK, askThrough(t, transport, base, nil))
	for _, args := range [][]string{{"--tls-cert", cert}, {"--tls-cert", key, "--tls-key", key}} {
		p := otelllm(t, nil, append([]string{"proxy"}, args...)...)
		assert.Equal(t, statusError, p.run(t))
	}
}

func TestProxyWarnsBeyondLoopback(t *testing.T) {
	t.Parallel()
	for address, warns := range map[string]bool{"127.0.0.1:0": false, ":0": true} {
		p := otelllm(t, nil, "proxy", "--listen", address)
		p.listens(t)
		assert.Equal(t, warns, strings.Contains(p.stderr.String(), "beyond loopback"))
		assert.Equal(t, warns, strings.Contains(p.stderr.String(), "unencrypted"))
	}
}

// Without --retry a failure is the client's to repeat.
func TestProxyRetriesIfAsked(t *testing.T) {
	t.Parallel()
	for retry, want := range map[bool]int{false: http.StatusServiceUnavailable, true: http.StatusOK} {
		var requests atomic.Int32
		srv := model(t, func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			whole(w, r)
		})
		p := otelllm(t, nil, "proxy", "--listen", "127.0.0.1:0", "--upstream", srv.URL, fmt.Sprintf("--retry=%v", retry))
		assert.Equal(t, want, askThrough(t, http.DefaultTransport, p.listens(t), nil))
	}
}

// The client's trace context is that of the spans only if it is trusted, and of the request
// upstream in any case.
func TestProxyTrustsTraceContext(t *testing.T) {
	t.Parallel()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for _, trust := range []bool{false, true} {
		passed := make(chan string, 1)
		srv := model(t, func(w http.ResponseWriter, r *http.Request) { passed <- r.Header.Get("Traceparent"); whole(w, r) })
		kept := t.TempDir()
		p := otelllm(t, nil, "proxy", "--listen", "127.0.0.1:0", "--upstream", srv.URL, "--keep", kept, fmt.Sprintf("--trust-trace-context=%v", trust))
		const parent = "00-" + trace + "-b7ad6b7169203331-01"
		assert.Equal(t, http.StatusOK, askThrough(t, http.DefaultTransport, p.listens(t), map[string]string{"Traceparent": parent}))
		assert.Equal(t, parent, <-passed)
		require.NoError(t, p.Process.Signal(os.Interrupt))
		assert.Zero(t, p.exit(t))
		files, err := filepath.Glob(filepath.Join(kept, "*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		raw, err := os.ReadFile(files[0])
		require.NoError(t, err)
		assert.Equal(t, trust, strings.Contains(string(raw), trace))
	}
}

// The page has the same address each time, unless that is taken or another is asked for. It is
// on loopback, or nothing starts.
func TestPageAddress(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(free.Addr().String())
	require.NoError(t, err)
	started := filepath.Join(t.TempDir(), "started")
	for _, tt := range []struct {
		address string
		want    int
		says    string
	}{
		{":" + port, statusError, "is in use, maybe by another otelllm: end that, or choose another address"},
		{"0.0.0.0:0", statusError, "not on loopback"},
		{"192.0.2.1:0", statusError, "not on loopback"},
		{"[::1]", statusError, "not an address"},
	} {
		p := otelllm(t, nil, "run", "--page="+tt.address, "--", "touch", started)
		assert.Equal(t, tt.want, p.run(t))
		assert.Contains(t, p.stderr.String(), tt.says)
		assert.NoFileExists(t, started)
	}
	require.NoError(t, free.Close())
	p := otelllm(t, nil, "run", "--page", ":"+port, "--", "true")
	assert.Zero(t, p.run(t))
	assert.Contains(t, p.stderr.String(), "runs are shown on http://127.0.0.1:"+port+"/")

	taken, err := net.Listen("tcp", defaultPage)
	if err == nil {
		defer taken.Close()
	}
	p = otelllm(t, nil, "run", "--page", "--", "true")
	assert.Zero(t, p.run(t))
	assert.Regexp(t, `runs are shown on http://127\.0\.0\.1:\d+/`, p.stderr.String())
	assert.NotContains(t, p.stderr.String(), defaultPage)
}

func TestOnlyTheProgramsPageTakesAnAddress(t *testing.T) {
	for _, tt := range [][2][]string{
		{{"run", "--page", ":1", "--", "x"}, {"run", "--page=:1", "--", "x"}},
		{{"run", "--page", "--", "x"}, {"run", "--page", "--", "x"}},
		{{"run", "--page", "codex", ":1"}, {"run", "--page", "codex", ":1"}},
		{{"run", "--", "x", "--page", ":1"}, {"run", "--", "x", "--page", ":1"}},
		{{"proxy", "--page", "localhost:80"}, {"proxy", "--page=localhost:80"}},
	} {
		assert.Equal(t, tt[1], withPage(tt[0]))
	}
}
