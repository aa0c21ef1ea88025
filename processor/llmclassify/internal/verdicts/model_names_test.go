package verdicts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/otelllm/otelllm-go/processor/llmclassify/internal/harness"
)

// The verdict on a run comes with the provider and the model of its requests, where all of
// them name the same. What the producer wrote stays.
func TestRunsNameTheirModel(t *testing.T) {
	const provider, model = string(otelsemconv.GenAIProviderNameKey), string(otelsemconv.GenAIRequestModelKey)
	request := func(id byte, attrs ...attribute.KeyValue) harness.Span {
		s := harness.RequestSpan(id, 1, float64(id)/10, float64(id)/10+0.05).Answered("stop", harness.Answer)
		s.Attrs = append(s.Attrs[:1:1], s.Attrs[3:]...) // without its provider and model
		return s.With(attrs...)
	}
	openAI, anthropic := otelsemconv.GenAIProviderNameOpenAI, otelsemconv.GenAIProviderNameAnthropic
	large, small := otelsemconv.GenAIRequestModel("large"), otelsemconv.GenAIRequestModel("small")
	names := func(values ...attribute.KeyValue) map[string]string {
		m := map[string]string{}
		for _, kv := range values {
			m[string(kv.Key)] = kv.Value.AsString()
		}
		return m
	}
	gateways := harness.ChatSpan(3, 2, 0.21, 0.24).In(harness.GatewayService)
	gateways.Attrs = []attribute.KeyValue{otelsemconv.GenAIOperationNameChat, anthropic, small}
	for name, tt := range map[string]struct {
		requests []harness.Span
		run      []attribute.KeyValue // that its producer wrote
		want     map[string]string
	}{
		"one":                {[]harness.Span{request(2, openAI, large)}, nil, names(openAI, large)},
		"all the same":       {[]harness.Span{request(2, openAI, large), request(3, openAI, large), request(4)}, nil, names(openAI, large)},
		"another model":      {[]harness.Span{request(2, openAI, large), request(3, openAI, small), request(4, openAI, large)}, nil, names(openAI)},
		"another provider":   {[]harness.Span{request(2, openAI, large), request(3, anthropic, large)}, nil, names(large)},
		"by the older name":  {[]harness.Span{request(2, attribute.String("gen_ai.system", "openai"), large)}, nil, names(openAI, large)},
		"no names":           {[]harness.Span{request(2), request(3)}, nil, names()},
		"not text":           {[]harness.Span{request(2, attribute.Int(provider, 1), attribute.Bool(model, true))}, nil, names()},
		"of the producer":    {[]harness.Span{request(2, openAI, large)}, []attribute.KeyValue{anthropic, small}, names(anthropic, small)},
		"a gateway's beside": {[]harness.Span{request(2, openAI, large), gateways}, nil, names(openAI, large)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, early := range []bool{false, true} {
				cfg := harness.DefaultConfig()
				if early { // the requests go out before the run
					cfg.MaxHold = time.Second
				}
				h := harness.New(t, cfg, nil)
				h.Consume(t, tt.requests...)
				if early {
					h.Pass(t, cfg.MaxHold)
				}
				h.Consume(t, harness.RunSpan(1, 0, 4, 1, 0).With(tt.run...))
				h.Pass(t, cfg.MaxHold)
				run := harness.SpansOf(h.Out())[harness.SpanID(1)]
				assert.NotEmpty(t, harness.VerdictOf(run).Outcome)
				got := map[string]string{}
				for _, key := range []string{provider, model} {
					if v, ok := run.Attributes().Get(key); ok {
						got[key] = v.Str()
					}
				}
				assert.Equal(t, tt.want, got, "early: %v", early)
			}
		})
	}
}
