// Package demo breaks three streams of a small agent, over real HTTP on loopback, and judges
// what was recorded: `otelllm demo`.
package demo
