package httpcall

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
)

// Intermediary reports whether an error response, which does not have the form of a
// provider's error, comes from something in front of the provider: a page in HTML, problem
// details (RFC 9457) or an empty body with the headers of such a server, or a status that only
// such a server has. The catalogue has those headers and statuses.
func Intermediary(status int, header http.Header, body []byte) bool {
	switch {
	case catalogue.IntermediaryStatus(status):
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
	return page || catalogue.IntermediaryServer(Value(header, "Server")) || header.Get("Cf-Ray") != "" || header.Get("Via") != ""
}

// Challenged reports whether a CDN asks the client to prove that a person is there.
func Challenged(header http.Header) bool {
	return strings.EqualFold(header.Get("Cf-Mitigated"), "challenge")
}
