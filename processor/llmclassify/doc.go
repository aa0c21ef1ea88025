//go:generate mdatagen metadata.yaml

// Package llmclassify is the Collector processor llm_classify. It holds the
// spans of LLM requests, tools and agent runs until their run can be judged,
// stamps the diagnosis onto them and forwards them; every other span passes in
// the call that brought it.
package llmclassify
