package proxy

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// On loopback no stranger can connect, but a website in a browser on this machine can make the
// browser do so: directly, or under a name of its own that it points at 127.0.0.1. Such
// requests are refused. Agents and SDKs are not concerned: they ask for the address that they
// were given and send no Origin, or one of an application.

// foreign returns why a request that came over loopback is refused; "": it is not.
func (s *Server) foreign(r *http.Request) string {
	if !overLoopback(r) {
		return ""
	}
	host := hostname(r.Host)
	if !privateName(host) && !s.named[host] {
		return "its host is another one"
	}
	crossSite := r.Header.Get("Sec-Fetch-Site") == "cross-site"
	origins := r.Header.Values("Origin")
	for _, origin := range origins {
		u, err := url.Parse(origin)
		switch {
		case err != nil:
			return "its origin is not valid"
		case u.Scheme == "" && crossSite: // null: it may be a frame of a website
			return "a website made it"
		case u.Scheme != "http" && u.Scheme != "https": // an application, such as vscode-webview://…
		case thisMachine(hostname(u.Host)):
		case !crossSite && (hostname(u.Host) == host || s.named[hostname(u.Host)]):
		default:
			return "a website made it"
		}
	}
	if crossSite && len(origins) == 0 {
		return "a website made it"
	}
	return ""
}

// overLoopback reports whether a request came to a loopback address.
func overLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// hostname returns a host without its port, in the form in which hosts are compared.
func hostname(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// privateName reports whether a host is an address, or a name that no website can have. Names
// below internal are those by which containers reach the machine that they run on.
func privateName(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || thisMachine(host) || strings.HasSuffix(host, ".internal")
}

// thisMachine reports whether a host is always this machine.
func thisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// namedHosts returns the hosts that requests may ask for because an upstream has them.
func namedHosts(upstreams []Upstream) map[string]bool {
	named := make(map[string]bool)
	for _, u := range upstreams {
		if u.URL != nil {
			named[hostname(u.URL.Host)] = true
		}
		if u.Host != "" {
			named[hostname(u.Host)] = true
		}
	}
	for _, u := range []*url.URL{openAI, chatGPT, anthropic, gemini, mistral, cohere} {
		named[hostname(u.Host)] = true
	}
	return named
}

// refuse answers a request that is refused.
func refuse(w http.ResponseWriter, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, `{"error":{"type":"otelllm_refused","message":"otelllm serves this machine only and refused the request: `+why+`. To allow a host, add --upstream HOST=URL"}}`+"\n")
}
