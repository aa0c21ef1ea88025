package attack

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelllm/otelllm-go/internal/sample"
	"github.com/otelllm/otelllm-go/semconv"
	"github.com/otelllm/otelllm-go/test/soak/internal/ledger"
)

// Every portion is of the attackers' traces only, fits a receiver, and is counted.
func TestWays(t *testing.T) {
	names := make(map[string]bool)
	for i, w := range Ways() {
		if i%sample.Every(4) != 0 {
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			assert.False(t, names[w.Name])
			names[w.Name] = true
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
			defer srv.Close()
			spans := 0
			a := &Attacker{URL: srv.URL}
			a.Send = func(_ context.Context, td ptrace.Traces) (ledger.Answer, error) {
				data, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
				if err != nil {
					return ledger.Rejected, err
				}
				assert.Less(t, len(data), 4<<20, "the receiver's limit")
				sent, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data)
				if err != nil {
					return ledger.Rejected, err
				}
				spans += sent.SpanCount()
				a.Divert(sent)
				assert.Zero(t, sent.SpanCount(), "a span that would be taken for an honest one")
				return ledger.Acknowledged, nil
			}
			a.next()
			for range 2 {
				w.portion(a, t.Context())
			}
			got := a.Counts()
			assert.Equal(t, spans, got.Acknowledged)
			assert.Equal(t, spans, got.Out)
			assert.Positive(t, spans+got.Broken)
			assert.Zero(t, got.BrokenTaken)
			if w.Name == "forged verdicts" { // nothing was stripped, and nothing judged
				assert.Equal(t, 128, got.Forged)
				assert.Equal(t, 128, got.Suppressed)
			}
		})
	}
}

func TestAContradictedManifestIsFound(t *testing.T) {
	a := &Attacker{}
	corrects := false
	a.Send = func(_ context.Context, td ptrace.Traces) (ledger.Answer, error) {
		for _, s := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
			s.Attributes().PutStr(string(semconv.RetrySafetyKey), semconv.RetrySafetySafeAutoRetry.String())
			if corrects && s.Name() == contradicts {
				s.Attributes().PutStr(string(semconv.RetrySafetyKey), semconv.RetrySafetyUserConfirmedRetry.String())
			}
		}
		a.Divert(td)
		return ledger.Acknowledged, nil
	}
	a.falseManifests(t.Context())
	assert.Equal(t, 32, a.Counts().Contradicted)
	assert.Equal(t, 32, a.Counts().Uncorrected)
	corrects = true
	a.falseManifests(t.Context())
	assert.Equal(t, 32, a.Counts().Uncorrected)
	assert.Equal(t, Counts{}, a.Counts().Sub(a.Counts()))
}

// A tool whose run was sent before a kill need not be corrected, and those after it must be.
func TestKilledBetweenAManifestAndItsTool(t *testing.T) {
	a := &Attacker{}
	calls := 0
	a.Send = func(_ context.Context, td ptrace.Traces) (ledger.Answer, error) {
		for _, s := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
			s.Attributes().PutStr(string(semconv.RetrySafetyKey), semconv.RetrySafetySafeAutoRetry.String())
		}
		a.Divert(td)
		if calls++; calls == 2 { // the run is out, and its tool is not sent
			a.Killed()
		}
		return ledger.Acknowledged, nil
	}
	a.falseManifests(t.Context())
	assert.Zero(t, a.Counts().Uncorrected)
	a.falseManifests(t.Context())
	assert.Equal(t, 32, a.Counts().Uncorrected)
}
