package semconv_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/semconv"
)

// One constructor of each type, and each enum constructor that has its own name.
func TestConstructors(t *testing.T) {
	for _, test := range []struct {
		got  attribute.KeyValue
		key  attribute.Key
		name string
		want attribute.Value
	}{
		{semconv.RunID("00f067aa0ba902b7"), semconv.RunIDKey, "llm.run.id", attribute.StringValue("00f067aa0ba902b7")},
		{semconv.StreamEvents(3), semconv.StreamEventsKey, "llm.stream.events", attribute.IntValue(3)},
		{semconv.StreamTimeToHeaders(0.5), semconv.StreamTimeToHeadersKey, "llm.stream.time_to_headers", attribute.Float64Value(0.5)},
		{semconv.ProviderErrorInBand(true), semconv.ProviderErrorInBandKey, "llm.provider_error.in_band", attribute.BoolValue(true)},
		{semconv.StreamToolCallIDs("a", "b"), semconv.StreamToolCallIDsKey, "llm.stream.tool_call_ids", attribute.StringSliceValue([]string{"a", "b"})},
		{semconv.StreamPhase(semconv.PhaseToolInput), semconv.StreamPhaseKey, "llm.stream.phase", attribute.StringValue("tool_input")},
		{semconv.FailurePhase(semconv.PhaseToolInput), semconv.FailurePhaseKey, "llm.failure.phase", attribute.StringValue("tool_input")},
		{semconv.StreamEndAttr(semconv.StreamEndEOF), semconv.StreamEndKey, "llm.stream.end", attribute.StringValue("eof")},
		{semconv.FailureClass(semconv.ClassStreamInterrupted), semconv.FailureClassKey, "llm.failure.class", attribute.StringValue("stream_interrupted")},
		{semconv.ToolOutputDelivery(semconv.OutputDeliverySent), semconv.ToolOutputDeliveryKey, "llm.tool.output_delivery", attribute.StringValue("sent")},
	} {
		assert.Equal(t, test.key, test.got.Key)
		assert.Equal(t, test.name, string(test.got.Key))
		assert.Equal(t, test.want, test.got.Value, test.name)
	}
}

// Every key has a constructor that uses it, and no key is used twice.
func TestEveryKeyHasItsConstructor(t *testing.T) {
	source, err := os.ReadFile("attributes_generated.go")
	require.NoError(t, err)
	names := map[string]bool{}
	keys := regexp.MustCompile(`(?m)^\t(\w+)Key += attribute\.Key\("([^"]+)"\)$`).FindAllStringSubmatch(string(source), -1)
	require.Len(t, keys, 89)
	for _, m := range keys {
		assert.False(t, names[m[2]], m[2])
		names[m[2]] = true
		assert.True(t, strings.HasPrefix(m[2], "llm."), m[2])
		constructor := regexp.MustCompile(`(?m)^func ` + m[1] + `(Attr)?\(val [\w.]+\) attribute\.KeyValue \{\n\treturn ` + m[1] + `Key\.`)
		assert.Regexp(t, constructor, string(source), m[2])
	}
}

func TestEnumConstructorsDoNotAllocate(t *testing.T) {
	var kv attribute.KeyValue
	assert.Zero(t, testing.AllocsPerRun(100, func() { kv = semconv.FailureCause(semconv.CauseConnectionReset) }))
	assert.Equal(t, "connection_reset", kv.Value.AsString())
}

func ExampleStreamEndAttr() {
	end := semconv.StreamEndEOF
	os.Stdout.WriteString(string(semconv.StreamEndKey) + "=" + semconv.StreamEndAttr(end).Value.AsString() + "\n")
	// Output: llm.stream.end=eof
}
