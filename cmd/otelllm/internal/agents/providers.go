package agents

import (
	"net/url"
	"strings"
)

// provider is a model provider, and the variables from which programs take its base URL.
type provider struct {
	Name string
	URL  string // where it serves
	Path string // what a base URL in the variables has after the URL
	Vars []string
	// Own are variables that are routed where they are set, and left alone otherwise,
	// because there is no default for them.
	Own []string
	// Unless are variables that say that a program may call another service with the provider's
	// SDK. If one is set there is no default: Azure's client in OpenAI's SDK for Node sends its
	// key to OPENAI_BASE_URL.
	Unless []string
}

// has reports whether a route is one of the provider.
func (p *provider) has(r Route) bool {
	return r.Prefix == "/"+p.Name || strings.HasPrefix(r.Prefix, "/"+p.Name+"-")
}

// providers is the table of providers. The variables are those of the providers' SDKs and of
// LiteLLM.
var providers = []provider{
	{
		Name: "openai", URL: "https://api.openai.com", Path: "/v1", Vars: []string{"OPENAI_BASE_URL", "OPENAI_API_BASE"},
		Own: []string{"AZURE_OPENAI_ENDPOINT", "AZURE_API_BASE"}, Unless: []string{"AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"},
	},
	{
		Name: "anthropic", URL: "https://api.anthropic.com", Vars: []string{"ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"},
		Own: []string{bedrockVar, "ANTHROPIC_VERTEX_BASE_URL", "ANTHROPIC_FOUNDRY_BASE_URL"},
	},
	{
		Name: "gemini", URL: "https://generativelanguage.googleapis.com", Vars: []string{"GOOGLE_GEMINI_BASE_URL"},
		Own: []string{"GOOGLE_VERTEX_BASE_URL", "GEMINI_API_BASE"},
	},
	{Name: "mistral", URL: "https://api.mistral.ai", Path: "/v1", Vars: []string{"MISTRAL_API_BASE"}},
	{Name: "cohere", URL: "https://api.cohere.com", Vars: []string{"CO_API_URL"}},
	{Name: "groq", URL: "https://api.groq.com", Vars: []string{"GROQ_BASE_URL"}},
	{Name: "openrouter", URL: "https://openrouter.ai", Path: "/api/v1", Vars: []string{"OPENROUTER_API_BASE"}},
	{Name: "deepseek", URL: "https://api.deepseek.com", Vars: []string{"DEEPSEEK_API_BASE"}},
	{Name: "xai", URL: "https://api.x.ai", Path: "/v1", Vars: []string{"XAI_API_BASE"}},
	{Name: "ollama", URL: "http://127.0.0.1:11434", Vars: []string{"OLLAMA_API_BASE"}},
}

// ProviderNames returns the names that an upstream can be given for.
func ProviderNames() []string {
	names := make([]string, len(providers))
	for i, p := range providers {
		names[i] = p.Name
	}
	return names
}

// RoutesTo returns the routes to a provider that serves at target, and the host that it has by
// default. It reports false if the name is not known.
func RoutesTo(name string, target *url.URL) (routes []Route, host string, ok bool) {
	for i := range providers {
		if p := &providers[i]; p.Name == name {
			known, _ := url.Parse(p.URL) // a constant
			return p.routes("/"+p.Name, target), known.Host, true
		}
	}
	return nil, "", false
}

// findProvider returns the provider of a name that is in the table.
func findProvider(name string) *provider {
	for i := range providers {
		if providers[i].Name == name {
			return &providers[i]
		}
	}
	panic("no such provider: " + name)
}

// DefaultRoutes returns the routes to the providers, by name: /openai, /anthropic and so on.
func DefaultRoutes() []Route {
	var routes []Route
	for i := range providers {
		target, _ := url.Parse(providers[i].URL) // a constant
		routes = append(routes, providers[i].routes("/"+providers[i].Name, target)...)
	}
	return routes
}

// routes returns the routes below a prefix to a provider that serves at target.
func (p *provider) routes(prefix string, target *url.URL) []Route {
	routes := []Route{{prefix, target}}
	if p.Name == "anthropic" {
		// Some SDKs take ANTHROPIC_BASE_URL to end in /v1, and Anthropic's own do not.
		routes = append(routes, Route{prefix + "/messages", target.JoinPath("v1", "messages")})
	}
	return routes
}
