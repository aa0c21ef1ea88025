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
	"github.com/otelllm/otelllm-go/semconv"
)

// Meters are the GenAI conventions' instruments of a client. A nil *Meters records
// nothing.
type Meters struct {
	duration genaiconv.ClientOperationDuration
	first    genaiconv.ClientOperationTimeToFirstChunk
	perChunk genaiconv.ClientOperationTimePerOutputChunk
	tokens   genaiconv.ClientTokenUsage
}

// The bucket boundaries are those that the conventions recommend.
var (
	timeBuckets  = metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
	tokenBuckets = metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
)

// NewMeters returns the instruments of provider, or of the global provider if it is nil.
func NewMeters(provider metric.MeterProvider) *Meters {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	if known := lastMeters.Load(); known != nil && known.provider == provider {
		return known.meters
	}
	m := makeMeters(provider)
	lastMeters.Store(&metersOf{provider, m})
	return m
}

// lastMeters caches the instruments made last: most processes have one provider, and
// every start of a request by hand asks for them.
var lastMeters atomic.Pointer[metersOf]

type metersOf struct {
	provider metric.MeterProvider
	meters   *Meters
}

// makeMeters creates the instruments. Errors go to the OpenTelemetry error handler, and
// the instrument that failed records nothing.
func makeMeters(provider metric.MeterProvider) *Meters {
	meter := provider.Meter(telemetry.ScopeName, metric.WithInstrumentationVersion(telemetry.Version))
	m := &Meters{}
	handled := func(err error) {
		if err != nil {
			otel.Handle(err)
		}
	}
	var err error
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
	for _, u := range [...]struct {
		tokens int
		kind   genaiconv.TokenTypeAttr
	}{{f.Usage.Input, genaiconv.TokenTypeInput}, {f.Usage.Output, genaiconv.TokenTypeOutput}} {
		if u.tokens >= 0 {
			m.tokens.RecordSet(ctx, int64(u.tokens), attribute.NewSet(append(slices.Clip(common), otelsemconv.GenAITokenTypeKey.String(string(u.kind)))...))
		}
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
