package dialect

import (
	"encoding/json"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// Vercel reads the AI SDK's spans up to version 6, and those of version 7's legacy
// mode: their kind is in ai.operationId.
//
// Every attempt that failed before a response is a span, ERROR with AI_APICallError,
// without a status or a code. An error in the stream is the finish reason error under
// UNSET; a stream that ends without one is other, which may be a provider's own reason,
// too; an abort ends the span UNSET without a finish reason. A truncated stream is not
// exported at all. Where nothing of a response arrived, its id is one that the SDK made
// (prefix aitxt-): a stream that ended cleanly with nothing in it, such as [DONE] alone.
// The text of an answer and the ids of calls are recorded together with outputs only. A
// tool without an error is UNSET: its result may report a failure. Phases, counts and
// histories are not recorded. OK is that of OpenInference's processor, on each span without
// an error. Measured with ai 6.0.322.
type Vercel struct{}

var _ Dialect = Vercel{}

// Keys of the AI SDK.
const (
	keyVercelFinish    = "ai.response.finishReason"
	keyVercelToolCalls = "ai.response.toolCalls"
	keyVercelToolID    = "ai.toolCall.id"
	keyVercelToolName  = "ai.toolCall.name"
	keyVercelText      = "ai.response.text"
	keyVercelReasoning = "ai.response.reasoning"
	keyVercelFiles     = "ai.response.files"
	keyVercelObject    = "ai.response.object"
)

// vercelID begins the ids that the SDK makes for responses whose provider sent none.
const vercelID = "aitxt-"

// Name implements [Dialect].
func (Vercel) Name() string { return "vercel_ai" }

func (Vercel) claims() claims { return claims{marks: markVercel} }

// Recognise implements [Dialect].
func (Vercel) Recognise(s *AttributeScan) Head {
	switch s.vercel {
	case "ai.toolCall":
		if s.scope == scopeOpencode {
			return Head{} // Tool.execute is the same execution, and has an outcome
		}
		return s.head(Tool)
	case "ai.streamText", "ai.generateText", "ai.streamObject", "ai.generateObject":
		if s.scope == scopeOpencode {
			return Head{} // a step of its loop
		}
		return s.head(Run)
	case "ai.streamText.doStream", "ai.generateText.doGenerate", "ai.streamObject.doStream", "ai.generateObject.doGenerate":
		return s.head(Request)
	}
	if strings.HasSuffix(s.vercel, ".doStream") || strings.HasSuffix(s.vercel, ".doGenerate") {
		return s.head(Request)
	}
	return Head{}
}

// Read implements [Dialect].
func (Vercel) Read(span ptrace.Span, into Facts) {
	switch {
	case into.Request != nil:
		vercelRequest(span, into.Request)
	case into.Tool != nil:
		readTool(span, into.Tool, keyVercelToolID, keyVercelToolName)
		withoutOK(into.Tool)
	case into.Run != nil:
		vercelRun(span, into.Run, keyVercelFinish)
	}
}

// vercelRun reads an operation of any version, with its finish reason: tool calls, if its
// limit of steps was reached, or if its caller is to go on. Neither is a failure. If the
// last step failed nevertheless, its request shows that.
func vercelRun(span ptrace.Span, run *classify.Run, finish string) {
	readRunWithoutOK(span, run)
	v, ok := span.Attributes().Get(finish)
	if !ok || run.Failed != classify.NotObserved {
		return
	}
	if classify.ParseFinish(finishReasons(v, nil)) == classify.FinishToolCalls {
		run.Failed = classify.No
	}
}

func vercelRequest(span ptrace.Span, r *classify.Request) {
	var e ending
	e.beginWithoutOK(span, r)
	var finish []string
	for key, v := range span.Attributes().All() {
		switch key {
		case keyVercelFinish:
			finish = finishReasons(v, nil)
		case keyVercelToolCalls:
			r.CallIDs = vercelCalls(v)
			e.content = classify.Yes
		case keyVercelReasoning, keyVercelFiles, keyVercelObject:
			e.content = classify.Yes
		case keyVercelText:
			e.content = max(e.content, classify.FactOf(v.Str() != ""))
		default:
			e.read(key, v, r)
		}
	}
	if finish != nil {
		e.reasons = finish // the SDK's own; the other key has the same
	}
	e.end(span, r)
	e.nothing = e.ownID && !e.output.Observed() && e.content != classify.Yes
	vercelEnd(&e, r)
}

// vercelEnd draws the conclusions that hold for every version.
func vercelEnd(e *ending, r *classify.Request) {
	switch {
	case e.has(finishError) && !e.known && !e.recorded && r.Status < 400:
		// An error in the stream: one that was thrown is recorded as an exception, and
		// has no finish reason.
		r.Failed, r.Basis = classify.Yes, classify.Corroborated
		r.Provider.Kind, r.Provider.InBand = semconv.ProviderErrorKindUnknown, true
	case e.nothing && r.Failed != classify.Yes && r.Status < 400 && !e.known && (e.has(finishOther) || e.has(finishUnknown) || e.has(finishInterrupted)):
		// It ended cleanly, and nothing was in it.
		r.Finish = classify.FinishMissing
		nothingIn(r, classify.Inferred)
	case e.has(finishOther) || e.has(finishUnknown):
		// A stream that ended without a finish reason, or one that is not known here.
		r.Finish = classify.FinishNotObserved
		if r.Status >= 400 || e.known {
			e.conclude(r)
		}
	case e.conclude(r), r.Failed == classify.Yes:
	case e.has(finishInterrupted):
		r.Ended, r.Basis = semconv.StreamEndEOF, classify.Corroborated
	case e.unset && len(e.reasons) == 0:
		r.Ended, r.Abort.Source = semconv.StreamEndCancelled, semconv.AbortSourceUnknown
	}
}

// maxJSON bounds the JSON that is parsed for ids, in bytes.
const maxJSON = 64 << 10

// vercelCalls reads the ids of the calls of a response, nil if any of them cannot be
// read. The inputs beside them are skipped.
func vercelCalls(v pcommon.Value) []string {
	if v.Type() != pcommon.ValueTypeStr || len(v.Str()) > maxJSON {
		return nil
	}
	var calls []struct {
		ID string `json:"toolCallId"`
	}
	if json.Unmarshal([]byte(v.Str()), &calls) != nil || len(calls) > classify.MaxIDs {
		return nil
	}
	var ids []string
	for _, c := range calls {
		if c.ID == "" || len(c.ID) > maxString {
			return nil
		}
		ids = append(ids, c.ID)
	}
	return ids
}
