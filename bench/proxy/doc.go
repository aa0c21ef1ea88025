// Package proxy compares `otelllm proxy` with net/http/httputil's ReverseProxy: what a request costs
// in processor time, how long it takes, and what memory the process needs. It holds benchmarks only.
package proxy
