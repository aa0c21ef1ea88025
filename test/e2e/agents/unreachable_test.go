//go:build unix

package agents

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/test/built"
)

// The ways in which an upstream cannot be reached, and what `otelllm run --unreachable` can make of each.
var (
	unreachableKinds = []string{"refused", "host not found", "certificate"}
	unreachableForms = []string{"reset", "close", "refuse", "status"}
)

// aboutCertificates is the form that differs if the certificate is the reason.
const aboutCertificates = "status"

// byDefault is otelllm without the flag.
const byDefault = "run"

// reaction is what an agent did about an upstream that cannot be reached.
type reaction struct {
	Agent   string  `json:"agent"`
	What    string  `json:"what"` // a kind, directly; a form, or byDefault with a kind, through otelllm
	Exit    int     `json:"exit"`
	Seconds float64 `json:"seconds"` // until it gave up, or was ended
	Tries   bool    `json:"tries"`   // it was still trying at the end
}

// endurance is how long an agent may try. It is well beyond the last attempt of those that give up: Qwen Code may take 2 minutes.
const endurance = 4 * time.Minute

var reactions struct {
	mu   sync.Mutex
	list []reaction // guarded by mu
}

// unreachable returns a base URL of each kind, in the order of unreachableKinds.
func unreachable(t *testing.T) []string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	held, err := net.Dial("tcp", ln.Addr().String()) // whose own end is a port on which nothing listens
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = held.Close(), ln.Close() })
	srv := httptest.NewUnstartedServer(nil)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return []string{"http://" + held.LocalAddr().String(), gateway, srv.URL}
}

// TestUnreachable plays upstreams that cannot be reached to each agent, directly and through `otelllm run`. By default
// otelllm does what comes nearest for that agent.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	bin := built.Otelllm(t)
	for i := range agents {
		a := &agents[i]
		if a.settings || a.label != "" {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			argv := a.command(t)
			t.Parallel()
			bases := unreachable(t)
			through := func(form ...string) []string {
				return slices.Concat([]string{bin, "run", "--set", a.name}, form, []string{"--"}, argv)
			}
			for i, kind := range unreachableKinds {
				a.react(t, kind, bases[i], argv)
				a.react(t, byDefault+" "+kind, bases[i], through())
			}
			for _, form := range unreachableForms {
				a.react(t, form, bases[0], through("--unreachable", form))
			}
			a.react(t, aboutCertificates+" certificate", bases[2], through("--unreachable", aboutCertificates))
		})
	}
}

// react runs an agent once, as a test of its own.
func (a *agent) react(t *testing.T, what, base string, argv []string) {
	t.Helper()
	t.Run(what, func(t *testing.T) { a.reactOnce(t, what, base, argv) })
}

func (a *agent) reactOnce(t *testing.T, what, base string, argv []string) {
	t.Helper()
	h := a.home(t, base)
	t.Cleanup(func() { endDaemons(h.dir) })
	for _, arg := range a.args {
		argv = append(argv, strings.ReplaceAll(arg, "PROMPT", prompt))
	}
	var said bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = a.environment(h, base), h.work, &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	began := time.Now()
	require.NoError(t, cmd.Start())
	limit := time.AfterFunc(endurance, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer limit.Stop()
	_ = cmd.Wait() // its status is read below
	r := reaction{Agent: a.name, What: what, Exit: cmd.ProcessState.ExitCode(), Seconds: math.Round(time.Since(began).Seconds())}
	if r.Tries = !limit.Stop(); r.Tries {
		r.Exit, r.Seconds = 0, endurance.Seconds()
	}
	t.Logf("%s: %+v\n%s", what, r, said.String())
	if !slices.Contains(unreachableKinds, what) {
		assert.Contains(t, said.String(), "cannot be reached: ", "otelllm says it at once")
	}
	reactions.mu.Lock()
	defer reactions.mu.Unlock()
	reactions.list = append(reactions.list, r)
}

// says is a reaction in words.
func (r *reaction) says() string {
	if r.Tries {
		return fmt.Sprintf("still tries after %.0f s", r.Seconds)
	}
	return fmt.Sprintf("exit %d after %.0f s", r.Exit, r.Seconds)
}

// same reports whether two reactions are the same but for the time, which depends on what else the machine does.
func (r *reaction) same(other *reaction) bool { return r.Tries == other.Tries && r.Exit == other.Exit }

var unreachableFile = filepath.Join("testdata", "unreachable.jsonl")

func readReactions() (map[[2]string]reaction, error) {
	all := map[[2]string]reaction{}
	raw, err := os.ReadFile(unreachableFile)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		var r reaction
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, err
		}
		all[[2]string{r.Agent, r.What}] = r
	}
	return all, lines.Err()
}

