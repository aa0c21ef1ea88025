package property

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/semconv"
)

// listingDisk is a disk that can list what it has, as file_storage can.
type listingDisk struct{ *harness.Disk }

func (d listingDisk) GetClient(ctx context.Context, kind component.Kind, id component.ID, name string) (storage.Client, error) {
	client, err := d.Disk.GetClient(ctx, kind, id, name)
	return listingClient{client.(harness.DiskClient)}, err
}

type listingClient struct{ harness.DiskClient }

func (c listingClient) Walk(_ context.Context, fn storage.WalkFunc) error {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(c.Content)) {
		if _, err := fn(key, c.Content[key]); err != nil {
			return err
		}
	}
	return nil
}

// damagedDisk is a small disk: spans that are held, one that has gone while its run is
// open, and a judged run.
func damagedDisk(t *testing.T) *harness.Disk {
	t.Helper()
	d := harness.NewDisk()
	h := harness.NewOn(t, d, harness.DefaultConfig(), nil, harness.T0)
	h.Consume(t, harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer)) // entry 0: goes, its run is open
	h.Pass(t, harness.MaxHold)
	h.Consume(t, harness.FinishedRun(2)[0]) // entry 1: done
	h.Consume(t, harness.FinishedRun(2)[1])
	h.Consume(t, harness.RequestSpan(2, 1, 31, 32).Answered("stop", harness.Answer).Of(3), harness.RequestSpan(3, 1, 32, 33).Answered("stop", harness.Answer)) // entry 3: held
	h.Consume(t, harness.RequestSpan(2, 1, 33, 34).Answered("stop", harness.Answer).Of(4))                                                                     // entry 4: held
	keys := slices.Sorted(maps.Keys(d.Content))
	require.Equal(t, []string{"0", "3", "4", "bounds", "states.0.0"}, keys)
	return d
}

// Whichever byte on a disk is wrong, and wherever a value ends: the processor starts and
// ends; what is not damaged comes out, once; and what is damaged stays on the disk, aside.
func TestAnyDamageOnTheDisk(t *testing.T) {
	whole := damagedDisk(t)
	id := component.MustNewID("file_storage")
	cfg := harness.DefaultConfig()
	cfg.Storage = &id
	settings := processortest.NewNopSettings(metadata.Type)
	for _, lists := range []bool{true, false} {
		start := func(t *testing.T, d *harness.Disk) map[string]int {
			t.Helper()
			sink := new(consumertest.TracesSink)
			clock := harness.NewClock()
			clock.Advance(harness.MaxHold)
			p := harness.Make(t, settings, cfg, sink, clock)
			host := hostWith{id: d}
			if lists {
				host = hostWith{id: listingDisk{d}}
			}
			require.NoError(t, p.Start(t.Context(), host))
			require.NoError(t, p.Shutdown(t.Context()))
			return spansOut(sink)
		}
		for key, value := range whole.Content {
			want := map[string]int{"1/3": 1, "3/2": 1, "4/2": 1}
			switch {
			case key == "states.0.0": // that it had gone is not known
				want["1/2"] = 1
			case key == "3":
				delete(want, "1/3")
				delete(want, "3/2")
			case key == "4":
				delete(want, "4/2")
			case key == "bounds" && !lists:
				want = map[string]int{}
			}
			if !lists && key != "bounds" {
				continue // no different
			}
			t.Run(fmt.Sprintf("%s, lists %t", key, lists), func(t *testing.T) {
				damaged := func(what string, value []byte) {
					d := whole.Copied()
					d.Content[key] = value
					require.Equal(t, want, start(t, d), what)
					require.Equal(t, value, d.Content["aside."+key], what)
				}
				for i := range value {
					if sample.Only() && i%32 > 0 {
						continue // takes long
					}
					for _, flip := range []byte{0xff, 1 << (i % 8)} {
						v := slices.Clone(value)
						v[i] ^= flip
						damaged(fmt.Sprintf("byte %d is flipped by %#x", i, flip), v)
					}
					damaged(fmt.Sprintf("cut at %d", i), slices.Clone(value[:i]))
				}
			})
		}
	}
}

// spansOut counts the spans that came out, by trace and span, and whether they were late.
// Spans that the processor adds do not count.
func spansOut(sink *consumertest.TracesSink) map[string]int {
	out := map[string]int{}
	for _, td := range sink.AllTraces() {
		harness.EachSpan(td, func(span ptrace.Span) {
			if span.Name() == semconv.SpanRunAbandoned {
				return
			}
			trace, id := span.TraceID(), span.SpanID()
			name := fmt.Sprintf("%d/%d", trace[len(trace)-1], id[len(id)-1])
			if harness.VerdictOf(span).Trigger == semconv.TriggerLate {
				name += " late"
			}
			out[name]++
		})
	}
	return out
}
