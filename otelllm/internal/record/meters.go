package record

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	otelsemconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/telemetry"
	"github.com/otelllm/otelllm-go/otelllm/internal/wire"
	"github.com/otelllm/otelllm-go/semconv"
)

// Meters are the GenAI conventions' instruments of a client. A nil *Meters records
// nothing.
type Meters struct {
	duration genaiconv.ClientOperationDuration
	first    genaiconv.ClientOperationTimeToFirstChunk
	perChunk genaiconv.ClientOperationTimePerOutputChunk
	tokens   genaiconv.ClientTokenUsage // not used if used is set
	used     *usageCounters             // instead of tokens, with the latest conventions
}

// usageCounters count tokens as the GenAI conventions do since 0.1.0.
type usageCounters struct{ input, output, cacheRead, cacheWrite, reasoning metric.Int64Counter }

// The bucket boundaries are those that the conventions recommend.
var (
	timeBuckets  = metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
	tokenBuckets = metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
)

// NewMeters returns the instruments of provider, or of the global provider if it is nil:
// with the names of the GenAI conventions 0.1.0 if latest is set, else with those of 1.41.0.
func NewMeters(provider metric.MeterProvider, latest bool) *Meters {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	if known := lastMeters.Load(); known != nil && known.provider == provider && known.latest == latest {
		return known.meters
	}
	m := makeMeters(provider, latest)
	lastMeters.Store(&metersOf{provider, latest, m})
	return m
}

// lastMeters caches the instruments made last: most processes have one provider, and
// every start of a request by hand asks for them.
var lastMeters atomic.Pointer[metersOf]

type metersOf struct {
	provider metric.MeterProvider
	latest   bool
	meters   *Meters
}

// makeMeters creates the instruments. Errors go to the OpenTelemetry error handler, and
// the instrument that failed records nothing.
func makeMeters(provider metric.MeterProvider, latest bool) *Meters {
	meter := telemetry.Meter(provider)
	m := &Meters{}
	handled := func(err error) {
		if err != nil {
			otel.Handle(err)
		}
	}
	var err error
	if latest {
		m.makeLatest(meter, handled)
		return m
	}
	m.duration, err = genaiconv.NewClientOperationDuration(meter, timeBuckets)
	handled(err)
	m.first, err = genaiconv.NewClientOperationTimeToFirstChunk(meter, timeBuckets)
	handled(err)
	m.perChunk, err = genaiconv.NewClientOperationTimePerOutputChunk(meter, timeBuckets)
	handled(err)
	m.tokens, err = genaiconv.NewClientTokenUsage(meter, tokenBuckets)
	handled(err)
	return m
}

// makeLatest creates the instruments of the GenAI conventions 0.1.0.
func (m *Meters) makeLatest(meter metric.Meter, handled func(error)) {
	seconds := func(name, description string) metric.Float64Histogram {
		h, err := meter.Float64Histogram("gen_ai.client.inference."+name, metric.WithUnit("s"), metric.WithDescription(description), timeBuckets)
		handled(err)
		return h
	}
	m.duration.Float64Histogram = seconds("duration", "Duration of a model call.")
	m.first.Float64Histogram = seconds("time_to_first_chunk", "Time from the start of a model call to its first chunk.")
	m.perChunk.Float64Histogram = seconds("time_per_output_chunk", "Time between two chunks of a stream.")
	tokens := func(name, description string) metric.Int64Counter {
		c, err := meter.Int64Counter("gen_ai.client.inference.usage."+name, metric.WithUnit("{token}"), metric.WithDescription(description))
		handled(err)
		return c
	}
	m.used = &usageCounters{
		input:      tokens("input_tokens", "Input tokens used, cached ones included."),
		output:     tokens("output_tokens", "Output tokens used, reasoning included."),
		cacheRead:  tokens("cache_read.input_tokens", "Input tokens read from the provider's cache."),
		cacheWrite: tokens("cache_write.input_tokens", "Input tokens written to the provider's cache."),
		reasoning:  tokens("reasoning.output_tokens", "Output tokens used for reasoning."),
	}
}

// add counts the tokens of one request. As the conventions ask, a number that is not known
// counts as 0, so that the counter has a series for each request that was made. Which
// modality the tokens have is not recorded: it is unknown.
func (c *usageCounters) add(ctx context.Context, u wire.Usage, common []attribute.KeyValue) {
	set := metric.WithAttributeSet(attribute.NewSet(append(slices.Clip(common), tokenModalityKey.String("unknown"))...))
	c.input.Add(ctx, int64(max(u.Input, 0)), set)
	c.output.Add(ctx, int64(max(u.Output, 0)), set)
	c.cacheRead.Add(ctx, int64(max(u.CacheRead, 0)), set)
	c.cacheWrite.Add(ctx, int64(max(u.CacheCreation, 0)), set)
	c.reasoning.Add(ctx, int64(max(u.Reasoning, 0)), set)
}

// tokenModalityKey is an attribute of the GenAI conventions since 0.1.0.
const tokenModalityKey = attribute.Key("gen_ai.token.modality")

// Enabled reports whether anything uses what is recorded.
func (m *Meters) Enabled(ctx context.Context) bool { return m != nil && m.duration.Enabled(ctx) }

// chunkMeter holds the attributes of the times between the chunks of one stream.
type chunkMeter struct{ set attribute.Set }

