package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/retry"
	"github.com/otelllm/otelllm-go/semconv"
)

// TestKilledSchedules plays schedules as [TestSchedules] does, to agents in processes of their own
// that keep what they do in a store. SIGKILL ends them before a tool, within it, after it, and, of an
// agent that executes calls as they arrive, within an answer. The next start obeys the plan for
// what the store has. Nothing is paid twice, and each agent comes to its end.
func TestKilledSchedules(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGKILL")
	}
	schedules := 2_000 / sample.Every(100)
	m := startModel(t)
	killed, resumed, asked, due := 0, 0, 0, 0
	for seed := range schedules {
		r := rand.New(rand.NewPCG(uint64(seed), 47))
		p := &play{r: r, anthropic: r.IntN(2) == 0, texts: r.IntN(2) == 0, faults: r.IntN(5), payments: 1 + r.IntN(3), ids: r.IntN(3)}
		s := store{Dir: t.TempDir(), Anthropic: p.anthropic, Eager: r.IntN(3) == 0, Declared: r.IntN(2) == 0, Turns: r.IntN(2) == 0}
		s.URL = m.add(fmt.Sprint("k", seed), p)
		seeds := rand.New(rand.NewPCG(uint64(seed), 59)) // from here on r is the model's, which may still serve a killed agent
		lives := 0
		for over := false; !over; lives++ {
			require.Less(t, lives, 100, "%+v does not come to an end\n%s", s, m.logOf(p))
			s.Seed = seeds.Uint64()
			switch out, code := s.start(t); code {
			case 0:
				over = true
			case -1:
				killed++
			case gaveUp: // a person starts it again
			default:
				t.Fatalf("%+v ended with %d: %s\n%s", s, code, out, m.logOf(p))
			}
		}
		if lives > 1 {
			resumed++
		}
		paid := s.lines("paid")
		slices.Sort(paid)
		require.Len(t, slices.Compact(slices.Clone(paid)), len(paid), "%+v paid %v\n%s", s, paid, m.logOf(p))
		require.Len(t, paid, p.payments)
		for _, question := range s.lines("asked") {
			asked++
			if question == "paid" {
				due++
			}
		}
	}
	t.Logf("%d schedules: %d kills, %d agents started again, which asked %d times what a call did that may have run; it had run %d times", schedules, killed, resumed, asked, due)
	assert.Greater(t, killed, schedules/2)
	if schedules >= 1_000 {
		assert.Positive(t, due)
	}
}

// gaveUp is the status of an agent that gave up.
const gaveUp = 3

// store is what an agent keeps, in a folder: the calls that it begins and ends. Outside of it the
// payments count.
type store struct {
	Dir, URL                          string
	Anthropic, Eager, Declared, Turns bool
	Seed                              uint64

	r     *rand.Rand
	steps []storedStep
}

// storedStep is a call in a store.
type storedStep struct {
	ID, Arguments string
	Ended         bool
	Never         bool // it began, and did not run
}

const storeEnv = "OTELLLM_RETRY_STORE"

func TestMain(m *testing.M) {
	if s := os.Getenv(storeEnv); s != "" {
		os.Exit(runKilled(s))
	}
	os.Exit(m.Run())
}