// whats are all that is played, in the order of the recordings.
func whats() (list []string) {
	for _, kind := range unreachableKinds {
		list = append(list, kind, byDefault+" "+kind)
	}
	return append(append(list, unreachableForms...), aboutCertificates+" certificate")
}

// writeUnreachable writes the reactions, and the page.
func writeUnreachable() error {
	all, err := readReactions()
	if err != nil {
		return err
	}
	for _, r := range reactions.list {
		all[[2]string{r.Agent, r.What}] = r
	}
	var b bytes.Buffer
	for i := range agents {
		for _, what := range whats() {
			if r, ok := all[[2]string{agents[i].name, what}]; ok && agents[i].label == "" {
				line, err := json.Marshal(r)
				if err != nil {
					return err
				}
				b.Write(append(line, '\n'))
			}
		}
	}
	if err := os.WriteFile(unreachableFile, b.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(unreachablePage, []byte(unreachableText(all)), 0o644)
}

//go:embed unreachable.md
var unreachableHead string

var unreachablePage = filepath.Join("..", "..", "..", "docs", "agents-matrix", "unreachable.md")

func unreachableText(all map[[2]string]reaction) string {
	var b strings.Builder
	b.WriteString(unreachableHead)
	b.WriteString("| agent | cannot reach it: | directly | through `otelllm run` | |\n|---|---|---|---|---|\n")
	for _, name := range playedUnreachable(all) {
		for _, kind := range unreachableKinds {
			direct, through := all[[2]string{name, kind}], all[[2]string{name, byDefault + " " + kind}]
			sign := "differs"
			if direct.same(&through) {
				sign = "same"
			}
			_, _ = fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, kind, direct.says(), through.says(), sign)
		}
	}
	b.WriteString("\nWhat each agent does about the kinds that `--unreachable` has, and which of them come nearest to what it does directly:\n\n")
	b.WriteString("| agent | reset | close | refuse | status | status 421, for a certificate | nearest | nearest, for a certificate |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range playedUnreachable(all) {
		_, _ = fmt.Fprintf(&b, "| %s |", name)
		for _, form := range append(slices.Clone(unreachableForms), aboutCertificates+" certificate") {
			r := all[[2]string{name, form}]
			_, _ = fmt.Fprintf(&b, " %s |", r.says())
		}
		_, _ = fmt.Fprintf(&b, " %s | %s |\n", strings.Join(nearest(all, name, "refused", "host not found"), ", "), strings.Join(nearest(all, name, "certificate"), ", "))
	}
	return b.String()
}

// nearest returns the forms that are the same as what an agent does directly, over the most of some kinds.
func nearest(all map[[2]string]reaction, agent string, kinds ...string) (best []string) {
	most := 0
	for _, form := range unreachableForms {
		same := 0
		for _, kind := range kinds {
			what := form
			if kind == "certificate" && form == aboutCertificates {
				what += " certificate"
			}
			direct, through := all[[2]string{agent, kind}], all[[2]string{agent, what}]
			if direct.same(&through) {
				same++
			}
		}
		if same > most {
			most, best = same, nil
		}
		if same == most && same > 0 {
			best = append(best, form)
		}
	}
	return best
}

// playedUnreachable returns the agents that were played.
func playedUnreachable(all map[[2]string]reaction) (names []string) {
	for i := range agents {
		if _, ok := all[[2]string{agents[i].name, unreachableKinds[0]}]; ok && agents[i].label == "" {
			names = append(names, agents[i].name)
		}
	}
	return slices.Compact(names)
}

// The page is what was recorded.
func TestUnreachablePage(t *testing.T) {
	if *update {
		t.Skip("it is about to be written")
	}
	all, err := readReactions()
	require.NoError(t, err)
	page, err := os.ReadFile(unreachablePage)
	require.NoError(t, err)
	assert.Equal(t, unreachableText(all), string(page), "make agents-matrix-pages writes it")
}
