package check

import (
	"fmt"

	"go.opentelemetry.io/collector/pdata/pcommon"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/semconv"
)

// sessionID is the older attribute for a conversation.
const sessionID = "session.id"

// addMissingRun adds to the first finding of a trace without a run span that a run is
// missing, if one is: there are several requests and tools, and nothing makes them one run.
// Spans under one parent are one run, and so are those of one conversation. A lone request
// needs no run.
func addMissingRun(findings []Finding, spans []spanFacts, parents map[pcommon.SpanID]pcommon.SpanID) {
	own := make(map[pcommon.SpanID]*spanFacts, len(spans))
	for i := range spans {
		own[spans[i].span.SpanID()] = &spans[i]
	}
	first, n, joined := -1, 0, groups{}
	for i := range spans {
		if spans[i].has(string(semconv.RunIDKey)) {
			continue // it names its run, whose span is missing already
		}
		if first < 0 {
			first = i
		}
		n += joined.add(joins(&spans[i], own, parents))
	}
	if n < 2 {
		return
	}
	findings[first].Missing = append(findings[first].Missing, Missing{
		"the span of a run", true,
		fmt.Sprintf("which of the trace's requests and tools belong together: no span is a run (%s=invoke_agent), and they share neither a parent nor %s",
			otelsemconv.GenAIOperationNameKey, otelsemconv.GenAIConversationIDKey),
	})
}

// joins returns what makes the span a part of a run that has no span: the parent of the
// highest request or tool above it, or of itself, and its conversation.
func joins(s *spanFacts, own map[pcommon.SpanID]*spanFacts, parents map[pcommon.SpanID]pcommon.SpanID) []string {
	top := s
	for id, left := s.span.ParentSpanID(), len(parents); left > 0 && !id.IsEmpty(); id, left = parents[id], left-1 {
		if above := own[id]; above != nil {
			top = above
		}
	}
	id := top.span.ParentSpanID()
	if id.IsEmpty() {
		id = top.span.SpanID()
	}
	list := []string{id.String()}
	for _, key := range []string{string(otelsemconv.GenAIConversationIDKey), sessionID} {
		if text := top.text(key); text != "" {
			list = append(list, key+"="+text)
		}
	}
	return list
}

// groups are what is joined with what: each key leads to another one of its group, or to
// itself.
type groups map[string]string

// add joins these keys, and returns by how much the number of groups changes.
func (g groups) add(keys []string) (change int) {
	for _, key := range keys {
		if _, ok := g[key]; !ok {
			g[key] = key
			change++
		}
		if a, b := g.find(keys[0]), g.find(key); a != b {
			g[b] = a
			change--
		}
	}
	return change
}

func (g groups) find(key string) string {
	for g[key] != key {
		g[key] = g[g[key]]
		key = g[key]
	}
	return key
}
