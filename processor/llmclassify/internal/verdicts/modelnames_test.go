package llmclassify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

// The verdict on a run comes with the provider and the model of its requests, where all of
// them name the same. What the producer wrote stays.
func TestRunsNameTheirModel(t *testing.T) {
	const provider, model = string(otelsemconv.GenAIProviderNameKey), string(otelsemconv.GenAIRequestModelKey)
	request := func(id byte, attrs ...attribute.KeyValue) spanSpec {
		s := requestSpan(id, 1, float64(id)/10, float64(id)/10+0.05).answered("stop", answer)
		s.attrs = append(s.attrs[:1:1], s.attrs[3:]...) // without its provider and model
		return s.with(attrs...)
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
	gateways := chatSpan(3, 2, 0.21, 0.24).in(gatewayService)
	gateways.attrs = []attribute.KeyValue{otelsemconv.GenAIOperationNameChat, anthropic, small}
	for name, tt := range map[string]struct {
		requests []spanSpec
		run      []attribute.KeyValue // that its producer wrote
		want     map[string]string
	}{
		"one":                {[]spanSpec{request(2, openAI, large)}, nil, names(openAI, large)},
		"all the same":       {[]spanSpec{request(2, openAI, large), request(3, openAI, large), request(4)}, nil, names(openAI, large)},
		"another model":      {[]spanSpec{request(2, openAI, large), request(3, openAI, small), request(4, openAI, large)}, nil, names(openAI)},
		"another provider":   {[]spanSpec{request(2, openAI, large), request(3, anthropic, large)}, nil, names(large)},
		"by the older name":  {[]spanSpec{request(2, attribute.String("gen_ai.system", "openai"), large)}, nil, names(openAI, large)},
		"no names":           {[]spanSpec{request(2), request(3)}, nil, names()},
		"not text":           {[]spanSpec{request(2, attribute.Int(provider, 1), attribute.Bool(model, true))}, nil, names()},
		"of the producer":    {[]spanSpec{request(2, openAI, large)}, []attribute.KeyValue{anthropic, small}, names(anthropic, small)},
		"a gateway's beside": {[]spanSpec{request(2, openAI, large), gateways}, nil, names(openAI, large)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, early := range []bool{false, true} {
				cfg := defaultConfig()
				if early { // the requests go out before the run
					cfg.MaxHold = time.Second
				}
				h := newHarness(t, cfg, nil)
				h.consume(t, tt.requests...)
				if early {
					h.pass(t, cfg.MaxHold)
				}
				h.consume(t, runSpan(1, 0, 4, 1, 0).with(tt.run...))
				h.pass(t, cfg.MaxHold)
				run := spansOf(h.out())[spanID(1)]
				assert.NotEmpty(t, verdictOf(run).outcome)
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
