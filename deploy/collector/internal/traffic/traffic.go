// Package traffic makes the traffic of LLM agents whose truth is known, to hold dashboards, rules and alerts against it.
//
// A [Run] is the spans of one run of an agent, as this project's client records them, without verdicts, and beside them
// what really happened. The truth is written down with each story that is played (stories.go), and is not computed from
// the spans. A [Ledger] counts it.
package traffic

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Config says what is played.
type Config struct {
	Seed  uint64
	Start time.Time
	For   time.Duration
	// Rate is how many runs end in a minute.
	Rate float64
	// Outages are providers that are unwell for a while.
	Outages []Outage
	// Restarts are when a service is killed, from the start. The runs that it had open never end.
	Restarts []Restart
	// RunTimeout is that of llm_classify: a run that never ends has its verdict so long after its last span.
	RunTimeout time.Duration
}

// Outage is a time in which most requests to a provider fail.
type Outage struct {
	Provider string
	// Address is the only server that is unwell. Empty means all of the provider.
	Address  string
	From, To time.Duration
}

// Restart is a process that is killed with some runs open.
type Restart struct {
	Service string
	At      time.Duration
	Open    int
}

// Endpoint is a model at a server.
type Endpoint struct{ Provider, Model, Address string }

// Endpoints are the models that the traffic uses, the most used first.
var Endpoints = []Endpoint{
	{"openai", "gpt-5.5", "api.openai.com"},
	{"anthropic", "claude-sonnet-5-5", "api.anthropic.com"},
	{"azure.ai.openai", "gpt-5.5", "weu-prod.openai.azure.com"},
	{"azure.ai.openai", "gpt-5.5", "eus-prod.openai.azure.com"},
	{"gcp.vertex_ai", "gemini-3-pro", "europe-west4-aiplatform.googleapis.com"},
}

var endpointWeights = []float64{36, 30, 12, 8, 14}

// services are the services with their agents.
var services = []struct {
	name   string
	agents []string
}{
	{"coder-web", []string{"coder"}},
	{"coder-cli", []string{"coder", "reviewer"}},
	{"support-bot", []string{"triage"}},
}

var serviceWeights = []float64{50, 30, 20}

// New returns the runs in the order in which they are to be sent. The same seed gives the same runs at the same
// distance from the start; only their IDs differ.
func New(c Config) []*Run {
	g := &generator{
		config: c,
		rng:    rand.New(rand.NewPCG(c.Seed, 1)),
		ids:    rand.New(rand.NewPCG(c.Seed, uint64(c.Start.UnixNano()))),
	}
	var runs []*Run
	mean := time.Duration(float64(time.Minute) / c.Rate)
	for at := time.Duration(0); ; {
		at += time.Duration(g.rng.ExpFloat64() * float64(mean))
		if at >= c.For {
			break
		}
		runs = append(runs, g.run(at))
	}
	for _, r := range c.Restarts {
		for range r.Open {
			runs = append(runs, g.killed(r))
		}
	}
	slices.SortStableFunc(runs, func(a, b *Run) int { return a.At.Compare(b.At) })
	return runs
}

type generator struct {
	config Config
	rng    *rand.Rand
	ids    *rand.Rand
}

// run plays the next run, which ends so long after the start, or later if it takes longer.
func (g *generator) run(at time.Duration) *Run {
	service := services[pick(g.rng, serviceWeights)]
	endpoint := Endpoints[pick(g.rng, endpointWeights)]
	t := g.newRun(service.name, service.agents[g.rng.IntN(len(service.agents))], endpoint)
	if o := g.outage(endpoint, at); o {
		t.run.Story = "outage"
		t.unwell()
	} else {
		s := stories[pick(g.rng, storyWeights)]
		t.run.Story = s.name
		s.play(t)
	}
	// No run began before the start: of those llm_classify makes no failure safe to repeat.
	at = max(at, time.Duration((t.now+1)*float64(time.Second)))
	return t.end(g.config.Start.Add(at))
}

func (g *generator) outage(e Endpoint, at time.Duration) bool {
	return slices.ContainsFunc(g.config.Outages, func(o Outage) bool {
		return o.Provider == e.Provider && (o.Address == "" || o.Address == e.Address) && at >= o.From && at < o.To
	})
}

// killed plays a run whose process is killed.
func (g *generator) killed(r Restart) *Run {
	t := g.newRun(r.Service, services[slices.IndexFunc(services, func(s struct {
		name   string
		agents []string
	},
	) bool {
		return s.name == r.Service
	})].agents[0], Endpoints[pick(g.rng, endpointWeights)])
	t.run.Story = "killed"
	t.openForever()
	run := t.end(g.config.Start.Add(r.At))
	run.Due = run.At.Add(g.config.RunTimeout)
	return run
}

// pick returns an index with a probability in proportion to its weight.
func pick(rng *rand.Rand, weights []float64) int {
	var sum float64
	for _, w := range weights {
		sum += w
	}
	at := rng.Float64() * sum
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return len(weights) - 1
}

// around returns a number near the median, as durations and sizes are: never negative, with a long tail.
func (g *generator) around(median, spread float64) float64 {
	return median * math.Exp(g.rng.NormFloat64()*spread)
}
