package main

import (
	"testing"

	"github.com/otelllm/otelllm-go/examples/faultyllm"
	"github.com/otelllm/otelllm-go/examples/internal/exampletest"
)

func TestTheExample(t *testing.T) {
	exampletest.Run(t, exampletest.Example{Ask: ask, Wire: faultyllm.Chat, Env: "OPENAI", Model: "gpt-5.5"})
}
