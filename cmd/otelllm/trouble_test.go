package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/proxy"
)

// What cannot be reached is said at once, what else fails when it has come often, and both once a minute.
func TestTrouble(t *testing.T) {
	var out strings.Builder
	now := time.Unix(1_800_000_000, 0)
	tr := newTrouble(&out, func() time.Time { return now })
	said := func() string {
		defer out.Reset()
		return out.String()
	}
	gone := proxy.Failure{Host: "a.example", Problem: "host not found", Unreachable: true}
	tr.failed(gone)
	assert.Equal(t, "otelllm: a.example cannot be reached: host not found\n", said())
	for range 7 {
		now = now.Add(time.Second)
		tr.failed(gone)
	}
	assert.Empty(t, said())
	now = now.Add(time.Minute)
	tr.failed(gone)
	assert.Equal(t, "otelllm: a.example cannot be reached: host not found (9 requests so far)\n", said())

	broken := proxy.Failure{Host: "a.example", Problem: "status 500"}
	for range 4 {
		tr.failed(broken)
	}
	assert.Empty(t, said())
	tr.failed(broken)
	assert.Equal(t, "otelllm: a.example has failed 5 times: status 500\n", said())
	for i := range 2 * maxTroubles {
		tr.failed(proxy.Failure{Host: strings.Repeat("x", i), Unreachable: true})
	}
	assert.Len(t, tr.seen, maxTroubles)
}
