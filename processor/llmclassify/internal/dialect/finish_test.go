package dialect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// Finish reasons are a list, its JSON, or one of them alone.
func TestFinishReasons(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`"stop",`, classify.MaxIDs), ",")
	for name, tt := range map[string]struct {
		value any
		want  []string
	}{
		"a list":                         {[]any{"stop", "length"}, []string{"stop", "length"}},
		"an empty list":                  {[]any{}, []string{}},
		"a list with a missing reason":   {[]any{"stop", ""}, []string{"stop", "unknown"}},
		"a list with Python's None":      {[]any{"None"}, []string{"unknown"}},
		"a list that is mixed":           {[]any{"stop", 1}, nil},
		"JSON":                           {`["stop"]`, []string{"stop"}},
		"JSON of several, with blanks":   {" [\"stop\",\n \"length\"] ", []string{"stop", "length"}},
		"JSON in capitals":               {`["STOP"]`, []string{"STOP"}},
		"JSON of none":                   {`[]`, []string{}},
		"JSON with a gap":                {`["stop",null]`, nil},
		"JSON with a missing reason":     {`[""]`, []string{"unknown"}},
		"JSON that is mixed":             {`["stop",1]`, nil},
		"JSON that is cut":               {`["stop","len`, nil},
		"JSON of as many as fit":         {"[" + many + "]", slicesOf("stop", classify.MaxIDs)},
		"JSON of too many":               {"[" + many + `,"length"]`, nil},
		"too long":                       {`["` + strings.Repeat("x", maxJSON) + `"]`, nil},
		"one alone":                      {"stop", []string{"stop"}},
		"one as JSON":                    {`"stop"`, []string{"stop"}},
		"one as JSON, cut":               {`"sto`, nil},
		"one that is long":               {strings.Repeat("x", maxString+1), []string{strings.Repeat("x", maxString)}},
		"none":                           {"", nil},
		"none, as JSON":                  {"null", nil},
		"none, in Python":                {"None", nil},
		"a number":                       {3, nil},
		"nothing":                        {nil, nil},
		"JSON of another kind":           {`{"a":1}`, []string{`{"a":1}`}}, // an unknown reason
		"a word that begins as a list":   {"[stop]", nil},
		"JSON of a list of lists":        {`[["stop"]]`, nil},
		"an invalid character in a word": {"stop\xff", []string{"stop\xff"}},
	} {
		v := pcommon.NewValueEmpty()
		if s, ok := tt.value.(string); ok {
			v.SetStr(s)
		} else {
			require.NoError(t, v.FromRaw(tt.value))
		}
		assert.Equal(t, tt.want, finishReasons(v, nil), name)
		assert.Equal(t, tt.want, finishReasons(v, &Lists{}), "%s, in memory that is kept", name)
	}
}

func slicesOf(s string, n int) (list []string) {
	for range n {
		list = append(list, s)
	}
	return list
}