// chunk records, with mu held, the time between two chunks. Chunks that arrive in one
// Read count as one: the time between them cannot be measured.
func (r *Recorder) chunk(gap time.Duration) {
	if r.measured == nil {
		return
	}
	if r.chunks == nil {
		id, f := r.identity, r.facts
		r.fillBody(&f, &id) // a provider that answers has read the request
		r.chunks = &chunkMeter{attribute.NewSet(metricAttributes(&id, r.response.state.Model)...)}
	}
	r.config.Meters.perChunk.RecordSet(r.measured, gap.Seconds(), r.chunks.set)
}

// metricAttributes are the attributes that all instruments have in common.
func metricAttributes(id *spanfacts.Identity, responseModel string) []attribute.KeyValue {
	attrs := make([]attribute.KeyValue, 0, 12)
	attrs = append(attrs,
		otelsemconv.GenAIOperationNameKey.String(id.Operation),
		otelsemconv.GenAIProviderNameKey.String(id.Provider),
	)
	if id.Model != "" {
		attrs = append(attrs, otelsemconv.GenAIRequestModel(id.Model))
	}
	if sameModel(id.Model, responseModel) {
		attrs = append(attrs, otelsemconv.GenAIResponseModel(responseModel))
	}
	if id.ServerAddress != "" {
		attrs = append(attrs, otelsemconv.ServerAddress(id.ServerAddress))
		if id.ServerPort > 0 {
			attrs = append(attrs, otelsemconv.ServerPort(id.ServerPort))
		}
	}
	return attrs
}

// sameModel reports whether the model that answered is the one that was requested, or
// a dated version of it (gpt-5 is answered by gpt-5-2026-01-01, mistral-large-latest by
// mistral-large-2411). The provider chooses any other name, and each would be a series of
// its own, so such a name is on the span only.
func sameModel(asked, answered string) bool {
	if asked == "" || answered == "" {
		return false
	}
	if asked == answered {
		return true
	}
	// Gateways put the maker before the name, Google puts "models/".
	asked, answered = asked[strings.LastIndexByte(asked, '/')+1:], answered[strings.LastIndexByte(answered, '/')+1:]
	asked, _ = strings.CutSuffix(asked, "-latest")
	version, ok := strings.CutPrefix(answered, asked)
	return ok && asked != "" && (version == "" || version == "-latest" || dated(version))
}

// dated reports whether version is a date after a - or an @: a full one, with or without -
// between its parts, or four digits (-0613, -2411).
func dated(version string) bool {
	if version[0] != '-' && version[0] != '@' {
		return false
	}
	version = version[1:]
	if len(version) == 4 {
		n, err := strconv.ParseUint(version, 10, 16)
		return err == nil && n > 0
	}
	for _, layout := range [...]string{time.DateOnly, "20060102", "2006-01", "01-2006", "01-02"} {
		if at, err := time.Parse(layout, version); err == nil {
			return at.Year() == 0 || at.Year()/100 == 20 // no year, or one of this century
		}
	}
	return false
}

// ended records a request that has ended. error.type names its failure. llm.watchdog.kind
// and llm.abort.source say that a watchdog or an abort ended it, the latter without an
// error.type, because an abort is not an error.
func (m *Meters) ended(r *Recorder, f *spanfacts.Request) {
	ctx := r.measured
	if ctx == nil {
		return
	}
	common := metricAttributes(&r.identity, f.ResponseModel)
	set := attribute.NewSet(common...)
	if f.Streams && f.FirstChunk > 0 {
		m.first.RecordSet(ctx, f.FirstChunk.Seconds(), set)
	}
	if m.used != nil {
		m.used.add(ctx, f.Usage, common)
	} else {
		m.histogram(ctx, f.Usage, common)
	}
	if f.ErrorType != "" {
		common = append(common, otelsemconv.ErrorTypeKey.String(boundedErrorType(f)))
	}
	if f.Watchdog.Kind != semconv.WatchdogKindUnset {
		common = append(common, semconv.WatchdogKindAttr(f.Watchdog.Kind))
	}
	if f.Abort.Source != semconv.AbortSourceUnset {
		common = append(common, semconv.AbortSourceAttr(f.Abort.Source))
	}
	m.duration.RecordSet(ctx, f.End.Sub(f.Start).Seconds(), attribute.NewSet(common...))
}

// histogram records the tokens of one request, where they are known.
func (m *Meters) histogram(ctx context.Context, used wire.Usage, common []attribute.KeyValue) {
	for _, u := range [...]struct {
		tokens int
		kind   genaiconv.TokenTypeAttr
	}{{used.Input, genaiconv.TokenTypeInput}, {used.Output, genaiconv.TokenTypeOutput}} {
		if u.tokens >= 0 {
			m.tokens.RecordSet(ctx, int64(u.tokens), attribute.NewSet(append(slices.Clip(common), otelsemconv.GenAITokenTypeKey.String(string(u.kind)))...))
		}
	}
}

// boundedErrorType returns the error.type of a metric. It uses a provider's own code only
// if the code is known, since each value is a series of its own.
func boundedErrorType(f *spanfacts.Request) string {
	if f.ErrorType != f.Provider.Code {
		return f.ErrorType
	}
	// Of the names of an exhausted quota only a part is known: see ProviderErrorKind.
	switch classify.ProviderErrorKind(0, f.ErrorType) {
	case semconv.ProviderErrorKindUnknown, semconv.ProviderErrorKindQuotaExhausted:
		return f.Provider.Kind.String()
	default:
		return f.ErrorType
	}
}
