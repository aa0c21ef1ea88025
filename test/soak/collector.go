package main

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/otelllm/otelllm-go/test/internal/process"
)

//go:embed collector*.yaml
var configs embed.FS

// collectorSpec describes the Collector to run.
type collectorSpec struct {
	bin     string
	dir     string   // existing folder for its logs and its journal
	configs []string // paths
	env     []string
	limits  limits
}

// limits are llm_classify's limits.
type limits struct {
	hold, settle, runTimeout time.Duration
	heldBytes, factBytes     int
	spansPerRun              int
}

func (l limits) env() []string {
	return []string{
		"MAX_HOLD=" + l.hold.String(), "SETTLE=" + l.settle.String(), "RUN_TIMEOUT=" + l.runTimeout.String(),
		"MAX_HELD_BYTES=" + strconv.Itoa(l.heldBytes), "MAX_SPANS_PER_RUN=" + strconv.Itoa(l.spansPerRun),
		"MAX_FACT_BYTES=" + strconv.Itoa(l.factBytes),
	}
}

// collector is a Collector that keeps its addresses and its journal across restarts.
type collector struct {
	grpc, http string // host:port for OTLP
	metrics    string // URL
	verdicts   string // URL of the metrics of verdicts, where they are configured
	spec       process.Spec
	dir        string
	lives      int

	// mu guards everything declared below
	mu      sync.Mutex
	running *process.Process // nil while it is not running
	peak    int64            // resident memory in bytes; 0 if unknown
}

const (
	startPatience = time.Minute
	stopPatience  = time.Minute
)

func newCollector(s collectorSpec) (*collector, error) {
	free, err := process.FreeAddresses(5)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(free[3])
	if err != nil {
		return nil, err
	}
	journal := filepath.Join(s.dir, "journal")
	if err := os.MkdirAll(journal, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the journal: %w", err)
	}
	c := &collector{grpc: free[0], http: free[1], metrics: "http://" + free[3] + "/metrics", verdicts: "http://" + free[4] + "/metrics", dir: s.dir}
	var args []string
	for _, path := range s.configs {
		args = append(args, "--config", "file:"+path)
	}
	c.spec = process.Spec{
		Name: "the Collector", Path: s.bin, Args: args, Health: "http://" + free[2],
		Env: append(append([]string{
			"OTLP_GRPC=" + free[0], "OTLP_HTTP=" + free[1], "HEALTH=" + free[2], "METRICS_HOST=" + host, "METRICS_PORT=" + port,
			"VERDICTS=" + free[4], "JOURNAL=" + journal,
		}, s.limits.env()...), s.env...),
	}
	return c, nil
}

// own writes one of the soak's configurations to a folder, and returns its path.
func own(dir, name string) (string, error) {
	data, err := configs.ReadFile(name)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, data, 0o600)
}

// start starts the Collector, for the first time or again.
func (c *collector) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	spec := c.spec
	spec.Log = c.log(c.lives)
	spec.Piped = true // its log is whole when its disk is full
	c.lives++
	p, err := process.Start(ctx, spec)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = p
	return nil
}

func (c *collector) log(life int) string {
	return filepath.Join(c.dir, fmt.Sprintf("collector-%02d.log", life+1))
}

// ends marks the process as no longer running, so that its memory is not measured any more,
// and returns it.
func (c *collector) ends() *process.Process {
	c.measure()
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.running
	c.running = nil
	return p
}

// stop asks the Collector to shut down, and waits until it has.
func (c *collector) stop() error {
	return c.ends().StopBy(syscall.SIGTERM, stopPatience)
}

// kill kills the Collector, as in a crash.
func (c *collector) kill() { c.ends().Kill() }

// close kills the Collector if it is still running.
func (c *collector) close() {
	if p := c.ends(); p != nil {
		p.Kill()
	}
}

// measure records the peak of the resident memory, if the system reports it.
func (c *collector) measure() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peak = max(c.peak, c.status("VmHWM:"))
}

// anonymous returns the resident memory in bytes, without files that are mapped; 0 if it
// is unknown.
func (c *collector) anonymous() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status("RssAnon:")
}

// status returns a line of the process's status in bytes, or 0.
func (c *collector) status(field string) int64 {
	if c.running == nil {
		return 0
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.running.PID()))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// died reports whether the process has ended by itself.
func (c *collector) died() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return false
	}
	select {
	case <-c.running.Exited():
		return true
	default:
		return false
	}
}

// pid returns the process's id, 0 while it is not running.
func (c *collector) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return 0
	}
	return c.running.PID()
}

// get returns a page.
func get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// series counts the series on a page of metrics.
func series(page []byte) (n int64) {
	for line := range bytes.Lines(page) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			n++
		}
	}
	return n
}

// classifies returns a value of llm_classify's own metrics, 0 where it is not on the page or not
// a number.
func classifies(page []byte, name string) int {
	n, _ := sum(page, "otelcol_processor_llm_classify_"+name) // 0 then
	return int(n)
}

// sum adds up the series of a metric, or returns one that is given with its labels.
func sum(page []byte, name string) (total float64, err error) {
	lines := bufio.NewScanner(bytes.NewReader(page))
	for lines.Scan() {
		if line := lines.Text(); strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				return 0, fmt.Errorf("read the Collector's metric %s: %w", name, err)
			}
			total += v
		}
	}
	return total, lines.Err()
}

// lossWords are words in a Collector's log that appear only if something is lost or broken.
var lossWords = []string{"panic", "DATA RACE", "is lost", "are lost", "cannot be read back", "Dropping data", "set aside"}

// lossLines returns the lines with such words in the logs of all its lives.
func (c *collector) lossLines() (lines []string) {
	for life := range c.lives {
		raw, err := os.ReadFile(c.log(life))
		if err != nil {
			lines = append(lines, err.Error())
			continue
		}
		for line := range strings.Lines(string(raw)) {
			for _, word := range lossWords {
				if strings.Contains(line, word) {
					lines = append(lines, fmt.Sprintf("life %d: %s", life+1, strings.TrimSpace(line)))
					break
				}
			}
		}
	}
	return lines
}
