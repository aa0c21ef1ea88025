//go:build unix && !race

package compose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestImage tests the image without an engine. It copies what the Dockerfile's last stage copies into a folder, makes
// that folder the program's root, and starts the image's command as the image's user. It shows that the program needs
// no library and no shell, finds its configurations, and writes only to its volume. The first stage is not tested: the
// built Collector replaces its result.
func TestImage(t *testing.T) {
	bin := os.Getenv("OTELCOL_BIN")
	if bin == "" {
		t.Skip("OTELCOL_BIN names no Collector: run `make validate`, which builds one")
	}
	if os.Geteuid() != 0 {
		t.Skip("LEFT OUT: only root may change a program's root and user")
	}
	raw, err := os.ReadFile("../Dockerfile")
	require.NoError(t, err)
	_, stage, ok := strings.Cut(string(raw), "\nFROM scratch\n")
	require.True(t, ok)
	fromBuild := map[string]string{
		"/etc/ssl/certs/ca-certificates.crt": "../Dockerfile", // any file will do
		"/otelllm/build/otelcol-llm":         bin,
		"/empty":                             t.TempDir(),
	}

	root := t.TempDir()
	var user []int
	var command []string
	for line := range strings.Lines(stage) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "", "#", "EXPOSE":
		case "COPY":
			fields, owner, built := strings.Fields(rest), []int{0, 0}, false
			for ; strings.HasPrefix(fields[0], "--"); fields = fields[1:] {
				if to, ok := strings.CutPrefix(fields[0], "--chown="); ok {
					owner = ids(t, to)
				}
				built = built || fields[0] == "--from=build"
			}
			require.Len(t, fields, 2, line)
			source := filepath.Join("../../..", fields[0])
			if built {
				require.Contains(t, fromBuild, fields[0])
				source = fromBuild[fields[0]]
			}
			copyInto(t, root, source, fields[1], owner)
		case "VOLUME":
			assert.DirExists(t, filepath.Join(root, rest))
		case "USER":
			user = ids(t, rest)
		case "ENTRYPOINT", "CMD":
			var words []string
			require.NoError(t, json.Unmarshal([]byte(rest), &words), line)
			command = append(command, words...)
		default:
			t.Errorf("unknown instruction %s: extend this test", word)
		}
	}
	require.NotEmpty(t, command)
	require.Len(t, user, 2)

	// The default ports may be in use on this machine. The journal is in the volume.
	const anyPort = "127.0.0.1:0"
	health := free(t)
	command = append(
		command,
		fmt.Sprintf("--config=yaml:receivers::otlp::protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}", anyPort, anyPort),
		fmt.Sprintf("--config=yaml:exporters::prometheus::endpoint: %q", anyPort),
		fmt.Sprintf("--config=yaml:extensions: {health_check: {endpoint: %q}, file_storage: {directory: /var/lib/otelcol-llm}}", health),
		"--config=yaml:service: {extensions: [health_check, file_storage], telemetry: {metrics: {level: none, readers: []}}}",
		"--config=yaml:processors::llm_classify::storage: file_storage",
	)
	before := tree(t, root)
	var log bytes.Buffer
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = "/", []string{}, &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uint32(user[0]), Gid: uint32(user[1])}}
	// A Collector reports ready before it handles signals, and an interrupt would kill it in between. It inherits that
	// interrupts are ignored, which holds until it handles them.
	signal.Ignore(os.Interrupt)
	err = cmd.Start()
	signal.Reset(os.Interrupt)
	require.NoError(t, err)
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	defer func() {
		_ = cmd.Process.Kill()
	}()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		resp, err := http.Get("http://" + health)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}, 30*time.Second, 20*time.Millisecond)
	var ended error
	require.Eventually(t, func() bool {
		select {
		case ended = <-exited:
			return true
		default:
			_ = cmd.Process.Signal(os.Interrupt) // fails after it has ended
			return false
		}
	}, 20*time.Second, 20*time.Millisecond, "the Collector did not end after an interrupt")
	require.NoError(t, ended, log.String())
	var volume int
	for name := range tree(t, root) {
		switch {
		case strings.HasPrefix(name, "var/lib/otelcol-llm/"):
			volume++
		default:
			assert.Contains(t, before, name, "written outside the volume")
		}
	}
	assert.Positive(t, volume, "the journal")
}

var owners = regexp.MustCompile(`^(\d+):(\d+)$`)

func ids(t *testing.T, text string) []int {
	t.Helper()
	match := owners.FindStringSubmatch(text)
	require.NotNil(t, match, "%q is not a pair of numeric ids", text)
	uid, err := strconv.Atoi(match[1])
	require.NoError(t, err)
	gid, err := strconv.Atoi(match[2])
	require.NoError(t, err)
	return []int{uid, gid}
}

// copyInto does what COPY does with files and with the content of a folder.
func copyInto(t *testing.T, root, source, target string, owner []int) {
	t.Helper()
	sources, err := filepath.Glob(source)
	require.NoError(t, err)
	require.NotEmpty(t, sources, source)
	for _, s := range sources {
		info, err := os.Stat(s)
		require.NoError(t, err)
		to := filepath.Join(root, target)
		if info.IsDir() {
			require.NoError(t, os.MkdirAll(to, 0o755))
			require.NoError(t, os.Chown(to, owner[0], owner[1]))
			continue
		}
		if strings.HasSuffix(target, "/") {
			to = filepath.Join(to, path.Base(s))
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		raw, err := os.ReadFile(s)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, raw, info.Mode().Perm()))
		require.NoError(t, os.Chown(to, owner[0], owner[1]))
	}
}

// tree returns every file under a folder.
func tree(t *testing.T, root string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(name string, _ fs.DirEntry, err error) error {
		names[name] = true
		return err
	}))
	return names
}

func free(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().String()
}
