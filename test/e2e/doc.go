// Package e2e holds the end-to-end tests: a real agent on the real SDKs, a real model
// server that breaks, and a real Collector with llm_classify. They check what the
// Collector exports.
package e2e
