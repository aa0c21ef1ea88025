package llmclassify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pipeline"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/semconv"
)

// disks is a storage extension with a disk for each client, as file_storage has a file. One
// that is open cannot be opened again.
type disks struct {
	component.StartFunc
	component.ShutdownFunc
	named map[string]*disk
	open  map[string]bool
	spoil any // GetClient panics with it
}

func newDisks() *disks { return &disks{named: map[string]*disk{}, open: map[string]bool{}} }

var errLocked = errors.New("timeout")

func (d *disks) GetClient(_ context.Context, _ component.Kind, id component.ID, name string) (storage.Client, error) {
	if d.spoil != nil {
		panic(d.spoil)
	}
	name = id.String() + " " + name
	if d.open[name] {
		return nil, errLocked
	}
	d.open[name] = true
	if d.named[name] == nil {
		d.named[name] = newDisk()
	}
	return lockedClient{diskClient{d.named[name]}, func() { delete(d.open, name) }}, nil
}

type lockedClient struct {
	diskClient
	unlock func()
}

func (c lockedClient) Close(context.Context) error { c.unlock(); return nil }

// copied is what a process that is killed now leaves.
func (d *disks) copied() *disks {
	c := newDisks()
	for name, each := range d.named {
		c.named[name] = each.copied()
	}
	return c
}

// pipelineHost is a host as the Collector makes one for each instance of a component.
type pipelineHost struct {
	hostWith
	InstanceID *componentstatus.InstanceID
}

// collector is one process: a processor in some pipelines.
type collector struct {
	t       *testing.T
	storage *disks
	cfg     *Config
	made    []string // names of pipelines, in the order in which they are made and started
	byName  map[string]processor.Traces
	sinks   map[string]*consumertest.TracesSink
	logs    *observer.ObservedLogs
	// anonymous: the host does not tell the pipeline
	anonymous bool
}

func newCollector(t *testing.T, d *disks, pipelines ...string) *collector {
	t.Helper()
	id := component.MustNewID("file_storage")
	cfg := defaultConfig()
	cfg.Storage = &id
	return &collector{t: t, storage: d, cfg: cfg, made: pipelines, byName: map[string]processor.Traces{}, sinks: map[string]*consumertest.TracesSink{}}
}

// start makes all instances, and then starts them, until one fails.
func (c *collector) start() error {
	core, logs := observer.New(zap.InfoLevel)
	c.logs = logs
	factory := NewFactory()
	for _, name := range c.made {
		c.sinks[name] = new(consumertest.TracesSink)
		set := processortest.NewNopSettings(metadata.Type)
		set.ID = component.NewID(metadata.Type)
		set.Logger = zap.New(core)
		p, err := factory.CreateTraces(c.t.Context(), set, c.cfg, c.sinks[name])
		require.NoError(c.t, err)
		c.byName[name] = p
	}
	for _, name := range c.made {
		var host component.Host = hostWith{*c.cfg.Storage: c.storage}
		if !c.anonymous {
			id := pipeline.NewIDWithName(pipeline.SignalTraces, name)
			host = &pipelineHost{
				hostWith{*c.cfg.Storage: c.storage},
				componentstatus.NewInstanceID(component.NewID(metadata.Type), component.KindProcessor, id),
			}
		}
		if err := c.byName[name].Start(c.t.Context(), host); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) stop() {
	c.t.Helper()
	for _, p := range c.byName {
		require.NoError(c.t, p.Shutdown(context.WithoutCancel(c.t.Context())))
	}
	assert.Empty(c.t, c.storage.open, "every client is closed")
}

func (c *collector) consume(name string, specs ...spanSpec) {
	c.t.Helper()
	require.NoError(c.t, c.byName[name].ConsumeTraces(c.t.Context(), tracesOf(c.t, specs...)))
}

// kill waits until this many spans are in the storage, and returns what a process that is
// killed then leaves.
func (c *collector) kill(held int) (left *disks) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		n := 0
		for _, d := range c.storage.named {
			n += len(d.entries())
		}
		return n == held
	}, 10*time.Second, time.Millisecond)
	left = c.storage.copied()
	c.stop()
	return left
}

