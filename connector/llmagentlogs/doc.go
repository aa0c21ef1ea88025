//go:generate mdatagen metadata.yaml

// Package llmagentlogs is the Collector connector llm_agent_logs. It reads the logs of
// published coding agents, and makes spans of their turns, model requests and tools in the
// vocabulary that the processor llm_classify reads.
package llmagentlogs
