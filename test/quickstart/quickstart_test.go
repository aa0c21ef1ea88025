package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/faultyllm"
	"github.com/otelllm/otelllm-go/test/internal/acceptance"
)

// The test's own binary replaces the Collector. This variable selects how it fails.
const fakeMode = "QUICKSTART_FAKE_COLLECTOR"

// fakeNote is a file in which the fake Collector records its process id.
const fakeNote = "QUICKSTART_FAKE_NOTE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(fakeMode); mode != "" {
		os.Exit(fakeCollector(mode))
	}
	os.Exit(m.Run())
}

func fakeCollector(mode string) int {
	note, err := os.OpenFile(os.Getenv(fakeNote), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 3
	}
	fmt.Fprintln(note, os.Getpid())
	switch mode {
	case "taken":
		fmt.Fprintln(os.Stderr, "listen tcp 127.0.0.1:4318: bind: address already in use")
		return 1
	case "dies":
		fmt.Fprintln(os.Stderr, "a reason to die")
		return 1
	case "never ready":
		<-time.After(time.Hour) // until a signal ends it; without a timer the runtime reports a deadlock
	case "ready": // accepts traces and drops them
		mux := http.NewServeMux()
		mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
		go func() { _ = http.ListenAndServe(os.Getenv("OTLP_HTTP_ENDPOINT"), mux) }()
		_ = http.ListenAndServe(os.Getenv("HEALTH_ENDPOINT"), mux)
	}
	return 4
}

// fake returns options with a fake Collector, and the file with its process ids.
func fake(t *testing.T, mode string) (options, string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	root := t.TempDir()
	config := filepath.Join(root, "config.yaml")
	require.NoError(t, os.WriteFile(config, nil, 0o600))
	note := filepath.Join(root, "pids")
	t.Setenv(fakeMode, mode)
	t.Setenv(fakeNote, note)
	return options{root: root, collector: self, config: "config.yaml", forwardConfig: "config.yaml", out: "out"}, note
}

// launches returns the number of process ids, and checks that all the processes have ended.
func launches(t *testing.T, note string) int {
	t.Helper()
	raw, err := os.ReadFile(note)
	require.NoError(t, err)
	pids := strings.Fields(string(raw))
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		require.NoError(t, err)
		process, err := os.FindProcess(pid)
		if err == nil {
			err = process.Signal(syscall.Signal(0))
		}
		require.ErrorIs(t, err, os.ErrProcessDone, "the Collector is still running")
	}
	return len(pids)
}

func TestACollectorThatIsNotBuilt(t *testing.T) {
	o, _ := fake(t, "dies")
	o.collector = "build/otelcol-llm"
	require.ErrorContains(t, run(t.Context(), o), "there is no build/otelcol-llm: build it with `make collector`")
}

func TestACollectorThatDies(t *testing.T) {
	o, note := fake(t, "dies")
	err := run(t.Context(), o)
	require.ErrorContains(t, err, "the Collector did not get ready: it has ended: exit status 1")
	require.ErrorContains(t, err, "a reason to die")
	assert.Equal(t, 1, launches(t, note))
}

func TestPortsInUseAreRetried(t *testing.T) {
	o, note := fake(t, "taken")
	require.ErrorContains(t, run(t.Context(), o), "address already in use")
	assert.Equal(t, 3, launches(t, note))
}

func TestACollectorThatIsNeverReady(t *testing.T) {
	o, note := fake(t, "never ready")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, o) }()
	awaitLaunch(t, note)
	cancel(errBudget) // the budget is used up
	require.ErrorContains(t, <-done, errBudget.Error())
	assert.Equal(t, 1, launches(t, note))
}

// awaitLaunch waits until the fake Collector runs.
func awaitLaunch(t *testing.T, note string) {
	t.Helper()
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(note)
		return err == nil && len(raw) > 0
	}, 10*time.Second, 5*time.Millisecond)
}

func TestAnInterruptEndsEverything(t *testing.T) {
	o, note := fake(t, "ready")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, o) }()
	awaitLaunch(t, note) // now the agents run too
	cancel()
	select {
	case err := <-done:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(20 * time.Second):
		t.Fatal("the demo did not end")
	}
	assert.Equal(t, 1, launches(t, note))
}

func TestEqualResultsShareALine(t *testing.T) {
	verdict := func(cause semconv.Cause) *report.Run {
		return &report.Run{Span: report.Span{Verdict: report.Verdict{Class: semconv.ClassProviderError, Cause: cause}}}
	}
	var cases []acceptance.Case
	for _, w := range faultyllm.Wires() {
		cases = append(cases, acceptance.Case{Number: 14, Title: "an error", Wire: w})
	}
	cases = append(cases, acceptance.Case{Number: 15, Title: "another error", Wire: faultyllm.Chat})
	runs := []*report.Run{verdict(semconv.CauseOverloaded), verdict(semconv.CauseRateLimited), verdict(semconv.CauseOverloaded), nil}
	rows := table(gather(cases, runs))
	labels := make([]string, len(rows))
	for i, r := range rows {
		labels[i] = r.Label
	}
	assert.Equal(t, []string{"14 an error       CA", "14 an error       R", "15 another error  C"}, labels)
	assert.Nil(t, rows[2].Run)
}
