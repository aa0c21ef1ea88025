//go:build unix

package agents

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/semconv"
)

// unrecorded are the faults of which an agent records in none of its signals what happened:
// by agent and fault, and why. Of all others it is supposed to record it, also where nothing
// of it was exported and the reason is not known.
var unrecorded = map[string]map[string]string{
	"codex": {
		"gzip_unasked": "that it cannot read the answers is in the text of a message",
	},
	"codex-websocket": {
		"inband": "the cause is in the text of a message",
		"stall":  "the request that is open when it is interrupted has no record of its end",
	},
	"claude": {
		"reset_headers": "`Connection error.` is any failure before a response, also of connecting",
		"tool_reset":    "`Connection error.` is any failure before a response, also of connecting",
		"inband":        "its error class is `unknown`; the cause is in the text of a message",
		"stall":         "the request that is open when it is interrupted has no span and no record",
	},
	"gemini": {
		"inband":    "`NO_FINISH_REASON`, which is the same for a clean end",
		"clean_eof": "`NO_FINISH_REASON`, which is the same for an error in the stream",
		"stall":     "`terminated`, which is the same for a broken connection",
	},
	"qwen": {
		"r429_ok": "the client below it tries again, and it records one attempt",
		"stall":   "the request that is open when it is interrupted has no span",
	},
	"opencode": {
		"reset_text":       "the attempts that failed have no span",
		"reset_text_once":  "the attempt that failed has no span",
		"reset_tool_input": "the attempts that failed have no span",
		"truncated":        "the attempts that failed have no span",
		"r500":             "the error of an attempt has neither status nor code",
		"overloaded":       "the error of an attempt has neither status nor code",
		"unauthorized":     "the error of an attempt has neither status nor code",
		"inband":           "the attempts that failed have no span",
		"clean_eof":        "the finish reason `other`, which a provider's own may be, too",
		"stall":            "the request that is open when it is interrupted has no span",
	},
}

// mended are the cells with a wrong verdict that was mended after they were played. A cell
// that is played again must be removed.
var mended = map[[3]string]string{}

// share is how many of the cells are right in which an agent records what happened, by all
// that it exports.
type share struct{ right, of int }

func (m *table) share() (s share) {
	for _, agent := range m.agents {
		for _, fault := range m.faults {
			r, ok := m.cells[[3]string{agent, fault, byLogs}]
			if !ok {
				r, ok = m.cells[[3]string{agent, fault, bySpans}]
			}
			if _, silent := unrecorded[agent][fault]; !ok || silent {
				continue
			}
			s.of++
			if r.Mark == right {
				s.right++
			}
		}
	}
	return s
}

// reasons is a table of what agents do not record.
func (m *table) reasons() string {
	var b strings.Builder
	b.WriteString("| agent | fault | what it records |\n|---|---|---|\n")
	for _, agent := range m.agents {
		for _, fault := range m.faults {
			if why, ok := unrecorded[agent][fault]; ok {
				_, _ = fmt.Fprintf(&b, "| %s | %s | %s |\n", agent, strings.ReplaceAll(fault, "_", " "), why)
			}
		}
	}
	return b.String()
}

func storedResults(t *testing.T) *table {
	t.Helper()
	list, err := readResults(filepath.Join("..", "..", "..", "docs", "agents-matrix", "results.jsonl"))
	require.NoError(t, err)
	return newTable(list)
}

// No verdict of the whole matrix is wrong, and none calls a retry safe that is not.
func TestResultsAreNotWrong(t *testing.T) {
	m := storedResults(t)
	require.Greater(t, len(m.cells), 200)
	for cell, r := range m.cells {
		if why, ok := mended[cell]; ok {
			assert.Equal(t, wrong, r.Mark, "%s was played again: it is no longer to be listed as mended: %s", cell, why)
			continue
		}
		assert.NotContains(t, []mark{wrong, unsafe}, r.Mark, "%s: %s: %s", cell, r.Did, r.Said)
	}
	for cell := range mended {
		assert.Contains(t, m.cells, cell)
	}
}

// Of the cells in which an agent records what happened, three quarters are to be right.
func TestResultsAreRight(t *testing.T) {
	for agent, of := range unrecorded {
		for fault := range of {
			require.NotNil(t, faultOf(agent, fault), "%s: %s", agent, fault)
		}
	}
	// It is what was reached, so that it does not become less.
	reached := share{right: 61, of: 70}
	s := storedResults(t).share()
	assert.GreaterOrEqual(t, s.right*reached.of, reached.right*s.of, "%d of %d", s.right, s.of)
}

// What an agent exports gives the class that is seen from outside, or a more careful one.
func TestClassesAcrossWays(t *testing.T) {
	compared := 0
	m := storedResults(t)
	for _, agent := range m.agents {
		for _, fault := range m.faults {
			outside, ok := m.cells[[3]string{agent, fault, byProxy}]
			if !ok {
				continue
			}
			want := classesOf(t, outside.Said)
			if slices.Contains(slices.Collect(maps.Keys(want)), semconv.ClassLocalAbort) {
				want[semconv.ClassWatchdogTimeout] = true // from outside an agent's own timer is a reader that stops
			}
			for _, way := range []string{bySpans, byLogs} {
				cell := [3]string{agent, fault, way}
				r, ok := m.cells[cell]
				if _, later := mended[cell]; !ok || later {
					continue
				}
				for class := range classesOf(t, r.Said) {
					// A run that recovered has no class. What failed before it does.
					if len(want) == 0 && faultOf(agent, fault).breaks() {
						assert.Contains(t, faultOf(agent, fault).classes, class, "%s", cell)
						continue
					}
					assert.True(t, want[class], "%s: %s, and from outside %s", cell, class, outside.Said)
					compared++
				}
			}
		}
	}
	assert.Greater(t, compared, 30)
}

// classesOf are the classes that are stated.
func classesOf(t *testing.T, said []string) map[semconv.Class]bool {
	t.Helper()
	classes := make(map[semconv.Class]bool)
	for _, words := range said {
		v, err := verdictOf(words)
		require.NoError(t, err)
		if v.class != semconv.ClassUnset && v.class != semconv.ClassUnclassified {
			classes[v.class] = true
		}
	}
	return classes
}
