// Package collector compares llm_classify with other Collector processors that hold
// spans. Each is created by its factory. The package holds benchmarks only; the
// module's README.md describes how each figure is measured.
package collector
