package main

import (
	"testing"

	"github.com/otelllm/otelllm-go/examples/internal/stacktest"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

func TestTheExample(t *testing.T) {
	stacktest.Run(t, stacktest.Program{
		Ask: ask, Wire: faultyllm.Chat, Key: "OPENAI_API_KEY", URL: "OPENAI_BASE_URL", Request: "chat gpt-5.5",
		Silent: []string{stacktest.CleanEndInText, stacktest.CleanEndInCall, stacktest.CleanEndAtCall, stacktest.Filtered},
	})
}
