package fleet

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/otelllm/otelllm-go/test/built"
)

const (
	topic      = "otlp_spans"
	partitions = 6
)

// kafkaOverlay moves the shipped Collectors to free loopback addresses and shortens their times to seconds.
const kafkaOverlay = `
extensions: {health_check: {endpoint: "${env:HEALTH}"}}
receivers:
  otlp: {protocols: {grpc: {endpoint: "${env:OTLP_GRPC}"}, http: {endpoint: "${env:OTLP_HTTP}"}}}`

const kafkaClassifierOverlay = kafkaOverlay + `
  kafka: {session_timeout: 6s, heartbeat_interval: 500ms, autocommit: {interval: 100ms}}
processors: {llm_classify: {max_hold: 5s, run_timeout: 6s}}
exporters: {prometheus: {endpoint: "${env:EXPORTED}"}}
service:` + telemetry

const kafkaGatewayOverlay = kafkaOverlay + `
service:` + telemetry

// The shipped gateway and classifiers run over a broker in this process (franz-go's kfake, not a real
// Kafka). Two classifiers share the partitions; one crashes while runs are in progress and comes back. No
// acknowledged span is missing and every run is judged. A run whose partition moved to another classifier
// may be judged in parts.
func TestOverKafka(t *testing.T) {
	t.Parallel()
	built.Collector(t)
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic))
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	env := "KAFKA_BROKERS=" + broker.ListenAddrs()[0]

	backend := newStore()
	var classifiers []*node
	for i := range 2 {
		c := newNode(t, "classifier", kafkaClassifierOverlay, []string{env, "BACKEND_OTLP=" + backend.listen(t, i)},
			shipped(t, "config.yaml"), shipped(t, "config-metrics.yaml"), shipped(t, "config-kafka-classifier.yaml"))
		c.start(t)
		classifiers = append(classifiers, c)
	}
	gateway := newNode(t, "gateway", kafkaGatewayOverlay, []string{env}, shipped(t, "config.yaml"), shipped(t, "config-kafka-gateway.yaml"))
	gateway.start(t)

	// The partitions are assigned when each classifier has received something.
	a := newAgents(t, 4, gateway.http)
	warm := 0
	eventually(t, "every classifier reads", func(ct *assert.CollectT) {
		warm++
		a.start(t, quick("warm"+string(rune('a'+warm)), 1))
		a.wait()
		for _, c := range classifiers {
			assert.Positive(ct, c.metric(ct, "otelcol_processor_llm_classify_spans_in"))
		}
	})
	before := len(a.wait())
	a.start(t, quick("first", 2))
	first := a.wait()[before:]
	a.flush(t)
	eventually(t, "every verdict", func(ct *assert.CollectT) {
		for _, c := range first {
			assert.NotEmpty(ct, backend.runs(c.trace), c.Label())
		}
		assert.Empty(ct, backend.missing(a.scatter.all()), "acknowledged but missing")
	})
	inOne := 0
	for _, c := range first {
		if len(backend.places(c.trace)) == 1 {
			inOne++
			assert.Empty(t, c.Diff(backend.runs(c.trace)), c.Label())
		}
	}
	assert.Equal(t, len(first), inOne, "the set of classifiers did not change")

	const holding = 20
	begun, gate := make(chan struct{}, holding), make(chan struct{})
	a.start(t, held(holding, begun, gate))
	for range holding {
		<-begun
	}
	a.flush(t)
	eventually(t, "the victim holds runs", func(ct *assert.CollectT) {
		assert.Positive(ct, classifiers[1].metric(ct, "otelcol_processor_llm_classify_traces_held"))
	})
	classifiers[1].kill()
	a.start(t, quick("second", 1))
	close(gate)
	all := a.wait()
	a.flush(t)
	classifiers[1].start(t)
	eventually(t, "every verdict after the crash", func(ct *assert.CollectT) {
		for _, c := range all {
			assert.NotEmpty(ct, backend.runs(c.trace), c.Label())
		}
		assert.Empty(ct, backend.missing(a.scatter.all()), "acknowledged but missing")
	})
	split := 0
	for _, c := range all[before+len(first):] {
		if len(backend.places(c.trace)) > 1 {
			split++
			continue
		}
		assert.Empty(t, slices.DeleteFunc(c.Diff(backend.runs(c.trace)), moreCareful), c.Label())
	}
	t.Logf("%d runs, %d of them split by the crash", len(all), split)
}

// moreCareful reports whether a difference is that a run asks because it began before its classifier was started
// again: parts of it may be with the earlier process.
func moreCareful(difference string) bool {
	return strings.Contains(difference, `retry safety is "user_confirmed_retry", expected "safe_auto_retry"`) ||
		strings.Contains(difference, `retry reason is "evidence_incomplete"`)
}
