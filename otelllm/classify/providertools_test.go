package classify

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/semconv"
)

// What provider-executed tools may have done goes by those that began, where their types are
// known, and otherwise by those that were offered.
func TestProviderToolsBegan(t *testing.T) {
	search, code := []string{"web_search"}, []string{"web_search", "bash_code_execution"}
	full := slices.Repeat(search, MaxIDs)
	cut, done, refused := semconv.StreamEndReadError, semconv.StreamEndTerminalEvent, semconv.StreamEndHTTPError
	for _, tt := range []struct {
		name           string
		offered, began []string
		count          Count
		end            semconv.StreamEnd
		unread         bool
		want           providerTools
	}{
		{"nothing began, and cut", search, nil, Counted(0), cut, false, providerToolsNone},
		{"harmful ones offered, and cut", code, nil, Counted(0), cut, false, providerToolsPossible},
		{"harmful ones offered, and whole", code, nil, Counted(0), done, false, providerToolsNone},
		{"not known what was offered, and cut", nil, nil, Counted(0), cut, false, providerToolsUnknown},
		{"not known what was offered, and whole", nil, nil, Counted(0), done, false, providerToolsNone},
		{"not known what was offered, and a server error", nil, nil, 0, semconv.StreamEndUnset, false, providerToolsUnknown},
		{"not known what was offered, and refused", nil, nil, 0, refused, false, providerToolsNone},

		{"another one began than was offered", search, []string{"bash_code_execution"}, Counted(1), cut, false, providerToolsBegan},
		{"it began, and the answer is whole", search, []string{"code_interpreter"}, Counted(1), done, false, providerToolsBegan},
		{"one of two", search, []string{"web_search", "mcp"}, Counted(2), cut, false, providerToolsBegan},
		{"a new one", search, []string{"teleport"}, Counted(1), cut, false, providerToolsBegan},
		{"the harmless one of two", code, search, Counted(3), done, false, providerToolsNone},
		{"the harmless one of two, and cut", code, search, Counted(3), cut, false, providerToolsPossible},
		{"the harmless one of two, and a part not read", code, search, Counted(3), done, true, providerToolsPossible},
		{"a harmless one, and cut", search, search, Counted(1), cut, false, providerToolsNone},
		{"a harmless one of those that are not known", nil, search, Counted(1), cut, false, providerToolsUnknown},
		{"a harmless one of those that are not known, and whole", nil, search, Counted(1), done, false, providerToolsNone},
		{"a harmless one that was not offered", []string{}, search, Counted(1), cut, false, providerToolsNone},
		{"more than the list has", search, full, Counted(99), cut, false, providerToolsBegan},

		{"its type is not known", search, nil, Counted(1), cut, false, providerToolsNone},
		{"its type is not known, of several", code, nil, Counted(1), done, false, providerToolsBegan},
		{"its type is not known, of none", []string{}, nil, Counted(1), done, false, providerToolsBegan},
		{"nor what was offered", nil, nil, Counted(1), done, false, providerToolsBegan},
	} {
		r := Request{
			Status: 200, Phase: semconv.PhaseText, Ended: tt.end, Finish: FinishStop, Unread: tt.unread,
			ProviderTools: tt.offered, ProviderToolTypes: tt.began, ProviderToolsStarted: tt.count,
		}
		switch tt.end {
		case refused:
			r.Status = 429
		case semconv.StreamEndUnset:
			r.Status, r.Finish = 503, FinishNotObserved
		}
		assert.Equal(t, tt.want, r.providerTools(), tt.name)
	}
}

// Tools that search and read change nothing, by the names of every provider.
func TestHarmlessProviderTools(t *testing.T) {
	cut := Request{Status: 200, Phase: semconv.PhaseText, Ended: semconv.StreamEndReadError, ProviderToolsStarted: Counted(0)}
	for _, name := range []string{
		"web_search", "file_search", "web_fetch", "retrieval", "google_search", "url_context", "google_maps", "enterprise_web_search",
		"tool_search", "x_search", "collections_search", "browser_search", "openrouter:web_search",
	} {
		cut.ProviderTools = []string{name}
		assert.Equal(t, providerToolsNone, cut.providerTools(), name)
	}
	for _, name := range []string{
		"code_interpreter", "code_execution", "bash_code_execution", "mcp", "shell", "image_generation", "computer_use", "skills",
		"openrouter:bash", "browser_automation", "handoff", "program", "", "Web_Search", "web_search ",
	} {
		cut.ProviderTools = []string{"web_search", name}
		assert.Equal(t, providerToolsPossible, cut.providerTools(), name)
	}
}

// A limit that was asked for as a probe is no failure, and neither is the end of a turn
// without a word after the outputs of tools.
func TestNothingDue(t *testing.T) {
	for _, tt := range []struct {
		name      string
		finish    Finish
		limit     Count
		afterTool bool
		content   Count
		want      semconv.Class
	}{
		{"one token, and it came", FinishMaxTokens, Counted(1), false, Counted(1), semconv.ClassUnset},
		{"one token, and it was a thought's", FinishMaxTokens, Counted(1), false, Counted(0), semconv.ClassUnset},
		{"one token, and the model stopped", FinishStop, Counted(1), false, Counted(1), semconv.ClassUnset},
		{"none: the cache is warmed", FinishMaxTokens, Counted(0), false, Counted(0), semconv.ClassUnset},
		{"none, by another word", FinishStop, Counted(0), false, Counted(0), semconv.ClassUnset},
		{"a limit that is not named", FinishLimited, Counted(1), false, Counted(1), semconv.ClassUnset},
		{"two tokens", FinishMaxTokens, Counted(2), false, Counted(1), semconv.ClassOutputLimited},
		{"the limit is not known", FinishMaxTokens, 0, false, Counted(1), semconv.ClassOutputLimited},
		{"a filter cut the one token", FinishContentFilter, Counted(1), false, Counted(0), semconv.ClassOutputLimited},
		{"the window was full", FinishContextWindow, Counted(1), false, Counted(0), semconv.ClassOutputLimited},
		{"no reason for the end of one token", FinishMissing, Counted(1), false, Counted(1), semconv.ClassStreamInterrupted},
		{"one token, and none came", FinishStop, Counted(1), false, Counted(0), semconv.ClassEmptyCompletion},
		{"empty after outputs", FinishStop, 0, true, Counted(0), semconv.ClassUnset},
		{"empty without outputs", FinishStop, 0, false, Counted(0), semconv.ClassEmptyCompletion},
		{"limited after outputs", FinishMaxTokens, 0, true, Counted(0), semconv.ClassOutputLimited},
		{"the history was summarised", FinishCompacted, 0, false, Counted(0), semconv.ClassUnset},
		{"paused", FinishPaused, 0, false, Counted(1), semconv.ClassOutputLimited},
	} {
		r := Request{
			Status: 200, Phase: semconv.PhaseStreamEnd, Ended: semconv.StreamEndTerminalEvent, Finish: tt.finish, Failed: No,
			MaxTokens: tt.limit, HistoryEndsWithOutputs: tt.afterTool, Text: tt.content, Reasoning: Counted(0),
			ToolInputsStarted: Counted(0), ToolCalls: Counted(0), ProviderToolsStarted: Counted(0),
		}
		e := endingOf(&r)
		assert.Equal(t, tt.want, e.classify().class, tt.name)
	}
	assert.Equal(t, FinishCompacted, ParseFinish([]string{"compaction"}))
}
