package httpcall

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue"
)

// maxWords bounds the beginning of a body in which the words of intermediaries are searched, in
// bytes.
const maxWords = 1 << 10

// Intermediary reports whether an error response, which does not have the form of a
// provider's error, comes from something in front of the provider: by a header or words of such
// a server's own answers, or by a status that only such a server has; and a page in HTML, problem
// details (RFC 9457) or an empty body by the headers that it writes into every answer. A body
// that is nil was not read, and may be anything. The catalogue has those headers, words and
// statuses.
func Intermediary(status int, header http.Header, body []byte) bool {
	switch {
	case catalogue.IntermediaryStatus(status):
		return true
	case header.Get("Cf-Mitigated") != "":
		return true
	}
	unread := body == nil && header.Get("Content-Length") != "0"
	body = bytes.TrimSpace(body)
	text := strings.ToLower(string(body[:min(len(body), maxWords)]))
	if catalogue.IntermediaryAnswer(Value(header, "Server"), header.Get, text) || ownForm(status, header, body, text) {
		return true
	}
	media := MediaType(header)
	switch {
	case media == "text/html", len(body) > 0 && body[0] == '<':
		return true
	case media != "application/problem+json" && (unread || len(body) > 0):
		return false
	default:
		return catalogue.IntermediaryServer(Value(header, "Server")) || header.Get("Cf-Ray") != "" || header.Get("Via") != ""
	}
}

// ownForm reports whether a response has the form of one that such a server made itself. text is
// the beginning of the body in lower case.
func ownForm(status int, header http.Header, body []byte, text string) bool {
	switch {
	case text == "":
		return false
	case header.Get("X-Amz-Apigw-Id") != "" && header.Get("X-Amzn-Errortype") != "":
		// Amazon API Gateway, a REST API: what a backend sends so is renamed.
		// https://docs.aws.amazon.com/apigateway/latest/developerguide/supported-gateway-response-types.html
		return true
	case header.Get("Apigw-Requestid") != "":
		// Of an HTTP API: {"message":"Service Unavailable"} and the like.
		var answer map[string]string
		return json.Unmarshal(body, &answer) == nil && len(answer) == 1 && answer["message"] != ""
	case status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		// These are of gateways only (RFC 9110, section 15.6), and Traefik writes nothing else.
		if strings.EqualFold(text, http.StatusText(status)) {
			return true
		}
	}
	// Cloudflare: error code: 1015, for clients that do not ask for HTML.
	// https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-1xxx-errors/
	code, ok := strings.CutPrefix(text, "error code: ")
	_, err := strconv.ParseUint(code, 10, 16)
	return ok && err == nil
}

// Challenged reports whether a CDN asks the client to prove that a person is there.
func Challenged(header http.Header) bool {
	return strings.EqualFold(header.Get("Cf-Mitigated"), "challenge")
}
