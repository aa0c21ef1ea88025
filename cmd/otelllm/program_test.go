package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test binary is the program, the command that it runs, and the proxy that it is compared
// with.
const asProgram, asClient, asPeer = "OTELLLM_TEST_PROGRAM", "OTELLLM_TEST_CLIENT", "OTELLLM_TEST_PEER"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asClient) != "":
		os.Exit(client(os.Getenv(asClient)))
	case os.Getenv(asProgram) != "":
		main()
	case os.Getenv(asPeer) != "":
		plainProxy(os.Getenv(asPeer))
	default:
		os.Exit(m.Run())
	}
}

// Canaries, which must not be found where they do not belong.
const (
	canaryPrompt = "canary-prompt-a71e"
	canaryAnswer = "canary-answer-b3f2"
	canaryKey    = "sk-canary-c9d4"
)

// client asks a model once, and prints what it reads. The mode is a part of the prompt. Of the modes, "ask" exits with 0 whatever
// comes, "strict" with 4 if the answer does not come whole; "origin" keeps only the host of the
// base URL, as some programs do.
func client(mode string) int {
	if mode == "founding" {
		_ = foundingAgent(http.DefaultClient, os.Getenv("OPENAI_BASE_URL"), func() {})
		return 0
	}
	body := `{"model":"gpt-5","stream":true,"messages":[{"role":"user","content":"` + canaryPrompt + " " + mode + `"}]}`
	base, err := url.Parse(os.Getenv("OPENAI_BASE_URL"))
	if err != nil {
		panic(err)
	}
	if mode == "origin" {
		base.Path = "/v1"
	}
	req, err := http.NewRequest(http.MethodPost, base.String()+"/chat/completions?k="+canaryKey, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer "+canaryKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Timeout: patienceOf(mode)}).Do(req)
	if err == nil {
		_, err = io.Copy(os.Stdout, resp.Body)
		_ = resp.Body.Close()
	}
	if err != nil {
		fmt.Println("client:", kindOf(err))
		if mode == "strict" {
			return 4
		}
	}
	return 0
}

func patienceOf(mode string) time.Duration {
	if mode == "impatient" {
		return 300 * time.Millisecond
	}
	return time.Minute
}

func kindOf(err error) string {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timeout"
	}
	return "broken"
}

// program is a running otelllm.
type program struct {
	*exec.Cmd
	stdout, stderr output
}

// output collects what a process writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// otelllm prepares the program, with nothing of the environment but PATH.
func otelllm(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &program{Cmd: exec.Command(self, args...)}
	p.Dir = t.TempDir()
	p.Env = append([]string{asProgram + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + p.Dir}, env...)
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	p.WaitDelay = 10 * time.Second
	return p
}

// exit waits for the program's end and returns its exit status.
func (p *program) exit(t *testing.T) int {
	t.Helper()
	err := p.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		require.NoError(t, err)
	}
	return p.ProcessState.ExitCode()
}

// run runs the program to its end.
func (p *program) run(t *testing.T) int {
	t.Helper()
	require.NoError(t, p.Start())
	return p.exit(t)
}

// await waits until what a process writes contains text.
func await(t *testing.T, o *output, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(o.String(), text) }, patience, tick, "%q in %s", text, o)
}

// patience is how long a test waits for what a program does, and tick the pause between looks.
const patience, tick = 20 * time.Second, 5 * time.Millisecond

const (
	sseHead  = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"` + canaryAnswer + ` "}}]}` + "\n\n"
	sseEnd   = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	sseDone  = "data: [DONE]\n\n"
	sseWhole = sseHead + sseEnd + sseDone
)

// model is a provider that does one thing to each request.
func model(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		answer(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv
}

func whole(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, sseWhole)
}

// broken resets the connection in the text.
func broken(w http.ResponseWriter, _ *http.Request) {
	begin(w)
	reset(w)
}

// reset breaks a connection off.
func reset(w http.ResponseWriter) {
	time.Sleep(20 * time.Millisecond) // a reset discards what the client has not read
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

// begin writes the first text of an answer.
func begin(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, sseHead)
	_ = http.NewResponseController(w).Flush()
}

// silent answers nothing until the client goes.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// asks is the environment with which the command asks srv.
func asks(srv *httptest.Server) []string {
	return []string{"OPENAI_BASE_URL=" + srv.URL + "/v1"}
}

// asking is a command that asks the model once. The program itself must not see the variable
// that makes the test binary the client.
func asking(t *testing.T, mode string) []string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return []string{"env", "-u", asProgram, asClient + "=" + mode, self}
}

// plainProxy serves a ReverseProxy to the target until the process is killed.
func plainProxy(target string) {
	to, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(os.Stderr, "listening on http://%s\n", ln.Addr())
	panic(http.Serve(ln, &httputil.ReverseProxy{ //nolint:gosec // no timeouts: the clients are the benchmark's
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	}))
}
