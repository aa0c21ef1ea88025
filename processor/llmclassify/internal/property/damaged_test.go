package llmclassify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/otelllm/otelllm-go/internal/race"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/metadata"
	"github.com/otelllm/otelllm-go/semconv"
)

// listingDisk is a disk that can list what it has, as file_storage can.
type listingDisk struct{ *disk }

func (d listingDisk) GetClient(ctx context.Context, kind component.Kind, id component.ID, name string) (storage.Client, error) {
	client, err := d.disk.GetClient(ctx, kind, id, name)
	return listingClient{client.(diskClient)}, err
}

type listingClient struct{ diskClient }

func (c listingClient) Walk(_ context.Context, fn storage.WalkFunc) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(c.content)) {
		if _, err := fn(key, c.content[key]); err != nil {
			return err
		}
	}
	return nil
}

// damagedDisk is a small disk: spans that are held, one that has gone while its run is
// open, and a judged run.
func damagedDisk(t *testing.T) *disk {
	t.Helper()
	d := newDisk()
	h := newHarnessOn(t, d, defaultConfig(), nil, t0)
	h.consume(t, requestSpan(2, 1, 0.1, 1).answered("stop", answer)) // entry 0: goes, its run is open
	h.pass(t, xMaxHold)
	h.consume(t, finishedRun(2)[0]) // entry 1: done
	h.consume(t, finishedRun(2)[1])
	h.consume(t, requestSpan(2, 1, 31, 32).answered("stop", answer).of(3), requestSpan(3, 1, 32, 33).answered("stop", answer)) // entry 3: held
	h.consume(t, requestSpan(2, 1, 33, 34).answered("stop", answer).of(4))                                                     // entry 4: held
	keys := slices.Sorted(maps.Keys(d.content))
	require.Equal(t, []string{"0", "3", "4", "bounds", "states.0.0"}, keys)
	return d
}

// Whichever byte on a disk is wrong, and wherever a value ends: the processor starts and
// ends; what is not damaged comes out, once; and what is damaged stays on the disk, aside.
func TestAnyDamageOnTheDisk(t *testing.T) {
	whole := damagedDisk(t)
	id := component.MustNewID("file_storage")
	cfg := defaultConfig()
	cfg.Storage = &id
	settings := processortest.NewNopSettings(metadata.Type)
	for _, lists := range []bool{true, false} {
		start := func(t *testing.T, d *disk) map[string]int {
			t.Helper()
			sink := new(consumertest.TracesSink)
			clock := newManualClock()
			clock.advance(xMaxHold)
			p := newInside(t, settings, cfg, sink, clock)
			host := hostWith{id: d}
			if lists {
				host = hostWith{id: listingDisk{d}}
			}
			require.NoError(t, p.Start(t.Context(), host))
			require.NoError(t, p.Shutdown(t.Context()))
			return spansOut(sink)
		}
		for key, value := range whole.content {
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
					d := whole.copied()
					d.content[key] = value
					require.Equal(t, want, start(t, d), what)
					require.Equal(t, value, d.content["aside."+key], what)
				}
				for i := range value {
					if race.Enabled && i%16 > 0 {
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
		eachSpan(td, func(span ptrace.Span) {
			if span.Name() == semconv.SpanRunAbandoned {
				return
			}
			trace, id := span.TraceID(), span.SpanID()
			name := fmt.Sprintf("%d/%d", trace[len(trace)-1], id[len(id)-1])
			if verdictOf(span).trigger == semconv.TriggerLate {
				name += " late"
			}
			out[name]++
		})
	}
	return out
}