// start runs the agent in a process, and returns what it printed and its status: -1 if it was killed.
func (s *store) start(t *testing.T) (string, int) {
	t.Helper()
	config, err := json.Marshal(s)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this test
	cmd.Env = append(os.Environ(), storeEnv+"="+string(config))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// runKilled is the agent's process.
func runKilled(config string) int {
	s := &store{}
	if err := json.Unmarshal([]byte(config), s); err != nil {
		panic(err)
	}
	s.r = rand.New(rand.NewPCG(s.Seed, 53))
	a := &schedule{
		play: &play{anthropic: s.Anthropic, now: time.Unix(1_800_000_000, 0)}, url: s.URL, eager: s.Eager, declared: s.Declared, turns: s.Turns,
		effect: otelllm.EffectNonIdempotent, paid: map[int]int{}, store: s,
		http: &http.Client{Transport: otelllm.NewTransport(&http.Transport{DisableKeepAlives: true})},
	}
	a.policy = retry.Policy{Ask: a.ask, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
	a.history = s.resume()
	a.play.payments = len(a.history) + 10
	err := a.work(context.Background())
	switch {
	case a.unasked > 0:
		fmt.Println("something was repeated, and no one was asked:", err)
		return 4
	case err != nil:
		fmt.Println(err)
		return gaveUp
	default:
		return 0
	}
}

// resume returns the history to go on from, by the plan for what the store has. A person is asked about
// a call that may have run, and knows.
func (s *store) resume() (history []step) {
	run := classify.Run{Start: time.Unix(1, 0), Ended: classify.No, ToolsRecorded: classify.Yes}
	for _, line := range s.lines("steps") {
		var stored storedStep
		if err := json.Unmarshal([]byte(line), &stored); err != nil {
			panic(err)
		}
		if stored.Ended || stored.Never {
			s.steps = s.steps[:len(s.steps)-1] // its beginning
		}
		if !stored.Never {
			s.steps = append(s.steps, stored)
		}
	}
	if len(s.steps) == 0 {
		return nil
	}
	for i, stored := range s.steps { // one after the other
		tool := classify.Tool{Start: run.Start.Add(time.Duration(i) * time.Second), CallID: stored.ID, Name: "pay", Effect: semconv.ToolEffectNonIdempotent}
		if stored.Ended {
			tool.End, tool.Outcome, tool.Delivery = tool.Start.Add(time.Second), semconv.ToolOutcomeSucceeded, semconv.OutputDeliveryCached
		}
		run.Tools = append(run.Tools, tool)
	}
	run.AnnouncedRequests, run.AnnouncedTools = classify.Counted(0), classify.Counted(len(run.Tools))
	plan := classify.PlanRun(&run)
	if ended := len(s.steps) - len(plan.MayHaveRun); len(plan.Ran) != ended || len(plan.MayHaveRun) > 1 || plan.More {
		panic(fmt.Sprintf("the plan is not that of the store %+v: %v", s.steps, plan))
	}
	last := &s.steps[len(s.steps)-1]
	if (plan.Send == semconv.ResumeSendRest) != last.Ended { // it may have run
		panic(plan.String())
	}
	if !last.Ended {
		last.Ended = s.asked(last)
		last.Never = !last.Ended
		s.write("steps", last)
	}
	for _, stored := range s.steps {
		if stored.Ended {
			history = append(history, step{stored.ID, stored.Arguments})
		}
	}
	return history
}

// asked asks the person whether a call ran.
func (s *store) asked(call *storedStep) bool {
	paid := slices.Contains(s.lines("paid"), strconv.Itoa(invoiceOf(call.Arguments)))
	s.append("asked", map[bool]string{true: "paid", false: "not paid"}[paid])
	return paid
}

// pay executes a call. The process may die before it, within it, and after it.
func (s *store) pay(call step, invoice int) {
	s.mayDie()
	s.write("steps", &storedStep{ID: call.id, Arguments: call.arguments})
	s.mayDie()
	s.append("paid", strconv.Itoa(invoice))
	s.mayDie()
	s.write("steps", &storedStep{ID: call.id, Arguments: call.arguments, Ended: true})
	s.mayDie()
}

func (s *store) mayDie() {
	if s.r.IntN(12) != 0 {
		return
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	time.Sleep(time.Minute) // the signal may take a moment
}

func (s *store) write(file string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	s.append(file, string(text))
}

func (s *store) append(file, line string) {
	f, err := os.OpenFile(filepath.Join(s.Dir, file), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.WriteString(line + "\n")
		_ = f.Close()
	}
	if err != nil {
		panic(err)
	}
}

func (s *store) lines(file string) (lines []string) {
	f, err := os.Open(filepath.Join(s.Dir, file))
	if err != nil {
		return nil // nothing was written yet
	}
	defer f.Close()
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	return lines
}
