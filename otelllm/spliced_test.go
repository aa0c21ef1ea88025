package otelllm

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// anotherMessage returns the events of a message as those of another one.
func anotherMessage(events []string) []string {
	other := slices.Clone(events)
	for i, event := range other {
		if strings.Contains(event, "message_start") {
			other[i] = strings.Replace(event, `"id":"`, `"id":"other_`, 1)
		}
	}
	return other
}

// TestSplicedMessages appends a whole answer to the first events of itself, as a gateway does that goes on to another
// account in the middle of a stream. The application gets no error, but not what the model wrote either.
func TestSplicedMessages(t *testing.T) {
	c, tested := newCutter(), 0
	for _, w := range ownAnswers(t) {
		if w.path != messagesPath || w.contentType != sseType {
			continue
		}
		judge := func(events []string) classify.Diagnosis {
			facts := c.facts(t, w.path, w.request, w.contentType, strings.Join(events, ""), endsClean)
			return classify.Judge(&classify.Run{Requests: []classify.Request{facts}}).Requests[0]
		}
		if whole := judge(w.events); whole.Class != semconv.ClassUnset {
			continue
		}
		begun := false
		for kept := 1; kept < len(w.events); kept++ {
			begun = begun || strings.Contains(w.events[kept-1], "content_block_start")
			got := judge(slices.Concat(w.events[:kept], anotherMessage(w.events)))
			if !begun {
				assert.Equal(t, semconv.ClassUnset, got.Class, "%s: nothing is mixed after %d events", w.name, kept)
				continue
			}
			tested++
			assert.Equal(t, semconv.ClassProtocolViolation, got.Class, "%s: %d events", w.name, kept)
			assert.Equal(t, semconv.OriginGateway, got.Origin, "%s: %d events", w.name, kept)
			assert.Greater(t, got.Retry.Safety, semconv.RetrySafetySafeAutoRetry, "%s: %d events", w.name, kept)
		}
	}
	require.NotZero(t, tested)
}
