package wire

import (
	"net/http"
	"strings"
)

// protocols are all the wire protocols. A new one is a line here and files of its
// own; one that is neither SSE nor JSON brings its framing to newDecoder.
var protocols = []struct {
	Protocol

	suffix string // of the path of its requests
}{
	{openAIChat{}, "/chat/completions"},
	{openAIResponses{}, "/responses"},
	{anthropicMessages{}, "/v1/messages"},
}

func recognise(method, path string) (Protocol, bool) {
	if method != http.MethodPost {
		return nil, false
	}
	path = strings.TrimSuffix(path, "/")
	for _, p := range protocols {
		if strings.HasSuffix(path, p.suffix) {
			return p.Protocol, true
		}
	}
	return nil, false
}

func byName(name string) (Protocol, bool) {
	for _, p := range protocols {
		if p.Name() == name {
			return p.Protocol, true
		}
	}
	return nil, false
}
