package sessionfiles

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/semconv"
)

// said is what is said of a turn, as far as the law is about it.
type said struct {
	well  bool
	safe  bool            // it may be repeated without a person
	never map[string]bool // calls that are said not to have run
}

func saidOf(j *turns.Judged) said {
	s := said{well: j.State == turns.Well, never: make(map[string]bool)}
	if r := RecordOf(j); r != nil {
		s.safe = r.Text(semconv.RetrySafetyKey) == semconv.RetrySafetySafeAutoRetry.String()
	}
	if j.Plan != nil {
		for _, c := range j.Plan.NeverRan {
			s.never[c.ID] = true
		}
	}
	return s
}

// acted returns whether any tool of a turn may have run, and the calls that did.
func acted(t *turns.Turn) (ranAny bool, ran map[string]bool) {
	ran = make(map[string]bool)
	for _, c := range t.Calls {
		if !c.Partial && c.Outcome != event.Rejected {
			ranAny = true
			ran[c.ID] = true
		}
	}
	return ranAny, ran
}

// checkCut compares a file that was cut with the whole one: it is never said to be safe to repeat
// where the whole one shows that a tool may have run, and it does not end well before the whole
// one's answer is there, unless the model was asked once more after the cut.
func checkCut(tb testing.TB, a *Agent, whole, cut []turns.Judged, at int, asked bool) {
	tb.Helper()
	for i := range cut {
		if i >= len(whole) {
			return // what was cut off changed where turns begin: only for hostile files
		}
		s, w := saidOf(&cut[i]), saidOf(&whole[i])
		ranAny, ran := acted(whole[i].Turn)
		assert.False(tb, s.safe && ranAny, "%s cut at %d, turn %d: safe to repeat, and a tool ran", a.Name, at, i)
		assert.False(tb, s.safe && !w.safe && !w.well, "%s cut at %d, turn %d: safer than the whole file", a.Name, at, i)
		for id := range s.never {
			assert.False(tb, ran[id], "%s cut at %d, turn %d: a call is said not to have run, and it ran", a.Name, at, i)
		}
		if s.well && !asked {
			assert.Equal(tb, answers(cut[i].Turn), answers(whole[i].Turn), "%s cut at %d, turn %d: well before its last answer", a.Name, at, i)
		}
	}
}

// asked counts how often the model was asked once more.
func asked(log *event.Log) (n int) {
	for i := range log.Events {
		if k := log.Events[i].Kind; k == event.Owed || k == event.MaybeOwed {
			n++
		}
	}
	return n
}

// answers counts the complete answers of a turn.
func answers(t *turns.Turn) (n int) {
	for _, r := range t.Requests {
		if r.Complete {
			n++
		}
	}
	return n
}

// allCases returns the recorded sessions and those made by hand.
func allCases(tb testing.TB) []sessionCase {
	tb.Helper()
	list := casesIn(tb, "testdata")
	for _, c := range casesIn(tb, kindsDir) {
		c.made = true
		list = append(list, c)
	}
	return list
}

// TestCutAtEveryByte cuts every session at every byte. A sample in short mode, and with the race
// detector.
func TestCutAtEveryByte(t *testing.T) {
	step := 1
	if sample.Only() {
		step = 61
	}
	for _, c := range allCases(t) {
		t.Run(c.agent.Name+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			within := 17 // bytes between two cuts of a line
			if c.made {
				within = 307
			}
			for _, w := range []turns.Writer{turns.WriterDead, turns.WriterGone} {
				log := logOf(t, c.agent, c.raw)
				whole := judgeAll(log, c.agent, w)
				last := -1
				for at := 0; at < len(c.raw); at += step {
					// Only the end of a line changes what is read, and the half line after it.
					if lines := bytes.Count(c.raw[:at], []byte("\n")); lines == last && at%within != 0 {
						continue
					} else {
						last = lines
					}
					cut := logOf(t, c.agent, c.raw[:at])
					checkCut(t, c.agent, whole, judgeAll(cut, c.agent, w), at, asked(log) > asked(cut))
				}
			}
		})
	}
}

// TestUnknownVersion reads each session as that of a version that is not known: nothing is safe, and
// no call is said not to have run.
func TestUnknownVersion(t *testing.T) {
	for _, c := range allCases(t) {
		log := logOf(t, c.agent, c.raw)
		log.Version = "99.0.0"
		for i, j := range judgeAll(log, c.agent, turns.WriterDead) {
			s := saidOf(&j)
			assert.False(t, s.safe, "%s %s, turn %d", c.agent.Name, c.name, i)
			assert.Empty(t, s.never, "%s %s, turn %d", c.agent.Name, c.name, i)
		}
	}
}

// The fuzz targets read hostile sessions of an agent: no crash, and the law of cuts.

