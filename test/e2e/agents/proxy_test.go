//go:build unix

package agents

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
)

// proxied is a running `otelllm proxy`, for an agent that takes its base URL from its settings
// alone.
type proxied struct {
	url    string // for the agent
	stderr *output
	judged *receiver
	cmd    *exec.Cmd
}

var listeningOn = regexp.MustCompile(`listening on (http://\S+)`)

// startProxy starts one in front of an upstream.
func startProxy(t *testing.T, bin, upstream string) *proxied {
	t.Helper()
	p := &proxied{judged: newReceiver(t), stderr: &output{}}
	p.cmd = exec.Command(bin, "proxy", "--listen", "127.0.0.1:0", "--log-level", "debug", "--upstream", "/e2e="+upstream)
	p.cmd.Env = []string{"HOME=" + t.TempDir(), "OTEL_EXPORTER_OTLP_ENDPOINT=" + p.judged.url}
	p.cmd.Stderr = p.stderr
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	require.Eventually(t, func() bool {
		found := listeningOn.FindStringSubmatch(p.stderr.String())
		if found != nil {
			p.url = found[1] + "/e2e"
		}
		return found != nil
	}, startPatience, 10*time.Millisecond, "otelllm proxy does not listen")
	return p
}

// end stops the proxy, and returns what it has judged.
func (p *proxied) end(t *testing.T) (records []report.Record) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, p.cmd.Wait())
	var judged report.Spans
	for _, td := range p.judged.traces {
		judged.Add(td)
	}
	for _, id := range traceIDs(p.judged.traces) {
		records = append(records, judged.Records(id)...)
	}
	return records
}

// output is what a process writes while it runs.
type output struct {
	mu  sync.Mutex
	all bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}
