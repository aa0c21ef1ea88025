package judge

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/check"
	"github.com/otelllm/otelllm-go/processor/llmclassify/live"
	"github.com/otelllm/otelllm-go/semconv"
)

// The bounds of one part.
const (
	maxText      = 1 << 10  // bytes of a fact
	maxList      = 256      // entries of a fact
	maxPartBytes = 64 << 10 // of all facts
)

// flatPart is a request, a tool or a run that comes as lines of facts. Later lines add to the
// earlier ones.
type flatPart struct {
	kind  live.Kind
	span  ptrace.Span
	bytes int
	ended bool
}

// kinds are the kinds of parts by their names.
var kinds = map[string]struct {
	live      live.Kind
	facts     check.Kind
	operation string
}{
	"request": {live.KindRequest, check.Request, otelsemconv.GenAIOperationNameChat.Value.AsString()},
	"tool":    {live.KindTool, check.Tool, otelsemconv.GenAIOperationNameExecuteTool.Value.AsString()},
	"run":     {live.KindRun, check.Run, otelsemconv.GenAIOperationNameInvokeAgent.Value.AsString()},
}

// takeFacts takes a line of facts, and answers it.
func (j *Judge) takeFacts(l *line) (*answer, error) {
	at, known := j.runs[l.run]
	if !known {
		var err error
		if at, err = j.begin(l); err != nil {
			return nil, err
		}
	}
	t := at.trace
	if known && l.kind == "run" && l.outer != "" && j.runs[l.outer].trace != t {
		return nil, errors.New("parent_run has to be on the first line of a run")
	}
	a := &answer{Ref: l.ref, Run: l.run, ID: l.id}
	id, err := t.takePart(j, l, at.id, a)
	if err != nil {
		return nil, err
	}
	if err := j.touch(t); err != nil {
		return nil, err
	}
	if !l.silent {
		a.judge(t, at.id, id)
	}
	if l.kind == "run" && l.ended && t.keys[0] == l.run {
		j.drop(t) // and the runs within it
	}
	return a, nil
}

var errTooMany = fmt.Errorf("the run has more than %d requests, tools and runs: this one is not taken, and verdicts are more careful from here on", live.MaxParts)

// begin adds the run of a line, which is not known.
func (j *Judge) begin(l *line) (place, error) {
	begun := l.kind == "run" && !l.ended
	if l.outer == "" {
		t := j.open(l.run, begun)
		return j.runs[t.keys[0]], nil
	}
	outer, ok := j.runs[l.outer]
	switch {
	case !ok:
		return place{}, errors.New("parent_run is not an open run")
	case len(outer.trace.keys) >= live.MaxParts:
		outer.trace.SetIncomplete()
		return place{}, errTooMany
	}
	outer.trace.add(j, l.run, outer.trace.newID())
	return j.runs[l.run], nil
}

// takePart adds the facts of a line to its part, and gives it to the trace.
func (t *trace) takePart(j *Judge, l *line, run pcommon.SpanID, a *answer) (pcommon.SpanID, error) {
	now := j.now()
	kind := kinds[l.kind]
	key := l.run + "\x00" + l.id
	if l.kind == "run" {
		key = l.run
	}
	p := t.parts[key]
	switch {
	case p == nil && len(t.parts) >= live.MaxParts:
		t.SetIncomplete()
		return run, errTooMany
	case p == nil:
		p = &flatPart{kind: kind.live, span: ptrace.NewSpan()}
		p.span.SetStartTimestamp(now)
		p.span.SetSpanID(run)
		if l.kind != "run" {
			p.span.SetSpanID(t.newID())
			p.span.Attributes().PutStr(string(semconv.RunIDKey), hex.EncodeToString(run[:]))
		} else if outer, ok := j.runs[l.outer]; ok {
			p.span.Attributes().PutStr(string(semconv.RunIDKey), hex.EncodeToString(outer.id[:]))
		}
		p.span.Attributes().PutStr(string(otelsemconv.GenAIOperationNameKey), kind.operation)
		t.parts[key] = p
	case p.kind != kind.live:
		return run, errors.New("id names a part of another kind")
	}
	t.bytes -= p.bytes
	p.add(l, kind.facts, now, a)
	t.bytes += p.bytes
	t.Set(live.Span{Span: p.span, Kind: p.kind, Open: !p.ended})
	return p.span.SpanID(), nil
}