func FuzzCodex(f *testing.F)    { fuzzReader(f, Codex) }
func FuzzClaude(f *testing.F)   { fuzzReader(f, Claude) }
func FuzzOpenCode(f *testing.F) { fuzzReader(f, OpenCode) }
func FuzzQwen(f *testing.F)     { fuzzReader(f, Qwen) }
func FuzzPi(f *testing.F)       { fuzzReader(f, Pi) }
func FuzzGemini(f *testing.F)   { fuzzReader(f, Gemini) }
func FuzzCline(f *testing.F)    { fuzzReader(f, Cline) }

func fuzzReader(f *testing.F, name string) {
	f.Helper()
	a := Find(name)
	for _, c := range allCases(f) {
		if a == c.agent {
			f.Add(c.raw, uint16(len(c.raw)/2))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, cut uint16) {
		log := logOf(t, a, raw)
		whole := judgeAll(log, a, turns.WriterDead)
		for i := range whole {
			RecordOf(&whole[i])
		}
		part := judgeAll(logOf(t, a, raw[:int(cut)%(len(raw)+1)]), a, turns.WriterDead)
		if a.Name == Cline || !ordered(log) {
			return // a document is not longer than its beginning, and no agent writes times that go back
		}
		for i := range part {
			if i < len(whole) && sameTurn(&part[i], &whole[i]) {
				ranAny, _ := acted(whole[i].Turn)
				require.False(t, saidOf(&part[i]).safe && ranAny, "safe to repeat, and a tool ran")
			}
		}
	})
}

// sameTurn reports whether two turns are the same one, of a file and of its beginning.
func sameTurn(a, b *turns.Judged) bool { return a.ID == b.ID && a.Start.Equal(b.Start) }

// ordered reports whether the times of the events are those of one process that wrote them.
func ordered(log *event.Log) bool {
	for i := 1; i < len(log.Events); i++ {
		if a, b := log.Events[i-1].Time, log.Events[i].Time; !b.IsZero() && b.Before(a) {
			return false
		}
	}
	return true
}

// TestForeignJSON reads each session with the reader of every other agent.
func TestForeignJSON(t *testing.T) {
	for _, c := range allCases(t) {
		for _, a := range Agents {
			if a == c.agent {
				continue
			}
			for _, j := range judgeAll(logOf(t, a, c.raw), a, turns.WriterDead) {
				s := saidOf(&j)
				assert.False(t, s.safe, "%s of %s, read as %s", c.name, c.agent.Name, a.Name)
			}
		}
	}
}

// TestCanaries replaces every text of a session by one with content, one at a time and as far as it
// is not a name of the format: none of it is printed.
func TestCanaries(t *testing.T) {
	for _, c := range allCases(t) {
		t.Run(c.agent.Name+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			lines := bytes.Split(bytes.TrimSpace(c.raw), []byte("\n"))
			check := func(raw []byte) {
				for _, j := range judgeAll(logOf(t, c.agent, raw), c.agent, turns.WriterDead) {
					out, err := json.Marshal([]any{RecordOf(&j), j.Plan, j.ID, j.Source.Session, j.Model})
					require.NoError(t, err)
					for _, canary := range []string{"Canary", "4711", "anna", "canary", "sk-ant"} {
						assert.NotContains(t, string(out), canary)
					}
				}
			}
			check(c.raw)
			step := sample.Every(28)
			if c.made {
				step = max(step, 7)
			}
			n := 0
			for i := range lines {
				for _, canary := range []string{"Canary 4711: please transfer /home/anna/secret", "sk-ant-api03-canary4711AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"} {
					for _, changed := range replaced(t, lines[i], canary) {
						if n++; n%step != 0 {
							continue
						}
						copied := bytes.Join([][]byte{bytes.Join(lines[:i], []byte("\n")), changed, bytes.Join(lines[i+1:], []byte("\n"))}, []byte("\n"))
						check(bytes.TrimSpace(copied))
					}
				}
			}
		})
	}
}

// replaced returns a line of JSON with each of its texts replaced, one at a time.
func replaced(t *testing.T, line []byte, by string) (list [][]byte) {
	t.Helper()
	var doc any
	if json.Unmarshal(line, &doc) != nil {
		return nil // it was cut
	}
	var walk func(v any, set func(any))
	walk = func(v any, set func(any)) {
		switch v := v.(type) {
		case map[string]any:
			for key := range v {
				walk(v[key], func(to any) { v[key] = to })
			}
		case []any:
			for i := range v {
				walk(v[i], func(to any) { v[i] = to })
			}
		case string:
			set(by)
			out, err := json.Marshal(doc)
			require.NoError(t, err)
			set(v)
			list = append(list, out)
		}
	}
	walk(doc, func(any) {})
	return list
}
