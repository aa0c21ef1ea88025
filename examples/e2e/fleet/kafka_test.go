package fleet

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/otelllm/otelllm-go/examples/internal/built"
)

const (
	topic      = "otlp_spans"
	partitions = 6
)

// kafkaGateway writes every trace to one partition.
const kafkaGateway = `
extensions: {health_check: {endpoint: "${env:HEALTH}"}}
receivers: {otlp: {protocols: {http: {endpoint: "${env:OTLP_HTTP}"}}}}
exporters:
  kafka:
    brokers: ["${env:BROKER}"]
    # Without it the spans of a trace lie in several partitions, and several classifiers read them.
    partition_traces_by_id: true
    traces: {topic: otlp_spans}
    # Acknowledged to the agent means acknowledged by the broker.
    sending_queue: {enabled: false}
    producer: {required_acks: -1}
service:
  extensions: [health_check]
  pipelines: {traces: {receivers: [otlp], exporters: [kafka]}}` + telemetry

// kafkaClassifier reads some of the partitions. An offset is committed once the
// spans are llm_classify's, which has them in its journal.
const kafkaClassifier = `
extensions:
  health_check: {endpoint: "${env:HEALTH}"}
  file_storage: {directory: "${env:JOURNAL}"}
receivers:
  kafka:
    brokers: ["${env:BROKER}"]
    group_id: classifiers
    # What was written before this group existed counts, too.
    initial_offset: earliest
    traces: {topics: [otlp_spans]}
    session_timeout: 6s
    heartbeat_interval: 500ms
    autocommit: {interval: 100ms}
    message_marking: {after: true}
processors: {llm_classify: {storage: file_storage, max_hold: 5s, run_timeout: 6s}}
exporters:
  otlp_grpc:
    endpoint: "${env:BACKEND_OTLP}"
    tls: {insecure: true}
    sending_queue: {storage: file_storage}
service:
  extensions: [health_check, file_storage]
  pipelines: {traces: {receivers: [kafka], processors: [llm_classify], exporters: [otlp_grpc]}}` + telemetry

// The same over a broker, in process and no real Kafka (franz-go's kfake): the
// partitions are shared out among two classifiers, one crashes while runs are under
// way and comes back. No span that was acknowledged is missing and every run is
// judged; one whose partition went to another classifier may be judged in parts.
func TestOverKafka(t *testing.T) {
	built.Collector(t)
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic))
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	env := "BROKER=" + broker.ListenAddrs()[0]

	backend := newStore()
	var classifiers []*node
	for i := range 2 {
		c := newNode(t, "classifier", kafkaClassifier, []string{env, "BACKEND_OTLP=" + backend.listen(t, i)})
		c.start(t)
		classifiers = append(classifiers, c)
	}
	gateway := newNode(t, "gateway", kafkaGateway, []string{env})
	gateway.start(t)

	// The partitions are shared out when each classifier has had something.
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
		assert.Empty(ct, backend.missing(a.scatter.all()), "acknowledged, and not here")
	})
	inOne := 0
	for _, c := range first {
		if len(backend.places(c.trace)) == 1 {
			inOne++
			assert.Empty(t, c.Diff(backend.runs(c.trace)), c.Label())
		}
	}
	assert.Equal(t, len(first), inOne, "no classifier came or went")

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
		assert.Empty(ct, backend.missing(a.scatter.all()), "acknowledged, and not here")
	})
	split := 0
	for _, c := range all[before+len(first):] {
		if len(backend.places(c.trace)) > 1 {
			split++
			continue
		}
		assert.Empty(t, c.Diff(backend.runs(c.trace)), c.Label())
	}
	t.Logf("%d runs, %d of them split by the crash", len(all), split)
}
