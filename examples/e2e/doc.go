// Package e2e holds the end-to-end tests: a real agent on the real SDKs, a real
// model server that breaks, a real Collector with llm_classify. What is asserted
// is what the Collector exports.
package e2e
