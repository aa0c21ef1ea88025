package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/examples/internal/process"
)

// collectorConfig is the configuration of the Collector that judges the traces.
//
//go:embed collector.yaml
var collectorConfig []byte

const (
	startPatience = 60 * time.Second // for the Collector to get ready; a healthy one needs one second
	readPatience  = 30 * time.Second // for it to read more spans
	stopPatience  = 60 * time.Second // for it to judge and write the rest
)

// classify runs the traces through a Collector and replaces their spans by its output.
func classify(ctx context.Context, binary string, traces []*trace) (err error) {
	if err := process.Need(binary, "build it with `make collector`, or name it with -collector"); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "diagnose")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	in, out := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	config := filepath.Join(dir, "collector.yaml")
	if err := os.WriteFile(config, collectorConfig, 0o600); err != nil {
		return err
	}
	if err := write(in, traces); err != nil {
		return err
	}
	spans := 0
	for _, t := range traces {
		spans += t.spans
	}

	var metrics string
	starting, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("not within %s", startPatience))
	defer cancel()
	col, err := process.StartOnFreePorts(starting, 2, func(free []string) process.Spec {
		metrics = "http://" + free[1] + "/metrics"
		host, port, _ := net.SplitHostPort(free[1]) // the address of a listener is always valid
		return process.Spec{
			Name: "the Collector", Path: binary, Args: []string{"--config", "file:" + config},
			Env: []string{"IN_FILE=" + in, "OUT_FILE=" + out, "HEALTH_ENDPOINT=" + free[0], "METRICS_HOST=" + host, "METRICS_PORT=" + port},
			Log: filepath.Join(dir, "collector.log"), Health: "http://" + free[0],
		}
	})
	if err != nil {
		return err
	}
	err = hasRead(ctx, col, metrics, spans)
	// A Collector that stops judges the runs that are not complete.
	if err := errors.Join(err, col.Stop(stopPatience)); err != nil {
		return err
	}
	return collect(out, traces)
}

// write writes each trace as one line.
func write(path string, traces []*trace) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	var encoder ptrace.JSONMarshaler
	for _, t := range traces {
		line, err := encoder.MarshalTraces(t.td)
		if err != nil {
			return fmt.Errorf("write trace %s: %w", t.id, err)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// hasRead waits until the Collector has accepted the given number of spans.
func hasRead(ctx context.Context, col *process.Process, metrics string, spans int) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last, since := -1, time.Now()
	for {
		accepted, err := accepted(ctx, metrics)
		switch {
		case err == nil && accepted >= spans:
			return nil
		case err == nil && accepted != last:
			last, since = accepted, time.Now()
		case time.Since(since) > readPatience:
			return fmt.Errorf("the Collector has read %d of %d spans and is stuck: %w", max(last, 0), spans, errors.Join(err, errStuck))
		}
		select {
		case <-tick.C:
		case <-col.Exited():
			return nil // Stop returns its error
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var errStuck = fmt.Errorf("no progress for %s", readPatience)

// llm_classify's counters of the spans that it has accepted: those that it holds, and
// those that it passes on. The receiver's own counter does not serve: it counts the
// spans that llm_classify leaves in a batch, not those that were read.
const (
	heldMetric   = "otelcol_processor_llm_classify_spans_taken"
	passedMetric = "otelcol_processor_llm_classify_spans_passed"
)

// accepted returns how many spans the Collector has read.
func accepted(ctx context.Context, metrics string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, metrics, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return sum(resp.Body, heldMetric, passedMetric)
}

// sum adds up the series of metrics in Prometheus' text format.
func sum(r io.Reader, metrics ...string) (int, error) {
	total := 0.0
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if !slices.ContainsFunc(metrics, func(name string) bool { return strings.HasPrefix(line, name) }) {
			continue
		}
		// A line has the name, optional labels in braces, the value, and an optional
		// timestamp.
		value := line[strings.LastIndex(line, "} ")+1:]
		_, value, _ = strings.Cut(value, " ")
		value, _, _ = strings.Cut(value, " ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("the Collector's metric %q: %w", line, err)
		}
		total += n
	}
	return int(total), lines.Err()
}

// collect replaces the spans of traces by the spans that the Collector has written. It
// fails if a span is missing.
func collect(path string, traces []*trace) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the Collector's output: %w", err)
	}
	var judged collection
	if err := readDocuments("the Collector's output", raw, judged.add); err != nil {
		return err
	}
	for _, t := range traces {
		lost := 0
		for span := range t.all() {
			if !judged.known[spanKey{t.id, span.SpanID()}] {
				lost++
			}
		}
		if lost > 0 {
			return fmt.Errorf("trace %s: %d of its %d spans are missing from the Collector's output", t.id, lost, t.spans)
		}
	}
	for _, t := range traces {
		*t = *judged.index[t.id]
	}
	return nil
}
