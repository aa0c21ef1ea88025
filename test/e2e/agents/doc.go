// Package agents holds the end-to-end tests of `otelllm run`: published agents, and SDK
// clients in other languages, against a model server that breaks.
//
// The oracle is the server. It knows what it did to each request, and a tool of the agent
// leaves a trace in a file. Every case runs twice, directly and through `otelllm run`: the
// agent has to do the same both times, and the verdict has to agree with what the server did,
// or to be more careful.
package agents
