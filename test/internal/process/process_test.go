package process_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/test/internal/process"
)

// The program under test is the test's own binary. This variable selects its behavior.
const mode = "PROCESS_TEST_MODE"

func TestMain(m *testing.M) {
	if how := os.Getenv(mode); how != "" {
		os.Exit(program(how))
	}
	os.Exit(m.Run())
}

func program(how string) int {
	switch how {
	case "dies":
		fmt.Println("a reason to die")
		return 3
	case "taken":
		fmt.Println("listen tcp: bind: address already in use")
		return 1
	case "deaf":
		signal.Ignore(os.Interrupt)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		if how == "not ready" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	interrupted := make(chan os.Signal, 1)
	if how != "deaf" {
		signal.Notify(interrupted, os.Interrupt)
	}
	go func() { _ = http.ListenAndServe(os.Getenv("ADDRESS"), mux) }()
	<-interrupted
	return map[string]int{"ends badly": 5}[how]
}

func spec(t *testing.T, how, address string) process.Spec {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return process.Spec{
		Name: "the program", Path: self, Env: []string{mode + "=" + how, "ADDRESS=" + address},
		Log: filepath.Join(t.TempDir(), "log"), Health: "http://" + address,
	}
}

func TestAProgramRunsUntilItIsStopped(t *testing.T) {
	p, err := process.StartOnFreePorts(t.Context(), 1, func(free []string) process.Spec { return spec(t, "good", free[0]) })
	require.NoError(t, err)
	select {
	case <-p.Exited():
		t.Fatal("it has ended")
	default:
	}
	require.NoError(t, p.Stop(10*time.Second))
	<-p.Exited()
	require.ErrorContains(t, p.Stop(time.Second), "the program has ended early")
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct{ how, says string }{
		{"dies", "the program did not get ready: it has ended: exit status 3\nthe end of its log:\na reason to die"},
		{"not ready", "the program did not get ready: not in time"},
	} {
		t.Run(tt.how, func(t *testing.T) {
			free, err := process.FreeAddresses(1)
			require.NoError(t, err)
			patience := 10 * time.Second
			if tt.how == "not ready" {
				patience = 200 * time.Millisecond
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("not in time"))
			defer cancel()
			_, err = process.Start(ctx, spec(t, tt.how, free[0]))
			require.ErrorContains(t, err, tt.says)
		})
	}
	for how, says := range map[string]string{"ends badly": "the program ended with: exit status 5", "deaf": "did not end within 100ms and was killed"} {
		t.Run(how, func(t *testing.T) {
			p, err := process.StartOnFreePorts(t.Context(), 1, func(free []string) process.Spec { return spec(t, how, free[0]) })
			require.NoError(t, err)
			patience := 10 * time.Second
			if how == "deaf" {
				patience = 100 * time.Millisecond
			}
			require.ErrorContains(t, p.Stop(patience), says)
			<-p.Exited()
		})
	}
	t.Run("dies, piped", func(t *testing.T) {
		s := spec(t, "dies", "127.0.0.1:1")
		s.Piped = true
		_, err := process.Start(t.Context(), s)
		require.ErrorContains(t, err, "a reason to die")
	})
	t.Run("no program", func(t *testing.T) {
		s := spec(t, "good", "127.0.0.1:1")
		s.Path = filepath.Join(t.TempDir(), "none")
		_, err := process.Start(t.Context(), s)
		require.ErrorContains(t, err, "start the program")
	})
}

func TestStartOnFreePortsRetries(t *testing.T) {
	tries := 0
	_, err := process.StartOnFreePorts(t.Context(), 2, func(free []string) process.Spec {
		tries++
		assert.NotEqual(t, free[0], free[1])
		ln, err := net.Listen("tcp", free[0])
		require.NoError(t, err)
		require.NoError(t, ln.Close())
		return spec(t, "taken", free[0])
	})
	require.ErrorContains(t, err, "address already in use")
	assert.Equal(t, 3, tries)
}

func TestNeed(t *testing.T) {
	dir := t.TempDir()
	require.ErrorContains(t, process.Need(dir, "build it"), "is a folder: build it")
	require.ErrorContains(t, process.Need(filepath.Join(dir, "x"), "build it"), "there is no "+filepath.Join(dir, "x")+": build it")
	file := filepath.Join(dir, "log")
	require.NoError(t, os.WriteFile(file, []byte("a\nb\nc\n"), 0o600))
	require.NoError(t, process.Need(file, "build it"))
	assert.Equal(t, "b\nc", process.LogTail(file, 2))
	assert.Equal(t, "a\nb\nc", strings.TrimSpace(process.LogTail(file, 9)))
	assert.Empty(t, process.LogTail(filepath.Join(dir, "x"), 9))
}

func TestFreeAddressesDiffer(t *testing.T) {
	addresses, err := process.FreeAddresses(3)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, a := range addresses {
		assert.False(t, seen[a])
		seen[a] = true
		ln, err := net.Listen("tcp", a)
		require.NoError(t, err)
		require.NoError(t, ln.Close())
	}
}
