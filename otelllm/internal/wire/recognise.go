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
	{geminiInteractions{}, interactionsAt},
	{cohereChat{}, cohereAt},
	{mistralConversations{}, mistralAt},
	{openAICompletions{}, completionsAt}, // after chat, whose path ends so too
}

// Match finds the protocol of a request by its method and URL path. It compares
// suffixes, so that gateways' prefixes and Azure's deployments are recognised. Where
// the path holds what other protocols have in the body (Gemini and Bedrock: the
// model, and whether the answer streams), the returned protocol holds it and its
// ReadRequest reports it. sure: only a model call has this path. Otherwise other
// applications may have it too (/api/chat, …/responses, /v1/messages): unless the
// host or a header proves it, the request is a model call only if its body is one,
// which [Request].IsCall reports.
func Match(method, path string) (p Protocol, sure, ok bool) {
	if method != http.MethodPost {
		return nil, false, false
	}
	path = strings.TrimSuffix(path, "/")
	for _, known := range protocols {
		if p, sure := known.at(path); p != nil {
			if agentPath(path) {
				p = ForAgent(p)
			}
			return p, sure, true
		}
	}
	return nil, false, false
}

// ByName finds a protocol by its name. It lacks what the paths of Gemini and Bedrock
// hold: see [Request].StreamUnknown.
func ByName(name string) (Protocol, bool) {
	for _, p := range protocols {
		if p.Name() == name {
			return p.Protocol, true
		}
	}
	return nil, false
}
