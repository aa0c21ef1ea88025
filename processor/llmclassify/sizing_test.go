package llmclassify_test

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/forward"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/worker"
	"github.com/otelllm/otelllm-go/semconv"
)

// TestSizing measures what bounds.md says of memory: runs of five LLM spans are held,
// then only their facts. The heap is compared with what the processor thinks that it
// is, and both with the page.
func TestSizing(t *testing.T) {
	said := regexp.MustCompile(`about ([\d.]+) to ([\d.]+) KiB for a span with 10 attributes, and\s+([\d.]+) to ([\d.]+) KiB for a\s+` +
		`request of this project's client with all its facts. Facts take\s+([\d.]+) to ([\d.]+) KiB`).FindStringSubmatch(page(t, "bounds.md"))
	require.Len(t, said, 7, "the page says how large a span is")
	require.Contains(t, strings.Join(strings.Fields(page(t, "bounds.md")), " "),
		fmt.Sprintf("Spans of the last %v s are not packed, which takes about twice as much memory", worker.PackAfter.Seconds()))
	var numbers []float64
	for _, s := range said[1:] {
		n, err := strconv.ParseFloat(s, 64)
		require.NoError(t, err)
		numbers = append(numbers, n)
	}

	small := harness.ChatSpan(2, 1, 0.1, 1).Finished("stop").With(
		otelsemconv.GenAIResponseModel("claude-test-2026-01-01"), otelsemconv.GenAIResponseID("msg_01XFDUDYJgAACzvnptvVoYEL"),
		otelsemconv.GenAIUsageInputTokens(1234), otelsemconv.GenAIUsageOutputTokens(345),
		otelsemconv.ServerAddress("api.example.com"), otelsemconv.ServerPort(443),
	)
	require.Len(t, small.Attrs, 10)
	full := harness.RequestSpan(2, 1, 0.1, 1).History([]string{"toolu_01A09q90qw90lq917835lq9", "toolu_01B09q90qw90lq917835lq9"},
		[]string{"toolu_01A09q90qw90lq917835lq9", "toolu_01B09q90qw90lq917835lq9"}).
		Answered("tool_calls", harness.Counts{Text: 40, Inputs: 1, Completed: 1, Calls: 1, CallIDs: []string{"toolu_01C09q90qw90lq917835lq9"}}).With(
		otelsemconv.GenAIResponseModel("claude-test-2026-01-01"), otelsemconv.GenAIResponseID("msg_01XFDUDYJgAACzvnptvVoYEL"),
		otelsemconv.GenAIUsageInputTokens(1234), otelsemconv.GenAIUsageOutputTokens(345), otelsemconv.GenAIConversationID("conv_5j66UpCpwteGg4YSxUnt7lPY"),
		otelsemconv.ServerAddress("api.example.com"), otelsemconv.ServerPort(443), semconv.RequestID("req_018EeWyXxfu5pfWkrYcMdjWG"),
	)
	for name, tt := range map[string]struct {
		span        harness.Span
		least, most float64 // KiB held
	}{
		"10 attributes": {small, numbers[0], numbers[1]},
		"all facts":     {full, numbers[2], numbers[3]},
	} {
		t.Run(name, func(t *testing.T) {
			const perRun, perCall = 5, 50
			runs := 2000 / sample.Every(4)
			h := harness.New(t, harness.DefaultConfig(), nil)
			template := harness.TracesOf(t, tt.span)
			before := heap()
			number := uint64(0)
			for range runs / perCall {
				td := ptrace.NewTraces()
				template.ResourceSpans().At(0).CopyTo(td.ResourceSpans().AppendEmpty())
				spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
				for spans.Len() < perCall*perRun {
					spans.At(0).CopyTo(spans.AppendEmpty())
				}
				for i, span := range spans.All() {
					if i%perRun == 0 {
						number++
					}
					span.SetTraceID(harness.NthTraceID(number))
					span.SetSpanID(harness.SpanID(byte(i%perRun + 2)))
				}
				came, err := new(ptrace.ProtoMarshaler).MarshalTraces(td)
				require.NoError(t, err)
				td, err = new(ptrace.ProtoUnmarshaler).UnmarshalTraces(came) // as receivers have it: no span shares memory
				require.NoError(t, err)
				require.NoError(t, h.ConsumeTraces(t.Context(), td))
			}
			n := runs * perRun
			loose, thought := float64(heap()-before)/float64(n)/1024, float64(h.Load().Bytes)/float64(n)/1024
			t.Logf("as they came: %.2f KiB a span, as estimated %.2f", loose, thought)
			assert.InDelta(t, thought, loose, 0.35*loose, "the bound is one of memory")

			h.Pass(t, worker.PackAfter)
			held, thought := float64(heap()-before)/float64(n)/1024, float64(h.Load().Bytes)/float64(n)/1024
			t.Logf("held: %.2f KiB a span, as estimated %.2f", held, thought)
			assert.InDelta(t, thought, held, 0.35*held, "the bound is one of memory")
			if !sample.Only() {
				assert.LessOrEqual(t, tt.least, held+0.05)
				assert.GreaterOrEqual(t, tt.most, held-0.05)
				assert.InDelta(t, 2, loose/held, 0.5)
			}

			h.Pass(t, harness.MaxHold-worker.PackAfter)
			require.Zero(t, h.Load().Bytes)
			require.Equal(t, n, h.Sink.SpanCount())
			h.Sink.Reset()
			facts, thought := float64(heap()-before)/float64(n)/1024, float64(h.Load().FactBytes)/float64(n)/1024
			t.Logf("facts: %.2f KiB a span, as estimated %.2f", facts, thought)
			assert.InDelta(t, thought, facts, 0.35*facts, "the bound is one of memory")
			if !sample.Only() {
				assert.LessOrEqual(t, numbers[4], facts+0.05)
				assert.GreaterOrEqual(t, numbers[5], facts-0.05)
			}
			runtime.KeepAlive(h)
		})
	}
}

