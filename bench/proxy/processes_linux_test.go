package proxy

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test binary is the upstream and the plain proxy as well, each in a process of its own, so
// that what each of them takes can be told apart.
const asUpstream, asPlain = "BENCH_PROXY_UPSTREAM", "BENCH_PROXY_PLAIN"

func TestMain(m *testing.M) {
	raiseFileLimit()
	switch {
	case os.Getenv(asUpstream) != "":
		serve(http.HandlerFunc(answer))
	case os.Getenv(asPlain) != "":
		to, err := url.Parse(os.Getenv(asPlain))
		if err != nil {
			log.Fatal(err)
		}
		// As many idle connections as there are clients: else it would connect anew again and again.
		transport := &http.Transport{MaxIdleConnsPerHost: 1 << 20}
		proxy := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1, Transport: transport,
			ErrorLog: log.New(io.Discard, "", 0),
		}
		serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Otherwise a response may begin before the request is known to have been read, and breaks off then.
			_ = http.NewResponseController(w).EnableFullDuplex()
			proxy.ServeHTTP(w, r)
		}))
	default:
		os.Exit(m.Run())
	}
}

// raiseFileLimit makes room for 10,000 connections on both sides, as far as the system allows it.
func raiseFileLimit() {
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 1 << 16, Max: 1 << 16})
}

// most is 10,000, or as many connections as a proxy has files for, which needs two for each.
func most() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1_000
	}
	return int(min(10_000, (limit.Cur-400)/2))
}

// serve serves until the process is killed.
func serve(h http.Handler) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "listening on http://%s\n", ln.Addr())
	log.Fatal(http.Serve(ln, h)) //nolint:gosec // no timeouts: the clients are the benchmark's
}

// process is a process that serves HTTP.
type process struct {
	*exec.Cmd
	addr string
}

// start starts a process, and returns when it listens.
func start(b *testing.B, env []string, path string, args ...string) *process {
	b.Helper()
	dir := b.TempDir()
	p := &process{Cmd: exec.Command(path, args...)}
	p.Dir, p.Env = dir, append(env, "HOME="+dir)
	stderr, err := p.StderrPipe()
	require.NoError(b, err)
	require.NoError(b, p.Start())
	b.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if _, addr, ok := strings.Cut(lines.Text(), "listening on http://"); ok {
			p.addr = addr
			go func() { _, _ = io.Copy(os.Stderr, stderr) }()
			return p
		}
	}
	b.Fatalf("%s does not listen", path)
	return nil
}

// upstream starts the upstream.
func upstream(b *testing.B) *process {
	b.Helper()
	return start(b, []string{asUpstream + "=1"}, self(b))
}

// plain starts the plain proxy.
func plain(b *testing.B, to *process) *process {
	b.Helper()
	return start(b, []string{asPlain + "=http://" + to.addr}, self(b))
}

// program starts `otelllm proxy` as its users do.
func program(b *testing.B, to *process) *process {
	b.Helper()
	return start(b, nil, built(b), "proxy", "--listen", "127.0.0.1:0", "--log-level", "error", "--upstream", "http://"+to.addr)
}

func self(b *testing.B) string {
	b.Helper()
	path, err := os.Executable()
	require.NoError(b, err)
	return path
}

// built builds otelllm.
func built(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "otelllm")
	out, err := exec.Command("go", "build", "-o", path, "github.com/otelllm/otelllm-go/cmd/otelllm").CombinedOutput()
	require.NoError(b, err, "%s", out)
	return path
}

// processorTime returns how long the threads of the process have run.
func (p *process) processorTime(b *testing.B) time.Duration {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	require.NoError(b, err)
	_, rest, _ := strings.Cut(string(raw), ") ") // the name may have blanks
	fields := strings.Fields(rest)
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime, which include threads that have ended
		n, err := strconv.ParseInt(field, 10, 64)
		require.NoError(b, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100
}

// residentMiB returns what the process has in memory, by the kernel's name for it: VmRSS for
// now, VmHWM for the most that it has ever had.
func (p *process) residentMiB(b *testing.B, name string) float64 {
	b.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	require.NoError(b, err)
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			require.NoError(b, err)
			return kib / 1024
		}
	}
	b.Fatal("no " + name)
	return 0
}
