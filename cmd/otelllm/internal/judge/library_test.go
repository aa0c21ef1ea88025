package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/otelllm/otelllm-go/cmd/otelllm/engine"
	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/manual"
	"github.com/otelllm/otelllm-go/processor/llmclassify/live"
	"github.com/otelllm/otelllm-go/semconv"
)

// program is a random agent under the library, and the lines that it would give to a judge:
// those of its spans.
type program struct {
	t     *testing.T
	rand  *rand.Rand
	judge *Judge
	runs  []*agentRun
	calls int
	lines bytes.Buffer // for messages

	opened bool // a request is open
}

// agentRun is a run of the program.
type agentRun struct {
	*otelllm.Run
	ctx     context.Context
	key     string
	parent  string
	pending []string // calls that no tool has executed
	calls   []string // of the history
	outputs []string
	ended   bool
}

// give gives the judge a span.
func (p *program) give(ctx context.Context, r *agentRun, kind string, ended bool) map[string]any {
	p.t.Helper()
	span := oteltrace.SpanFromContext(ctx).(sdktrace.ReadOnlySpan)
	line := map[string]any{"run": r.key, "kind": kind, "state": "begun", "start": span.StartTime().Format(time.RFC3339Nano)}
	if ended {
		line["state"], line["end"] = "ended", span.EndTime().Format(time.RFC3339Nano)
	}
	if kind != "run" {
		line["id"] = span.SpanContext().SpanID().String()
	} else if r.parent != "" {
		line["parent_run"] = r.parent
	}
	for _, a := range span.Attributes() {
		line[string(a.Key)] = a.Value.AsInterface()
	}
	raw, err := json.Marshal(line)
	require.NoError(p.t, err)
	p.lines.Write(append(raw, '\n'))
	out := p.judge.Line(raw, 1)
	var answer map[string]any
	require.NoError(p.t, json.Unmarshal(out, &answer))
	require.NotContains(p.t, answer, "error", string(raw))
	require.NotContains(p.t, answer, "invalid", string(raw))
	return answer
}

// compare compares the verdicts on the open runs with the library's.
func (p *program) compare() {
	p.t.Helper()
	for _, r := range p.runs {
		if r.ended {
			continue
		}
		a := ask(p.t, p.judge, fmt.Sprintf(`{"run":%q}`, r.key))
		d, plan := r.Diagnosis(), r.Plan()
		want, got := attributesOf(p.t, &d, &plan), a["verdict"].(map[string]any)
		if p.opened { // the times of an open request are not on its span
			delete(want, string(semconv.RunTimelineKey))
			delete(got, string(semconv.RunTimelineKey))
		}
		require.Equal(p.t, want, got, "%s\n%s", r.key, p.lines.String())
	}
}

// attributesOf returns a diagnosis and a plan as they are in an answer.
func attributesOf(t *testing.T, d *classify.Diagnosis, plan *classify.Plan) map[string]any {
	t.Helper()
	raw, err := json.Marshal(live.RunAttributes(d, plan).AsRaw())
	require.NoError(t, err)
	var attrs map[string]any
	require.NoError(t, json.Unmarshal(raw, &attrs))
	return attrs
}

func (p *program) start(parent *agentRun) {
	r := &agentRun{key: fmt.Sprintf("run %d", len(p.runs))}
	ctx := p.t.Context()
	var opts []otelllm.RunOption
	if parent != nil {
		ctx, r.parent = parent.ctx, parent.key
	}
	declared := p.rand.IntN(2) == 0
	if declared {
		opts = append(opts, otelllm.WithToolsRecorded())
	}
	ctx, r.Run = otelllm.StartRun(ctx, "coder", opts...)
	r.ctx = ctx
	p.runs = append(p.runs, r)
	p.give(ctx, r, "run", false)
	if declared {
		ask(p.t, p.judge, fmt.Sprintf(`{"run":%q,"kind":"run","state":"begun","llm.run.tools":0}`, r.key))
	}
}

// request makes a model call that ends in one of many ways. Before it ends, the verdicts are
// compared with its stream open.
func (p *program) request(r *agentRun) {
	info := manual.RequestInfo{Provider: "openai", Model: "m", Stream: true, ProviderTools: []string{}, HistoryCalls: r.calls, HistoryOutputs: r.outputs}
	if info.HistoryCalls == nil {
		info.HistoryCalls, info.HistoryOutputs = []string{}, []string{}
	}
	switch p.rand.IntN(6) {
	case 0:
		info.HistoryCalls, info.HistoryOutputs = nil, nil // not known
	case 1:
		info.HistoryOutputs = info.HistoryOutputs[:len(info.HistoryOutputs)/2] // outputs are lost
	case 2:
		info.ProviderTools = []string{"code_interpreter"}
	}
	ctx, q := manual.Start(r.ctx, info)
	var err error
	switch p.rand.IntN(5) {
	case 0:
		err = syscall.ECONNREFUSED
	case 1:
		q.RecordSent()
		q.RecordProviderError(429, "rate_limit_exceeded", 2*time.Second)
	default:
		err = p.answer(r, q, func(facts map[string]any) {
			facts[string(semconv.RequestProviderToolsKey)] = info.ProviderTools
			if info.HistoryCalls != nil {
				facts[string(semconv.HistoryToolCallsKey)] = info.HistoryCalls
				facts[string(semconv.HistoryToolOutputsKey)] = info.HistoryOutputs
			}
			p.giveOpen(ctx, r, facts)
			p.opened = true
			p.compare()
			p.opened = false
		})
	}
	q.End(err)
	p.give(ctx, r, "request", true)
}

