package proxy

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/otelllm/otelllm-go/bench/internal/stats"
)

var (
	rounds   = flag.Int("rounds", 5, "rounds in which the two proxies take turns")
	requests = flag.Int("requests", 4_000, "requests a round")
	many     = flag.Int("many", 100_000, "requests after which the memory is read")
)

// BenchmarkProcessorTime measures the processor time of each proxy's process for a request, flat
// out: the ratio of one round, and the median over the rounds. What a process does after its
// last answer, judging that is, counts as well.
func BenchmarkProcessorTime(b *testing.B) {
	for _, stream := range []bool{false, true} {
		for _, connections := range []int{1, 16, 256, most()} {
			b.Run(fmt.Sprintf("%s/%d", kindOf(stream), connections), func(b *testing.B) {
				for b.Loop() {
					processorTime(b, connections, stream)
				}
			})
		}
	}
}

func kindOf(stream bool) string {
	if stream {
		return "stream"
	}
	return "whole"
}

func processorTime(b *testing.B, connections int, stream bool) {
	up := upstream(b, overHTTP1)
	variants := []*process{plain(b, overHTTP1, up), program(b, overHTTP1, up)}
	var list [2][]*client
	n := max(*requests, connections)
	if stream {
		n = max(n/4, connections)
	}
	for i, p := range variants {
		list[i] = clients(b, p.addr, connections, stream)
		askAll(b, list[i], n/4) // warms up
	}
	var each [2][]time.Duration
	var ratios []float64
	for round := range *rounds {
		var spent [2]time.Duration
		for k := range variants {
			i := (k + round) % 2
			before := variants[i].processorTime(b)
			askAll(b, list[i], n)
			time.Sleep(500 * time.Millisecond) // for what is judged later
			spent[i] = (variants[i].processorTime(b) - before) / time.Duration(n)
			each[i] = append(each[i], spent[i])
		}
		ratios = append(ratios, float64(spent[1])/float64(spent[0]))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(micro(stats.Median(each[0])), "µs-plain")
	b.ReportMetric(micro(stats.Median(each[1])), "µs-otelllm")
	b.ReportMetric(stats.Median(ratios), "x-plain")
	b.ReportMetric(variants[0].residentMiB(b, "VmHWM"), "MiB-plain")
	b.ReportMetric(variants[1].residentMiB(b, "VmHWM"), "MiB-otelllm")
}

// BenchmarkLatency measures how long an answer of 1 KB takes at a rate, by the clock: median and
// 99th percentile of each proxy, of all rounds together, and what otelllm's is above the other's.
func BenchmarkLatency(b *testing.B) {
	for _, rate := range []int{500, 2_000} {
		b.Run(strconv.Itoa(rate), func(b *testing.B) {
			for b.Loop() {
				latency(b, rate)
			}
		})
	}
}

func latency(b *testing.B, rate int) {
	up := upstream(b, overHTTP1)
	variants := []*process{plain(b, overHTTP1, up), program(b, overHTTP1, up)}
	var took, tail [2][]time.Duration
	var list [2][]*client
	for i, p := range variants {
		list[i] = clients(b, p.addr, 16, false)
		askAt(b, list[i], rate, rate) // warms up
	}
	for round := range *rounds {
		for k := range variants {
			i := (k + round) % 2
			of := askAt(b, list[i], 2*rate, rate)
			took[i] = append(took[i], of...)
			slices.Sort(of)
			tail[i] = append(tail[i], of[len(of)*99/100])
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{"plain", "otelllm"} {
		b.ReportMetric(micro(stats.Median(took[i])), "µs-p50-"+name)
		b.ReportMetric(micro(stats.Median(tail[i])), "µs-p99-"+name)
	}
	b.ReportMetric(micro(stats.Median(tail[1])-stats.Median(tail[0])), "+µs-p99")
}

// BenchmarkMemory measures what each process has in memory after many requests.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		up := upstream(b, overHTTP1)
		variants := []*process{plain(b, overHTTP1, up), program(b, overHTTP1, up)}
		b.ReportMetric(0, "ns/op")
		for i, name := range []string{"plain", "otelllm"} {
			askAll(b, clients(b, variants[i].addr, 16, false), *many)
			b.ReportMetric(variants[i].residentMiB(b, "VmRSS"), "MiB-"+name)
			b.ReportMetric(variants[i].residentMiB(b, "VmHWM"), "MiB-most-"+name)
		}
	}
}

// BenchmarkOpenStreams measures what each process has in memory while 10,000 streams are open, or as
// many as there may be files, each after its first event. Each has a connection of its own, the most
// that it can take, or shares it with others.
func BenchmarkOpenStreams(b *testing.B) {
	for _, v := range []struct {
		name         string
		client, to   wire
		onConnection int
	}{
		{"HTTP1", overHTTP1, overHTTP1, 1},
		{"HTTP1-to-TLS", overHTTP1, overTLS, 1},
		{"HTTP1-to-HTTP2", overHTTP1, overHTTP2, 1},
		{"TLS", overTLS, overTLS, 1},
		{"HTTP2", overHTTP2, overHTTP2, 1},
		{"HTTP2-shared", overHTTP2, overHTTP2, 100},
	} {
		b.Run(v.name, func(b *testing.B) {
			for b.Loop() {
				up := upstream(b, v.to)
				openStreams(b, []*process{plain(b, v.client, up), program(b, v.client, up)}, v.onConnection)
			}
		})
	}
}

func openStreams(b *testing.B, variants []*process, onConnection int) {
	streams := most()
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{"plain", "otelllm"} {
		end := hold(b, variants[i], streams, onConnection)
		b.ReportMetric(variants[i].residentMiB(b, "VmHWM"), "MiB-"+name)
		end() // the upstream has no more files than one proxy
	}
	b.ReportMetric(float64(streams), "streams")
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
