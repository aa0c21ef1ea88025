package httpcall

import (
	"bytes"
	"net/http"
	"strings"
)

// intermediaries are the values of the header Server, in lower case and up to a slash, of
// proxies, load balancers and CDNs. Providers are behind them, too: the value counts only for a
// response that does not have the form of a provider's.
var intermediaries = map[string]bool{
	"cloudflare": true, "nginx": true, "openresty": true, "awselb": true, "cloudfront": true, "envoy": true, "istio-envoy": true,
	"varnish": true, "haproxy": true, "squid": true, "akamaighost": true, "google frontend": true, "gws": true, "microsoft-azure-application-gateway": true,
	"caddy": true, "traefik": true, "apache": true, "kong": true, "fastly": true, "bigip": true, "zscaler": true,
}

// Intermediary reports whether an error response, which does not have the form of a
// provider's error, comes from something in front of the provider: a page in HTML, problem
// details (RFC 9457) or an empty body with the headers of such a server, or a status that only
// such a server has. Sources: RFC 9110, section 15.5.8, and
// https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors/.
func Intermediary(status int, header http.Header, body []byte) bool {
	switch {
	case status == http.StatusProxyAuthRequired, status >= 520 && status <= 527, status == 530:
		return true
	case header.Get("Cf-Mitigated") != "":
		return true
	}
	body = bytes.TrimSpace(body)
	media := MediaType(header)
	page := media == "text/html" || len(body) > 0 && body[0] == '<'
	if !page && media != "application/problem+json" && len(body) > 0 {
		return false
	}
	server, _, _ := strings.Cut(strings.ToLower(Value(header, "Server")), "/")
	return page || intermediaries[server] || header.Get("Cf-Ray") != "" || header.Get("Via") != ""
}

// Challenged reports whether a CDN asks the client to prove that a person is there.
func Challenged(header http.Header) bool {
	return strings.EqualFold(header.Get("Cf-Mitigated"), "challenge")
}
