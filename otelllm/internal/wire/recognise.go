package wire

import (
	"net/http"
	"strings"
)

// protocols are all wire protocols. To add one, add a line here and files of its own. A
// new framing is a mode of bodyDecoder.
var protocols = []struct {
	Protocol

	// at returns the protocol if the path is that of one of its requests, with what else
	// the path contains; else nil. sure: no other application has such a path.
	at func(path string) (p Protocol, sure bool)
}{
	{openAIChat{}, chatAt},
	{openAIResponses{}, responsesAt},
	{anthropicMessages{}, messagesAt},
	{gemini{}, geminiAt},
	{bedrockConverse{}, bedrockAt},
	{ollama{}, ollamaAt},
	{openAICompletions{}, completionsAt}, // after chat, whose path ends so too
}

// match finds the protocol of a request. See [Match].
func match(method, path string) (p Protocol, sure, ok bool) {
	if method != http.MethodPost {
		return nil, false, false
	}
	path = strings.TrimSuffix(path, "/")
	for _, known := range protocols {
		if p, sure := known.at(path); p != nil {
			return p, sure, true
		}
	}
	return nil, false, false
}

func byName(name string) (Protocol, bool) {
	for _, p := range protocols {
		if p.Name() == name {
			return p.Protocol, true
		}
	}
	return nil, false
}
