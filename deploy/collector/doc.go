// Package collector holds the files that a custom Collector with llm_classify is built from and run with: the
// builder's manifest and the shipped configurations. It has no code of its own. Its tests check what the files'
// comments promise.
package collector
