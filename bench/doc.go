// Package bench compares otelllm with what it stands beside: the SDKs' own
// decoding of the same streams, otelhttp, and no transport at all. It holds
// benchmarks only; README.md says how each figure is made. The Collector's
// processors are compared in the package collector below.
package bench
