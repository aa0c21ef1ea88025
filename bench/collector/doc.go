// Package collector compares llm_classify with the Collector's processors that
// hold spans as well, all of them made by their factories. It holds benchmarks
// only; README.md of the module says how each figure is made.
package collector