// heap is the memory in use, once what is not has been collected.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestReadmeNumbers: the bounds that are no options are those of the code, and every
// metric that is named is there.
func TestReadmeNumbers(t *testing.T) {
	text, bounds := page(t, "README.md"), page(t, "bounds.md")
	assert.Contains(t, bounds, fmt.Sprintf("| %d calls of a tenant on their way to a shard, or ", worker.MaxDeliveries))
	assert.Contains(t, text, fmt.Sprintf("in calls of at most about %d MiB", forward.MaxParcelBytes>>20))
	assert.Contains(t, text, fmt.Sprintf("a backoff of %v to %v s", forward.FirstRetry.Seconds(), forward.MaxRetry.Seconds()))

	sites := 0
	for _, row := range regexp.MustCompile(`([\d,]+)(?: spans/s)? × (\d+) s × ([\d.]+) KiB: ([\d.]+) MiB`).FindAllStringSubmatch(bounds, -1) {
		product := 1.0
		for _, factor := range row[1:4] {
			n, err := strconv.ParseFloat(strings.ReplaceAll(factor, ",", ""), 64)
			require.NoError(t, err)
			product *= n
		}
		result, err := strconv.ParseFloat(row[4], 64)
		require.NoError(t, err)
		assert.InEpsilon(t, product/1024, result, 0.1, row[0])
		sites++
	}
	assert.Equal(t, 5, sites, "the table of sites")

	metrics, err := os.ReadFile("documentation.md")
	require.NoError(t, err)
	named := regexp.MustCompile("otelcol_processor_llm_classify_([a-z_]+)[`{]|`…_([a-z_]+)`").FindAllStringSubmatch(text, -1)
	found := 0
	for _, match := range named {
		name := match[1] + match[2]
		if name == "" {
			continue
		}
		found++
		assert.Contains(t, string(metrics), "otelcol_processor_llm_classify_"+name+"\n", name)
	}
	assert.GreaterOrEqual(t, found, 5)
	rows := regexp.MustCompile("(?m)^\\| [^|]* \\| [^|]* \\| (`.*`) \\|$").FindAllStringSubmatch(bounds, -1)
	require.GreaterOrEqual(t, len(rows), 6)
	for _, row := range rows {
		for _, name := range regexp.MustCompile("`([a-z_]+)[`{]").FindAllStringSubmatch(row[1], -1) {
			assert.Contains(t, string(metrics), "otelcol_processor_llm_classify_"+name[1]+"\n", name[1])
		}
	}
}