// Every dialect reads them in every form. Spring AI and Microsoft's agent-framework write
// JSON in a string.
func TestFinishReasonsOfEveryDialect(t *testing.T) {
	type m = map[string]any
	const key = "gen_ai.response.finish_reasons"
	forms := map[string]any{"a list": []any{"length"}, "JSON": `["length"]`, "one alone": "length", "one as JSON": `"length"`}
	for name, s := range map[string]shape{
		"gen_ai":         {scope: "org.springframework.ai", attrs: m{"gen_ai.operation.name": "chat"}},
		"otelllm":        {attrs: m{"gen_ai.operation.name": "chat", "llm.stream.end": "terminal_event"}},
		"anthropic":      native(sdkGo, statusOK, nil),
		"vercel_ai":      vercel6("ai.streamText.doStream", statusUnset, nil),
		"vercel_ai_v7":   vercel7("chat", statusUnset, nil),
		"openinference":  arize(oiOpenAI, "LLM", statusUnset, nil),
		"openai_agents":  arize(oiAgents, "LLM", statusOK, m{"llm.token_count.total": 12}),
		"openllmetry":    traceloop(traceloopJS, statusUnset, m{"gen_ai.operation.name": "chat"}),
		"openai_js":      openAIJS(statusUnset, m{"gen_ai.system": "openai"}),
		"go_compile":     otelc(statusUnset, "", nil),
		"llm.finish_r.":  arize(oiOpenAI, "LLM", statusUnset, nil),
		"anthropic.stop": native(sdkGo, statusOK, nil),
		"ai.response":    vercel6("ai.streamText.doStream", statusUnset, nil),
		"llm.response":   traceloop("", statusOK, m{"llm.request.type": "chat"}),
	} {
		key := key
		switch name {
		case "llm.finish_r.":
			key = "llm.finish_reason"
		case "anthropic.stop":
			key = "anthropic.message.stop_reason"
		case "ai.response":
			key = "ai.response.finishReason"
		case "llm.response":
			key = "llm.response.finish_reason"
		}
		for form, v := range forms {
			s.attrs[key] = v
			_, d, facts := s.read(t)
			assert.Equal(t, classify.FinishMaxTokens, facts.Request.Finish, "%s of %s, read by %s", form, name, d.Name())
		}
	}
	for form, v := range map[string]any{"a list": []any{"tool-calls"}, "JSON": `["tool-calls"]`, "one alone": "tool-calls"} {
		_, _, facts := vercel7("invoke_agent", statusUnset, m{key: v}).read(t)
		assert.Equal(t, classify.No, facts.Run.Failed, form)
	}
}

// A status of a response in place of a reason is no success.
func TestStatusInPlaceOfAReason(t *testing.T) {
	for reason, want := range map[string]classify.Finish{
		"completed": classify.FinishStop, "incomplete": classify.FinishLimited, "failed": classify.FinishMissing, "cancelled": classify.FinishMissing,
		"in_progress": classify.FinishWaiting, "something_new": classify.FinishOther,
	} {
		s := shape{attrs: map[string]any{"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": []any{reason}}}
		_, _, facts := s.read(t)
		assert.Equal(t, want, facts.Request.Finish, reason)
	}
}

func TestMessagesContent(t *testing.T) {
	type m = map[string]any
	for name, tt := range map[string]struct {
		value any
		want  classify.Fact
	}{
		"no parts":              {`[{"role":"assistant","parts":[],"finish_reason":"stop"}]`, classify.No},
		"no parts, structured":  {[]any{m{"role": "assistant", "parts": []any{}}}, classify.No},
		"an empty text":         {`[{"parts":[{"type":"text","content":""}]}]`, classify.No},
		"empty reasoning":       {`[{"parts":[{"type":"reasoning","content":""}]}]`, classify.No},
		"a text":                {`[{"parts":[{"type":"text","content":"x"}]}]`, classify.Yes},
		"a text, structured":    {[]any{m{"parts": []any{m{"type": "text", "content": "x"}}}}, classify.Yes},
		"a text without any":    {`[{"parts":[{"type":"text"}]}]`, classify.Yes},
		"a call":                {`[{"parts":[{"type":"tool_call","id":"a"}]}]`, classify.Yes},
		"an unknown part":       {`[{"parts":[{"type":"new","content":""}]}]`, classify.Yes},
		"in the second message": {`[{"parts":[]},{"parts":[{"type":"text","content":"x"}]}]`, classify.Yes},
		"another form":          {`[{"role":"assistant","content":"x"}]`, classify.NotObserved},
		"parts that are null":   {`[{"parts":null}]`, classify.NotObserved},
		"no message":            {`[]`, classify.NotObserved},
		"no list":               {`{"parts":[]}`, classify.NotObserved},
		"cut":                   {`[{"parts":[{"type":"te`, classify.NotObserved},
		"long":                  {`[{"parts":[{"type":"text","content":"` + strings.Repeat("x", maxEmpty), classify.Yes},
		"nothing":               {"", classify.NotObserved},
		"a number":              {3, classify.NotObserved},
		"hidden":                {"__REDACTED__", classify.NotObserved},
	} {
		v := pcommon.NewValueEmpty()
		require.NoError(t, v.FromRaw(tt.value))
		assert.Equal(t, tt.want, messagesContent(v), name)
	}
}