// giveOpen gives the judge what an open request has done so far. The span has it only at its
// end.
func (p *program) giveOpen(ctx context.Context, r *agentRun, facts map[string]any) {
	p.t.Helper()
	span := oteltrace.SpanFromContext(ctx).(sdktrace.ReadOnlySpan)
	facts["run"], facts["kind"], facts["state"], facts["id"] = r.key, "request", "begun", span.SpanContext().SpanID().String()
	facts["start"], facts["http.response.status_code"] = span.StartTime().Format(time.RFC3339Nano), 200
	raw, err := json.Marshal(facts)
	require.NoError(p.t, err)
	p.lines.Write(append(raw, '\n'))
	require.NotContains(p.t, string(p.judge.Line(raw, 1)), `"error":`)
}

// answer plays an answer, which may be cut. Open is called with the facts so far, after each
// step.
func (p *program) answer(r *agentRun, q *manual.Request, open func(map[string]any)) error {
	var text, started int
	var made, cut []string
	so := func(phase semconv.Phase) {
		facts := map[string]any{
			string(semconv.StreamPhaseKey): phase.String(), string(semconv.StreamTextChunksKey): text, string(semconv.StreamReasoningChunksKey): 0,
			string(semconv.StreamToolInputsStartedKey): started, string(semconv.StreamToolInputsCompletedKey): len(made),
			string(semconv.StreamToolCallsKey): len(made), string(semconv.StreamProviderToolsStartedKey): 0,
		}
		if len(made) > 0 {
			facts[string(semconv.StreamToolCallIDsKey)] = made
			facts[string(semconv.StreamToolCallNamesKey)] = slices.Repeat([]string{"pay"}, len(made))
		}
		if len(cut) > 0 {
			facts[string(semconv.StreamOpenToolCallIDsKey)] = cut
		}
		open(facts)
	}
	q.RecordSent()
	q.RecordResponseStarted(200)
	so(semconv.PhaseResponseStarted)
	for range p.rand.IntN(3) {
		q.RecordText()
		text++
		so(semconv.PhaseText)
	}
	for range p.rand.IntN(3) {
		p.calls++
		id := fmt.Sprintf("call_%d", p.calls)
		q.RecordToolInputStarted(id, "pay")
		if started++; p.rand.IntN(4) == 0 {
			cut = []string{id}
			so(semconv.PhaseToolInput)
			return io.ErrUnexpectedEOF
		}
		q.RecordToolInputCompleted(id)
		q.RecordToolCall(id, "pay")
		made = append(made, id)
		r.pending = append(r.pending, id)
		so(semconv.PhaseToolCallReady)
	}
	switch p.rand.IntN(5) {
	case 0:
		return syscall.ECONNRESET
	case 1:
		return context.Canceled
	case 2:
		return nil // without a reason
	}
	if r.calls = append(r.calls, made...); len(made) > 0 {
		q.RecordFinish("tool_calls")
	} else {
		q.RecordFinish("stop")
	}
	return nil
}

// tool executes a call.
func (p *program) tool(r *agentRun) {
	id := fmt.Sprintf("stray_%d", p.calls)
	if len(r.pending) > 0 {
		id, r.pending = r.pending[0], r.pending[1:]
	}
	effects := []otelllm.Effect{otelllm.EffectReadOnly, otelllm.EffectIdempotent, otelllm.EffectNonIdempotent, semconv.ToolEffectUnknown}
	ctx, tool := otelllm.StartTool(r.ctx, otelllm.ToolCall{ID: id, Name: "pay", Effect: effects[p.rand.IntN(len(effects))]})
	p.give(ctx, r, "tool", false)
	p.compare()
	switch p.rand.IntN(4) {
	case 0:
		tool.End(errors.New("the disk is full"))
	case 1:
		tool.End(otelllm.ErrToolRejected)
	default:
		tool.End(nil)
	}
	tool.RecordOutputSent()
	r.outputs = append(r.outputs, id)
	p.give(ctx, r, "tool", true)
}

