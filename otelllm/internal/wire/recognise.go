package wire

import (
	"net/http"
	"strings"
)

// protocols are all the wire protocols. A new one is a line here and files of its
// own; a framing that none of them has yet is a mode of bodyDecoder.
var protocols = []struct {
	Protocol

	// at is the protocol as the path of a request names it, with what else the path
	// says; nil: it is no request of this protocol.
	at func(path string) Protocol
}{
	{openAIChat{}, atEnd(openAIChat{}, "/chat/completions")},
	{openAIResponses{}, atEnd(openAIResponses{}, "/responses")},
	{anthropicMessages{}, atEnd(anthropicMessages{}, "/v1/messages")},
	{gemini{}, geminiAt},
	{bedrockConverse{}, bedrockAt},
	{ollama{}, ollamaAt},
}

// atEnd is p on paths that end so, nil on others.
func atEnd(p Protocol, suffix string) func(string) Protocol {
	return func(path string) Protocol {
		if strings.HasSuffix(path, suffix) {
			return p
		}
		return nil
	}
}

func recognise(method, path string) (Protocol, bool) {
	if method != http.MethodPost {
		return nil, false
	}
	path = strings.TrimSuffix(path, "/")
	for _, known := range protocols {
		if p := known.at(path); p != nil {
			return p, true
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
