package llmclassify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/telemetry"
)

// Large resources count where their spans do: while these are held, while their facts are
// kept, and nowhere after that. Time alone empties the table in which they are shared.
func TestLargeResources(t *testing.T) {
	const large = 1 << 20
	resource := func(i int, specs ...harness.Span) ptrace.Traces {
		td := harness.TracesOf(t, specs...)
		td.ResourceSpans().At(0).Resource().Attributes().PutStr("large", strings.Repeat(string(rune('A'+i)), large))
		return td
	}
	cfg := harness.DefaultConfig()
	cfg.MaxHeldBytes = 20 * large
	h := harness.New(t, cfg, nil)
	for i := range byte(20) { // complete in one call
		require.NoError(t, h.ConsumeTraces(t.Context(), resource(int(i), harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer).Of(i+1), harness.RunSpan(1, 0, 3, 1, 0).Of(i+1))))
		require.LessOrEqual(t, h.Origins.Bytes(), cfg.MaxHeldBytes/16)
	}
	assert.Zero(t, h.Load().Bytes)
	h.Sink.Reset()

	for i := range byte(40) { // their runs do not end
		require.NoError(t, h.ConsumeTraces(t.Context(), resource(int(i), harness.RequestSpan(2, 1, 0.1, 1).Answered("stop", harness.Answer).Of(i+100))))
		require.LessOrEqual(t, h.Load().Bytes, cfg.MaxHeldBytes)
		if i < 15 {
			require.Greater(t, h.Load().Bytes, int(i+1)*large)
		}
	}
	assert.NotEmpty(t, h.Sink.AllTraces(), "some went early")
	h.Pass(t, cfg.MaxHold)
	assert.Zero(t, h.Load().Bytes)
	assert.Less(t, h.Load().FactBytes, 40*8<<10, "the facts have the small attributes alone")
	assert.Greater(t, h.Load().FactBytes, 40<<10)
	for _, rs := range h.Out().ResourceSpans().All() {
		v, _ := rs.Resource().Attributes().Get("large")
		assert.Len(t, v.Str(), large, "the spans have all")
	}

	h.Pass(t, 2*harness.RunTimeout)
	h.Origins.Rotate(h.Clock.Advance(cfg.MaxHold))
	h.Origins.Rotate(h.Clock.Advance(cfg.MaxHold))
	assert.Equal(t, telemetry.Load{}, h.Load())
	assert.Zero(t, h.Origins.Bytes())
	assert.Zero(t, h.Lane().Releaser.Kept.Bytes())
	abandoned := harness.AbandonedSpans(h.Out())
	assert.NotEmpty(t, abandoned)
}

// A shard that has nothing to do forgets what is old.
func TestIdleShardForgets(t *testing.T) {
	h := harness.New(t, harness.DefaultConfig(), nil)
	h.Consume(t, harness.FinishedRun(1)...)
	require.Positive(t, h.Origins.Bytes())
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		h.Shards[0].Run(t.Context(), quit)
	}()
	for h.Origins.Bytes() > 0 {
		h.Clock.Advance(time.Second)
	}
	close(quit)
	<-done
}
