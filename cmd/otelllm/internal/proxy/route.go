package proxy

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// route returns the upstream of a request, and the prefix of its path that is not sent there.
// An upstream of the request's host comes before those that only name a path: a client that
// asks for that host means its paths. The providers of [UpstreamFor] that no upstream names come
// last, since the request's credentials are for the others.
func (s *Server) route(r *http.Request) (base *url.URL, prefix string, ok bool) {
	var byPath, rest *Upstream
	for i := range s.upstreams {
		u := &s.upstreams[i]
		switch {
		case u.Provider != "" || !hasPrefix(r, u.Prefix) || u.Host != "" && !sameHost(u.Host, r.Host):
		case u.Host != "":
			return u.URL, strings.TrimSuffix(u.Prefix, "/"), true
		case strings.TrimSuffix(u.Prefix, "/") != "":
			byPath = cmp.Or(byPath, u)
		default:
			rest = cmp.Or(rest, u)
		}
	}
	if byPath != nil {
		return byPath.URL, strings.TrimSuffix(byPath.Prefix, "/"), true
	}
	base, ok = UpstreamFor(r)
	for i := range s.upstreams {
		if u := &s.upstreams[i]; ok && u.Provider == base.Host {
			return u.URL, "", u.URL != nil
		}
	}
	if rest != nil {
		return rest.URL, "", true
	}
	return base, "", ok
}

// hasPrefix reports whether the path of a request begins with the segments of prefix. A slash
// that is escaped, as in /openai%2Fv1, does not end a segment.
func hasPrefix(r *http.Request, prefix string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix == "" {
		return true
	}
	if !below(r.URL.Path, prefix) {
		return false
	}
	rest, ok := cutPrefix(rawPath(r), prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// below reports whether path begins with the segments of prefix.
func below(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// sameHost reports whether a request's host is the wanted one, which may leave out the port.
func sameHost(want, got string) bool {
	if strings.EqualFold(want, got) {
		return true
	}
	host, _, err := net.SplitHostPort(got)
	return err == nil && strings.EqualFold(want, host)
}

// target returns the URL that a request is sent to: its own path and query, as they came,
// at base.
func target(base *url.URL, r *http.Request, prefix string) *url.URL {
	u := &url.URL{
		Scheme: base.Scheme, Host: base.Host,
		RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery,
	}
	before := strings.Trim(base.EscapedPath(), "/")
	if before != "" {
		before = "/" + before // url.URL.JoinPath leaves it out
	}
	rest, _ := cutPrefix(rawPath(r), prefix)
	path := before + rest
	if path == "" {
		path = "/"
	}
	if decoded, err := url.PathUnescape(path); err == nil {
		u.Path, u.RawPath = decoded, path
	} else {
		u.Path = path
	}
	// Package url escapes some bytes that clients send unescaped.
	if u.EscapedPath() != path && !strings.HasPrefix(path, "//") {
		u.Opaque = path
	}
	return u
}

// location returns where the client has to go for what the upstream calls so. A place of the upstream itself is behind
// the proxy: the client sends its credentials there, as it would without the proxy.
func (x *exchange) location(to string) string {
	u, err := x.target.Parse(to)
	if err != nil || u.Scheme != x.base.Scheme || u.Host != x.base.Host {
		return to
	}
	before := strings.TrimRight(x.base.EscapedPath(), "/")
	rest, ok := strings.CutPrefix(u.EscapedPath(), before)
	if !ok || !strings.HasPrefix(rest, "/") {
		return u.String() // the proxy does not lead there
	}
	if x.prefix == "" && before == "" && strings.HasPrefix(to, "/") {
		return to
	}
	here := url.URL{Path: x.prefix}
	text := here.EscapedPath() + rest
	if u.RawQuery != "" || u.ForceQuery {
		text += "?" + u.RawQuery
	}
	if u.Fragment != "" {
		text += "#" + u.EscapedFragment()
	}
	return text
}

// rawPath is the path of a request as it was sent.
func rawPath(r *http.Request) string {
	raw, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(raw, "/") { // the absolute form
		return r.URL.EscapedPath()
	}
	return raw
}

// cutPrefix removes the prefix of a path that is still escaped. The prefix is not. It reports
// whether path has the prefix.
func cutPrefix(path, prefix string) (rest string, ok bool) {
	for i := len(prefix); i <= min(len(path), 3*len(prefix)); i++ {
		if decoded, err := url.PathUnescape(path[:i]); err == nil && decoded == prefix {
			return path[i:], true
		}
	}
	return path, false
}

// Providers whose API a request may name.
var (
	openAI    = &url.URL{Scheme: "https", Host: "api.openai.com"}
	chatGPT   = &url.URL{Scheme: "https", Host: "chatgpt.com"}
	anthropic = &url.URL{Scheme: "https", Host: "api.anthropic.com"}
	gemini    = &url.URL{Scheme: "https", Host: "generativelanguage.googleapis.com"}
	mistral   = &url.URL{Scheme: "https", Host: "api.mistral.ai"}
	cohere    = &url.URL{Scheme: "https", Host: "api.cohere.com"}
)

// byHeader are the headers that only one provider's API has.
var byHeader = []struct {
	name string
	url  *url.URL
}{
	{"Anthropic-Version", anthropic},
	{"X-Goog-Api-Key", gemini},
}

// byPath are the paths that only one provider's API has, or that its API made the custom.
var byPath = []struct {
	path string
	url  *url.URL
}{
	{"/v1/messages", anthropic},
	{"/v1/complete", anthropic},
	{"/v1beta", gemini},
	{"/v1alpha", gemini},
	{"/upload/v1beta", gemini},
	{"/v1/agents/completions", mistral},
	{"/v1/fim/completions", mistral},
	{"/v1/ocr", mistral},
	{"/v2/chat", cohere},
	{"/v2/embed", cohere},
	{"/v2/rerank", cohere},
	{"/v1/rerank", cohere},
	{"/backend-api", chatGPT},
	{"/v1/chat/completions", openAI},
	{"/v1/responses", openAI},
	{"/v1/completions", openAI},
	{"/v1/embeddings", openAI},
	{"/v1/models", openAI},
	{"/v1/realtime", openAI},
	{"/v1/audio", openAI},
	{"/v1/images", openAI},
	{"/v1/moderations", openAI},
	{"/v1/files", openAI},
	{"/v1/uploads", openAI},
	{"/v1/vector_stores", openAI},
}

// UpstreamFor returns the provider that a request's headers or path name. It reports false
// where several have such an API and the request does not say which one it means.
func UpstreamFor(r *http.Request) (*url.URL, bool) {
	for _, known := range byHeader {
		if r.Header.Get(known.name) != "" {
			return known.url, true
		}
	}
	// Gemini's stable API has a colon before the method: /v1/models/gemini-2.5-pro:countTokens.
	if name, ok := strings.CutPrefix(r.URL.Path, "/v1/models/"); ok && geminiMethod(name) {
		return gemini, true
	}
	for _, known := range byPath {
		if below(r.URL.Path, known.path) {
			return known.url, true
		}
	}
	return nil, false
}

// geminiMethod reports whether the path of a model ends in a method of Gemini's.
func geminiMethod(name string) bool {
	_, method, ok := strings.Cut(name, ":")
	switch method {
	case "generateContent", "streamGenerateContent", "countTokens", "embedContent", "batchEmbedContents":
		return ok
	default: // the models of OpenAI that were tuned have colons, too
		return false
	}
}
