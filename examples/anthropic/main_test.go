package main

import (
	"testing"

	"github.com/otelllm/otelllm-go/examples/internal/exampletest"
	"github.com/otelllm/otelllm-go/test/faultyllm"
)

func TestTheExample(t *testing.T) {
	exampletest.Run(t, exampletest.Example{Ask: ask, Wire: faultyllm.Anthropic, Env: "ANTHROPIC", Model: "claude-sonnet-5-5"})
}
