package collector

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/extension/extensiontest"

	"github.com/otelllm/otelllm-go/bench/internal/stats"
)

// host is a component host with one extension.
type host struct {
	id        component.ID
	extension component.Component
}

func (h host) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{h.id: h.extension}
}

// withFileStorage returns llm_classify with its journal in contrib's file_storage, in a
// directory of its own and with the default fsync: the operating system decides when it
// writes to the disk.
func withFileStorage(b *testing.B) (p peer, stop func()) {
	b.Helper()
	factory := filestorage.NewFactory()
	cfg := factory.CreateDefaultConfig()
	require.NoError(b, confmap.NewFromStringMap(map[string]any{"directory": b.TempDir()}).Unmarshal(cfg))
	made, err := factory.Create(b.Context(), extensiontest.NewNopSettings(factory.Type()), cfg)
	require.NoError(b, err)
	require.NoError(b, made.Start(b.Context(), componenttest.NewNopHost()))
	p = peers()[1]
	p.host = host{component.NewID(factory.Type()), made}
	p.soon = map[string]any{"storage": factory.Type().String()}
	return p, func() { require.NoError(b, made.Shutdown(context.Background())) }
}

// BenchmarkFileStorage measures the cost of llm_classify's journal: the same
// measurement as BenchmarkThroughput with `storage: file_storage` and without it, in
// turns.
//
//	ns/span-added      processor time per span with the journal, minus that without it
//	x-without          processor time with the journal, divided by that without it
//	x-without-wall     the same in wall-clock time, which includes waiting for writes
func BenchmarkFileStorage(b *testing.B) {
	const batches = 12
	for _, m := range mixes {
		b.Run(m.name, func(b *testing.B) {
			data, spans, _ := m.batch(b, false)
			var added, ratios, walls []float64
			for b.Loop() {
				for range rounds {
					var spent, wall [2]float64
					for _, with := range rand.Perm(2) {
						p, stop := peers()[1], func() {}
						if with == 1 {
							p, stop = withFileStorage(b)
						}
						used, took := through(b, p, m.calls(b, data, warmUp+batches), batches, spans, 1)
						spent[with], wall[with] = float64(used)/float64(batches*spans), float64(took)
						stop()
					}
					added = append(added, spent[1]-spent[0])
					ratios = append(ratios, spent[1]/spent[0])
					walls = append(walls, wall[1]/wall[0])
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(stats.Median(added), "ns/span-added")
			b.ReportMetric(stats.Median(ratios), "x-without")
			b.ReportMetric(stats.Median(walls), "x-without-wall")
		})
	}
}