// add adds the facts of a line.
func (p *flatPart) add(l *line, kind check.Kind, now pcommon.Timestamp, a *answer) {
	if l.start > 0 {
		p.span.SetStartTimestamp(l.start)
	}
	if p.ended = p.ended || l.ended; p.ended {
		switch {
		case l.end > 0:
			p.span.SetEndTimestamp(l.end)
		case p.span.EndTimestamp() == 0:
			p.span.SetEndTimestamp(now)
		}
	}
	attrs := p.span.Attributes()
	keys := make([]string, 0, len(l.facts))
	for key := range l.facts {
		keys = append(keys, key)
	}
	slices.Sort(keys) // what is said of them does not depend on Go's order
	for _, key := range keys {
		raw := l.facts[key]
		if key == string(semconv.RunIDKey) || key == string(semconv.RunInferredKey) || key == string(otelsemconv.GenAIOperationNameKey) {
			continue // the line says it
		}
		v := pcommon.NewValueEmpty()
		fits := p.bytes+len(raw) <= maxPartBytes && putJSON(v, raw)
		known, valid := check.Fact(kind, key, v)
		if known && !valid && v.Type() == pcommon.ValueTypeInt { // a duration without a fraction
			v.SetDouble(float64(v.Int()))
			known, valid = check.Fact(kind, key, v)
		}
		switch {
		case !known:
			a.Ignored++
		case !fits || !valid:
			a.Invalid = append(a.Invalid, key)
		default:
			if _, again := attrs.Get(key); !again {
				p.bytes += len(key) + 64
			}
			p.bytes += len(raw)
			v.MoveTo(attrs.PutEmpty(key))
		}
	}
	if _, failed := attrs.Get(string(otelsemconv.ErrorTypeKey)); failed || l.failed {
		p.span.Status().SetCode(ptrace.StatusCodeError)
	}
}

// putJSON writes a JSON value that may be a fact. It reports false for others.
func putJSON(v pcommon.Value, raw json.RawMessage) bool {
	switch raw[0] { // each attempt to read another type would cost as much as to read this one
	case '"':
		text, ok := textOf(raw)
		if !ok || len(text) > maxText {
			return false
		}
		v.SetStr(text)
	case 't', 'f':
		v.SetBool(raw[0] == 't')
	case '[':
		return putList(v, raw)
	case '{', 'n':
		return false
	default:
		var f float64
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			v.SetInt(n)
		} else if json.Unmarshal(raw, &f) == nil {
			v.SetDouble(f)
		} else {
			return false
		}
	}
	return true
}

// putList writes a list of texts. It reports false for any other.
func putList(v pcommon.Value, raw json.RawMessage) bool {
	slice, fits := v.SetEmptySlice(), true
	eachMember(raw, func(_, value []byte) {
		text, ok := textOf(value)
		fits = fits && (ok || string(value) == "null") && len(text) <= maxText && slice.Len() < maxList
		if fits {
			slice.AppendEmpty().SetStr(text)
		}
	})
	return fits
}

// ask answers a question about a run.
func (j *Judge) ask(l *line) (*answer, error) {
	at, ok := j.runs[l.run]
	if !ok {
		return nil, errors.New("there is no such open run")
	}
	a := &answer{Ref: l.ref, Run: l.run}
	a.judge(at.trace, at.id, pcommon.SpanID{})
	if l.since > 0 {
		a.planSince(at.trace, at.id, l.since)
	}
	if l.call == nil {
		return a, nil
	}
	ids := make([]pcommon.SpanID, len(l.call))
	for i, id := range l.call {
		p := at.trace.parts[l.run+"\x00"+id]
		if p == nil || p.kind != live.KindRequest {
			return nil, errors.New("call has an id that is not a request of the run")
		}
		ids[i] = p.span.SpanID()
	}
	a.judgeCall(at.trace, at.id, ids)
	return a, nil
}
