package httpcall

import (
	"net/http"
	"strings"

	"github.com/otelllm/otelllm-go/otelllm/internal/redact"
)

// UserAgent returns what is recorded of a request's User-Agent: its first product with the
// version, such as "codex_exec/0.169.0", or without one if what follows is no version; at most
// 129 bytes. It returns "" if the header is missing, or if either may not be recorded. The rest may name
// the user's machine.
func UserAgent(h http.Header) string {
	first, _, _ := strings.Cut(Value(h, "User-Agent"), " ")
	product, version, versioned := strings.Cut(first, "/")
	if !versioned || product == "" || version == "" || redact.Name(product) != product || redact.Name(version) != version || strings.Contains(version, "/") {
		return ""
	}
	if number := strings.TrimPrefix(version, "v"); number == "" || number[0] < '0' || number[0] > '9' {
		return product // OpenAI/Python 2.1.0
	}
	return product + "/" + version
}
