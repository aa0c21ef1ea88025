// Package collector holds what a custom Collector with llm_classify is built from and run with: the builder's manifest
// and the shipped configurations. It has no code of its own; its tests hold the files to what their comments promise.
package collector