// end ends a run, after those within it.
func (p *program) end(r *agentRun, err error) map[string]any {
	for _, inner := range p.runs {
		if inner.parent == r.key && !inner.ended {
			p.end(inner, nil)
		}
	}
	r.ended = true
	r.End(err)
	return p.give(r.ctx, r, "run", true)
}

// Whatever an agent does, the judge says of its open runs what the library's live diagnosis
// says, and of the ended one what llm_classify says of its spans.
func TestSameAsTheLibrary(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	verdicts := map[semconv.RetrySafety]int{}
	for seed := range uint64(200 / sample.Every(5)) { //nolint:gosec // positive
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		p := &program{t: t, rand: rand.New(rand.NewPCG(seed, 1)), judge: New(Options{})}
		otel.SetTracerProvider(provider)
		p.start(nil)
		for range 2 + p.rand.IntN(10) {
			open := p.open()
			r := open[p.rand.IntN(len(open))]
			switch n := p.rand.IntN(10); {
			case n == 0 && len(p.runs) < 4:
				p.start(r)
			case n == 1 && r.parent != "":
				p.end(r, nil)
			case n < 5 || len(r.pending) == 0 && n < 8:
				p.request(r)
			default:
				p.tool(r)
			}
			p.compare()
		}
		err := []error{nil, errors.New("gave up")}[p.rand.IntN(2)]
		answer := p.end(p.runs[0], err)
		require.NoError(t, provider.Shutdown(t.Context()))
		want := classified(t, spans.Ended(), p.runs[0])
		got, _ := answer["verdict"].(map[string]any)
		delete(got, string(semconv.ClassificationTriggerKey))
		delete(got, string(semconv.RetryAfterKey))
		require.Equal(t, want, got, "seed %d\n%s", seed, p.lines.String())
		safety, _ := semconv.ParseRetrySafety(fmt.Sprint(got[string(semconv.RetrySafetyKey)]))
		verdicts[safety]++
		spans.Reset()
	}
	t.Log(verdicts)
	if !sample.Only() { // few runs may have fewer
		assert.Len(t, verdicts, 4, "every level, and no failure")
	}
}

func (p *program) open() (list []*agentRun) {
	for _, r := range p.runs {
		if !r.ended {
			list = append(list, r)
		}
	}
	return list
}

// classified returns the verdict of llm_classify on a run, from its spans.
func classified(t *testing.T, spans []sdktrace.ReadOnlySpan, run *agentRun) map[string]any {
	t.Helper()
	var all []ptrace.Traces
	e, err := engine.Start(t.Context(), engine.Config{}, func(_ context.Context, td ptrace.Traces) error {
		all = append(all, td)
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, e.NewExporter().ExportSpans(t.Context(), spans))
	require.NoError(t, e.Shutdown(t.Context()))
	id := oteltrace.SpanContextFromContext(run.ctx).SpanID().String()
	for _, td := range all {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					if span.SpanID().String() != id {
						continue
					}
					raw, err := json.Marshal(span.Attributes().AsRaw())
					require.NoError(t, err)
					var attrs map[string]any
					require.NoError(t, json.Unmarshal(raw, &attrs))
					maps.DeleteFunc(attrs, func(key string, _ any) bool { return !isVerdict[key] })
					return attrs
				}
			}
		}
	}
	t.Fatal("the run's span did not come out")
	return nil
}

// isVerdict are the attributes of a verdict on a run, but for the trigger.
var isVerdict = map[string]bool{
	string(semconv.RunOutcomeKey): true, string(semconv.RunTimelineKey): true, string(semconv.RunRecoveredFailuresKey): true,
	string(semconv.RunForgottenCallsKey): true, string(semconv.RunWarningKey): true,
	string(semconv.HistoryMissingOutputsKey): true, string(semconv.FailureClassKey): true, string(semconv.FailureCauseKey): true,
	string(semconv.FailurePhaseKey): true, string(semconv.FailureOriginKey): true, string(semconv.FailureConfidenceKey): true,
	string(semconv.FailureSummaryKey): true, string(semconv.FailureSummaryKeyKey): true, string(semconv.FailureEvidenceKey): true,
	string(semconv.FailureMissingEvidenceKey): true, string(semconv.RetrySafetyKey): true, string(semconv.RetryReasonKey): true,
	string(semconv.ResumeSendKey): true, string(semconv.ResumeAskKey): true, string(semconv.ResumeWaitKey): true, string(semconv.ResumeMoreKey): true,
	string(semconv.ResumeRanIDsKey): true, string(semconv.ResumeRanNamesKey): true, string(semconv.ResumeRanOutputsKey): true,
	string(semconv.ResumeMayHaveRunIDsKey): true, string(semconv.ResumeMayHaveRunNamesKey): true,
	string(semconv.ResumeNeverRanIDsKey): true, string(semconv.ResumeNeverRanNamesKey): true,
	string(semconv.ClassificationRulesetKey): true,
}
