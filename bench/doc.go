// Package bench compares otelllm with its alternatives: the SDKs' own decoding of the
// same streams, otelhttp, and no transport at all. It holds benchmarks only; README.md
// describes how each figure is measured. The Collector's processors are compared in
// package collector below.
package bench
