//go:build !wasip1

package judge

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/cmd/otelllm/backend"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/input"
	"github.com/otelllm/otelllm-go/processor/llmclassify/live"
)

// tracePrefix begins the keys of traces, which no name of a run does.
const tracePrefix = "\x00trace "

// takeOTLP takes the spans of a line of OTLP JSON, and answers with the verdicts on the runs
// of their traces.
func (j *Judge) takeOTLP(l *line, raw []byte) (*answerOTLP, error) {
	td, err := input.ReadDocument(raw)
	if err != nil {
		return nil, err
	}
	byTrace := make(map[pcommon.TraceID][]live.Span)
	var order []pcommon.TraceID
	for _, rs := range td.ResourceSpans().All() {
		service := serviceOf(rs.Resource())
		for _, ss := range rs.ScopeSpans().All() {
			for _, span := range ss.Spans().All() {
				id := span.TraceID()
				if byTrace[id] == nil {
					order = append(order, id)
				}
				byTrace[id] = append(byTrace[id], live.Span{
					Span: span, Scope: ss.Scope().Name(), Service: service, Open: span.EndTimestamp() == 0,
				})
			}
		}
	}
	a := &answerOTLP{Ref: l.ref, Verdicts: []answerRun{}}
	for _, id := range order {
		key := tracePrefix + id.String()
		at, ok := j.runs[key]
		if !ok {
			at = place{trace: j.open(key, false)}
		}
		give(at.trace, byTrace[id])
		if err := j.touch(at.trace); err != nil {
			return nil, err
		}
		if !l.silent {
			a.add(id.String(), at.trace)
		}
	}
	return a, nil
}

// give gives spans to a trace. Requests are given twice: the spans of HTTP clients beneath
// them may come later, and are to be there before.
func give(t *trace, spans []live.Span) {
	var requests []live.Span
	for _, s := range spans {
		if t.Set(s) == live.KindRequest {
			requests = append(requests, s)
		}
	}
	for _, s := range requests {
		t.Set(s)
	}
}

// serviceOf identifies a resource.
func serviceOf(resource pcommon.Resource) (id [16]byte) {
	var texts []string
	for key, v := range resource.Attributes().All() {
		texts = append(texts, key+"\x00"+v.AsString())
	}
	slices.Sort(texts)
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x01")))
	copy(id[:], sum[:])
	return id
}

// askTrace answers a question about a trace that came as OTLP.
func (j *Judge) askTrace(l *line) (*answerOTLP, error) {
	id, err := backend.ParseTraceID(l.trace)
	if err != nil {
		return nil, errors.New("trace has to be an id of 32 hexadecimal digits")
	}
	at, ok := j.runs[tracePrefix+id.String()]
	if !ok {
		return nil, errors.New("there is no such trace")
	}
	a := &answerOTLP{Ref: l.ref, Verdicts: []answerRun{}}
	a.add(id.String(), at.trace)
	return a, nil
}
