package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/test/incidents/all"
	"github.com/otelllm/otelllm-go/test/incidents/incident"
)

// The incidents that this project began with: the telemetry before, word for word, and
// the Collector's verdict now.
func TestIncidents(t *testing.T) {
	p := start(t)
	stage, err := incident.NewStage()
	require.NoError(t, err)
	defer func() { assert.NoError(t, stage.Close()) }()
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpoint(p.endpoint), otlptracehttp.WithInsecure())
	require.NoError(t, err)
	asTheyWere := sdktrace.NewBatchSpanProcessor(exporter)
	stories := all.Stories()
	require.Len(t, stories, 5)

	type told struct {
		name          string
		act           *incident.Act
		before, after incident.Played
	}
	var acts []told
	for i := range stories {
		for j := range stories[i].Acts {
			a := told{name: stories[i].Name + ", " + stories[i].Acts[j].Label, act: &stories[i].Acts[j]}
			a.before, err = stage.Before(t.Context(), &stories[i], a.act, asTheyWere)
			require.NoError(t, err)
			a.after, err = stage.After(t.Context(), &stories[i], a.act, p.provider, p.gateway)
			require.NoError(t, err)
			acts = append(acts, a)
		}
	}
	require.NoError(t, asTheyWere.Shutdown(t.Context()))
	require.NoError(t, p.provider.ForceFlush(t.Context()))
	require.NoError(t, p.gateway.ForceFlush(t.Context()))
	first := func(played *incident.Played) *report.Run {
		if runs := p.sink.runs(pcommon.TraceID(played.TraceID)); len(runs) > 0 {
			return &runs[0]
		}
		return nil
	}
	for _, a := range acts {
		t.Run(a.name, func(t *testing.T) {
			assert.Eventually(t, func() bool { return first(&a.before) != nil && first(&a.after) != nil }, patience, 10*time.Millisecond)
			for _, wrong := range a.act.Wrong(&a.before, first(&a.after)) {
				t.Error(wrong)
			}
			assert.Empty(t, a.act.WrongAlone(first(&a.before)))
			assert.NotEmpty(t, a.act.Headline(&a.before))
		})
	}
}
