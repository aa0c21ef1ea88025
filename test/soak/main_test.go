package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/test/built"
	"github.com/otelllm/otelllm-go/test/soak/internal/ledger"
)

func TestFlags(t *testing.T) {
	o, err := given([]string{"-root", "x"})
	require.NoError(t, err)
	assert.Equal(t, filepath.Join("x", "build", "otelcol-llm"), o.bin)
	stops, kills, lasts := 0, 0, time.Duration(0)
	for _, p := range o.parts() {
		stops, kills, lasts = stops+p.stops, kills+p.kills, lasts+p.lasts
		assert.Equal(t, p.name != "calm", p.bounded)
		assert.Equal(t, p.kills > 0, p.storage, "without a storage a kill loses what is held")
	}
	assert.Equal(t, 6, stops)
	assert.Equal(t, 10, kills)
	assert.Equal(t, o.duration, lasts)

	o, err = given([]string{"-short"})
	require.NoError(t, err)
	assert.Equal(t, 16*time.Second, o.duration)
	assert.Equal(t, []int{2, 2}, []int{o.stops, o.kills})
	assert.Less(t, o.limits().runTimeout, 10*time.Second)
	o, err = given([]string{"-short", "-kills", "5", "-storage=false"})
	require.NoError(t, err)
	assert.Equal(t, 5, o.kills, "explicit flags override the short form")
	assert.Len(t, o.parts(), 2)

	for _, wrong := range []string{"-fail=1", "-fail=-0.1", "-duration=1s", "-open=0", "-stops=-1", "more"} {
		_, err := given([]string{wrong})
		require.Error(t, err, wrong)
	}
}

func TestNoCollector(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), []string{"-root", t.TempDir()}, t.Output()), "make collector")
}

func TestFiguresShowFailures(t *testing.T) {
	var text strings.Builder
	s := &soak{say: func(format string, args ...any) { _, _ = text.WriteString(strings.TrimSpace(format)) }}
	o := outcome{loaded: time.Second}
	assert.False(t, o.print(s, 10))
	for range 3 {
		o.problems = append(o.problems, ledger.Problem{What: ledger.Lost, Why: "why"}.String())
	}
	assert.True(t, o.print(s, 2))
	assert.Contains(t, text.String(), "FAILED")
	assert.Contains(t, text.String(), "and %d more")
	assert.Equal(t, "not available on this system", size(0))
	assert.Equal(t, "1.5 MiB", size(3<<19))
}

func TestPartThatProvesNothing(t *testing.T) {
	o := outcome{part: part{fail: 0.3}, figures: ledger.Figures{Sent: 100, Unanswered: 50, Runs: 10, Unnoted: 10}}
	assert.Len(t, o.idle(), 4)
	o = outcome{figures: ledger.Figures{Sent: 100, Acknowledged: 100, Runs: 10}}
	assert.Empty(t, o.idle())
	if runtime.GOOS == "linux" {
		o.part.fills = 1
		assert.Equal(t, []string{"it proves nothing: no write failed while the disk was full"}, o.idle())
		o.unwritten = 1
		assert.Empty(t, o.idle())
	}
}

func TestWatched(t *testing.T) {
	const name = "otelcol_processor_llm_classify_"
	page := name + "bytes_held 5\n" + name + `storage_writes{success="false"} 3` + "\n" + name + `storage_writes{success="true"} 100` + "\n"
	w := watchedOn([]byte(page))
	assert.Equal(t, watched{held: 5, unwritten: 3}, w)
	assert.Equal(t, watched{held: 7, unwritten: 3}, w.most(watched{held: 7}))
}

func TestLossLines(t *testing.T) {
	c := &collector{dir: t.TempDir(), lives: 2}
	require.NoError(t, os.WriteFile(c.log(0), []byte("info\tall is well\nerror\t3 classified spans are lost: why\n"), 0o600))
	require.NoError(t, os.WriteFile(c.log(1), []byte("info\tall is well\n"), 0o600))
	assert.Equal(t, []string{"life 1: error\t3 classified spans are lost: why"}, c.lossLines())
}

// TestSoak runs a soak of some seconds against the built Collector.
func TestSoak(t *testing.T) {
	bin := built.Collector(t)
	args := []string{
		"-root", built.Root(t), "-collector", bin, "-short", "-duration", "5s", "-open", "20",
		"-stops", "1", "-kills", "2", "-dir", t.TempDir(),
	}
	require.NoError(t, run(t.Context(), args, t.Output()))
}

// CI tries a soak again only if its last line says that all of it depends on time.
func TestTriedAgain(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(built.Root(t), ".ci", "run"))
	require.NoError(t, err)
	text, _, _ := strings.Cut(errTime.Error(), ",")
	assert.Contains(t, string(script), "'^soak: "+text+", but only in what depends on time'")
	assert.NotContains(t, errFailed.Error(), "depends on time")
	for what, again := range map[string]bool{
		ledger.Lost: false, ledger.LessCareful: false, ledger.WrongVerdict: false, ledger.Altered: false, ledger.Invented: false,
		ledger.Doubled: true, ledger.NotJudged: true, "a new kind": false,
	} {
		assert.Equal(t, again, ledger.Problem{What: what}.DependsOnTime(), what)
	}
}