// came are the traces that went out by a pipeline.
func (c *collector) came(name string) []string {
	found := map[string]bool{}
	for _, td := range c.sinks[name].AllTraces() {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					found[span.TraceID().String()] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func ids(traces ...byte) (list []string) {
	for _, n := range traces {
		list = append(list, traceID(n).String())
	}
	return list
}

// unendedRun is a request of a run that has not ended: it is held.
func unendedRun(trace byte) spanSpec {
	return requestSpan(2, 1, 0.1, 1).answered("stop", answer).of(trace)
}

// What was held in one pipeline goes out by that pipeline, in whichever order the instances
// start, however many there are.
func TestPipelinesKeepApart(t *testing.T) {
	d := newDisks()
	for life, order := range [][]string{{"a", "b", ""}, {"", "b", "a"}, {"b", "a", ""}, {"a", "", "b"}} {
		c := newCollector(t, d, order...)
		require.NoError(t, c.start())
		if life > 0 { // the runs of the last life end
			for i, name := range []string{"a", "b", ""} {
				trace := byte(3*(life-1) + i + 1)
				c.consume(name, runSpan(1, 0, 3, 1, 0).of(trace))
			}
		}
		for i, name := range []string{"a", "b", ""} {
			c.consume(name, unendedRun(byte(3*life+i+1)))
		}
		d = c.kill(3)
		for i, name := range []string{"a", "b", ""} {
			want := ids(byte(3*life + i + 1))
			if life > 0 {
				want = ids(byte(3*(life-1)+i+1), byte(3*life+i+1))
			}
			assert.Equal(t, want, c.came(name), "life %d, pipeline %q", life, name)
			for _, td := range c.sinks[name].AllTraces() {
				assertOneRunEach(t, td)
			}
		}
		assert.Zero(t, c.logs.FilterLevelExact(zap.WarnLevel).Len())
	}
	assert.Equal(t, []string{"llm_classify traces", "llm_classify traces_", "llm_classify traces_b"}, slices.Sorted(maps.Keys(d.named)))
}

// assertOneRunEach: no run is judged more than once, and none as abandoned.
func assertOneRunEach(t *testing.T, td ptrace.Traces) {
	t.Helper()
	for _, outcome := range runOutcomes(td) {
		assert.Contains(t, []semconv.RunOutcome{semconv.RunOutcomeSucceeded, semconv.RunOutcomeIncomplete}, outcome)
	}
}

// A pipeline that is added takes nothing of the one that was there, and a pipeline that
// stays takes nothing of one that is gone.
func TestPipelineIsAddedAndRemoved(t *testing.T) {
	d := newDisks()
	live := func(pipelines []string, held int, also func(*collector)) *collector {
		c := newCollector(t, d, pipelines...)
		require.NoError(t, c.start())
		also(c)
		d = c.kill(held)
		return c
	}
	live([]string{"a"}, 1, func(c *collector) { c.consume("a", unendedRun(1)) })
	c := live([]string{"b", "a"}, 2, func(c *collector) {
		c.consume("a", runSpan(1, 0, 3, 1, 0).of(1))
		c.consume("b", unendedRun(2))
		c.consume("a", unendedRun(3))
	})
	assert.Equal(t, ids(1, 3), c.came("a"))
	assert.Equal(t, ids(2), c.came("b"))
	c = live([]string{"b"}, 1, func(c *collector) { c.consume("b", runSpan(1, 0, 3, 1, 0).of(2)) })
	assert.Equal(t, ids(2), c.came("b"), "what a held waits for a")
	assert.Equal(t, 1, c.logs.FilterMessageSnippet("journal of another pipeline").Len())
	c = live([]string{"a"}, 1, func(*collector) {})
	assert.Equal(t, ids(3), c.came("a"))
}

// What an earlier version stored does not say from which pipeline it is. Where there are
// several, the one that takes it says so.
func TestPipelinesAfterEarlierVersion(t *testing.T) {
	d := newDisks()
	c := newCollector(t, d, "a")
	c.anonymous = true
	require.NoError(t, c.start())
	c.consume("a", unendedRun(1))
	d = c.kill(1)

	one := newCollector(t, d.copied(), "a")
	require.NoError(t, one.start())
	assert.Zero(t, one.logs.FilterLevelExact(zap.WarnLevel).Len())
	one.stop()
	assert.Equal(t, ids(1), one.came("a"))

	two := newCollector(t, d.copied(), "b", "a")
	require.NoError(t, two.start())
	assert.Equal(t, 1, two.logs.FilterMessageSnippet("does not say from which pipeline").Len())
	two.stop()
	assert.Equal(t, ids(1), two.came("b"))
}

// An instance does not take a journal that may be the one of another pipeline.
func TestPipelinesWithUnreadableOwner(t *testing.T) {
	d := newDisks()
	c := newCollector(t, d, "a")
	require.NoError(t, c.start())
	c.consume("a", unendedRun(1))
	d = c.kill(1)
	d.named["llm_classify traces"].content["owner"][9] ^= 1

	several := newCollector(t, d.copied(), "a", "b")
	require.NoError(t, several.start())
	several.stop()
	assert.Empty(t, several.came("a"))
	assert.Empty(t, several.came("b"))

	alone := newCollector(t, d.copied(), "a")
	require.NoError(t, alone.start())
	alone.stop()
	assert.Equal(t, ids(1), alone.came("a"))
}

// A host that does not tell the pipeline is enough for one; several do not start, before
// anything of one goes out by another.
func TestPipelinesOfAnonymousHost(t *testing.T) {
	d := newDisks()
	c := newCollector(t, d, "a", "b")
	require.NoError(t, c.start())
	c.consume("a", unendedRun(1))
	d = c.kill(1)

	several := newCollector(t, d, "b", "a")
	several.anonymous = true
	require.ErrorContains(t, several.start(), `"llm_classify" is in several pipelines`)
	several.stop()
	assert.Empty(t, several.came("b"))

	alone := newCollector(t, d, "a")
	alone.anonymous = true
	require.NoError(t, alone.start())
	alone.stop()
	assert.Equal(t, ids(1), alone.came("a"))
	for _, host := range []component.Host{
		nil,
		hostWith{},
		reporter(nil), (*pipelineHost)(nil), &pipelineHost{},
		&pipelineHost{InstanceID: componentstatus.NewInstanceID(component.NewID(metadata.Type), component.KindProcessor)},
		&struct {
			hostWith
			InstanceID string
		}{},
		&struct {
			hostWith
			instanceID *componentstatus.InstanceID
		}{},
	} {
		_, known := pipelineOf(host)
		assert.False(t, known, "%T", host)
	}
}

// A start that fails says what is wrong, and leaves nothing open.
func TestStartFails(t *testing.T) {
	d := newDisks()
	c := newCollector(t, d, "a")
	d.open["llm_classify traces"] = true
	require.ErrorIs(t, c.start(), errLocked, "another process has it")
	delete(d.open, "llm_classify traces")
	c.stop()

	for n := range 6 { // of the reads and writes at the start each in turn
		c = newCollector(t, d, "a")
		left := n
		disk := newDisk()
		disk.failAfter(&left)
		d.named["llm_classify traces"] = disk
		require.ErrorIs(t, c.start(), errDown)
		disk.fail, disk.asks = nil, nil
		c.stop()
	}

	for _, damage := range []any{"freepages: failed to get all reachable pages", errors.New("page 7 is what?")} {
		d.spoil = damage
		c = newCollector(t, d, "a")
		require.ErrorContains(t, c.start(), "its data is damaged, move it aside: "+fmt.Sprint(damage))
		d.spoil = nil
		c.stop()
	}
}
