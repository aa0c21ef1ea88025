package classify

import "slices"

// providerTools is what provider-executed tools may have done.
type providerTools uint8

const (
	providerToolsNone     providerTools = iota // none was offered, none began, or none has effects
	providerToolsUnknown                       // which tools were offered was not observed
	providerToolsPossible                      // tools were offered, and whether one began is not known
	providerToolsBegan                         // a tool that may have effects began
)

// harmlessProviderTools have no effects beyond the answer: they search, read, or change the
// request or the answer on their way.
var harmlessProviderTools = setOf(
	// OpenAI, https://platform.openai.com/docs/guides/tools; a list of tools of an MCP server
	// that is not a call of one.
	"web_search", "file_search", "tool_search", "mcp_list_tools",
	// Anthropic, https://docs.claude.com/en/docs/agents-and-tools/tool-use/overview
	"web_fetch",
	// Google, Tool of google.golang.org/genai
	"google_search", "google_search_retrieval", "url_context", "google_maps", "enterprise_web_search", "parallel_ai_search",
	"exa_ai_search", "retrieval",
	// Bedrock, https://docs.aws.amazon.com/nova/latest/nova2-userguide/web-grounding.html
	"nova_grounding",
	// xAI, https://docs.x.ai/docs/guides/tools/overview
	"x_search", "collections_search", "live_search", "attachment_search", "view_image", "view_x_video",
	// Groq, https://console.groq.com/docs/compound/built-in-tools
	"browser_search", "search", "visit", "visit_website", "wolfram_alpha",
	// Mistral, https://docs.mistral.ai/agents/tools/built-in
	"web_search_premium", "document_library",
	// OpenRouter, https://openrouter.ai/docs/guides/features/server-tools and …/features/plugins
	"openrouter:web_search", "openrouter:web_fetch", "openrouter:tool_search", "openrouter:file_search", "openrouter:datetime",
	"openrouter:experimental__search_models",
	"response-healing", "file-parser", "moderation", "context-compression", "auto-router", "auto-beta-router", "pareto-router",
)

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// mayHaveEffects reports whether one of these provider-executed tools may have effects. A
// list that is full may lack some.
func mayHaveEffects(types []string) bool {
	return len(types) >= MaxIDs || slices.ContainsFunc(types, func(name string) bool { return !harmlessProviderTools[name] })
}
