package main

import (
	"testing"

	"github.com/otelllm/otelllm-go/examples/internal/stacktest"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

func TestTheExample(t *testing.T) {
	stacktest.Run(t, stacktest.Program{
		Ask: ask, Wire: faultyllm.Gemini, Key: "GEMINI_API_KEY", URL: "GOOGLE_GEMINI_BASE_URL", Request: "generate_content gemini-3-pro",
		Silent: []string{stacktest.CleanEndInText, stacktest.CleanEndInCall, stacktest.CleanEndAtCall, stacktest.Filtered},
	})
}
