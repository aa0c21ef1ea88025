package spanfacts_test

import (
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts"
	"github.com/otelllm/otelllm-go/otelllm/internal/spanfacts/spanread"
	"github.com/otelllm/otelllm-go/semconv"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func pick[T any](r *rand.Rand, values []T, unset T) T {
	if i := r.IntN(len(values) + 1); i < len(values) {
		return values[i]
	}
	return unset
}

func ids(r *rand.Rand) []string {
	list := make([]string, r.IntN(4))
	for i := range list {
		list[i] = "call_" + strconv.Itoa(r.IntN(100))
	}
	return list
}

// unlessEmpty are the lists that are written only if they are not empty.
func unlessEmpty(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}

func observed(r *rand.Rand, list []string) []string {
	if r.IntN(3) == 0 {
		return nil
	}
	return list
}

func count(r *rand.Rand) classify.Count { return classify.Counted(r.IntN(5) - 1) }

func duration(r *rand.Rand) time.Duration { return time.Duration(r.Int64N(int64(time.Hour))) }

func abort(r *rand.Rand) classify.Abort {
	a := classify.Abort{Source: pick(r, semconv.AbortSourceValues(), semconv.AbortSourceUnset)}
	if a.Source != semconv.AbortSourceUnset {
		a.Reason = pick(r, []string{"stop_button"}, "")
	}
	return a
}

// randomRequest fills every field of a request with values that the client may record.
func randomRequest(r *rand.Rand) spanfacts.Request {
	f := spanfacts.Request{Bytes: int64(r.IntN(10) - 1)}
	q := &f.Request
	q.Start, q.End = start, start.Add(duration(r))
	q.Attempt = r.IntN(3)
	q.Phase = pick(r, semconv.PhaseValues(), semconv.PhaseUnset)
	q.Ended = pick(r, semconv.StreamEndValues(), semconv.StreamEndUnset)
	q.Status = pick(r, []int{200, 429, 503}, 0)
	q.Transport = classify.Transport{
		Stage: pick(r, semconv.TransportStageValues(), semconv.TransportStageUnset),
		Cause: pick(r, semconv.TransportCauseValues(), semconv.TransportCauseUnset),
		Code:  pick(r, []string{"ECONNRESET"}, ""),
	}
	q.Provider.Kind = pick(r, semconv.ProviderErrorKindValues(), semconv.ProviderErrorKindUnset)
	if q.Provider.Kind != semconv.ProviderErrorKindUnset {
		q.Provider.Code, q.Provider.InBand = pick(r, []string{"slow_down"}, ""), r.IntN(2) == 0
		q.Provider.History = pick(r, semconv.ProviderErrorHistoryValues(), semconv.ProviderErrorHistoryUnset)
		q.Provider.Intermediary = r.IntN(2) == 0
	}
	q.Connection = classify.Connection{
		Reused: pick(r, []classify.Fact{classify.No, classify.Yes}, classify.NotObserved), Idle: duration(r), Protocol: pick(r, []string{"1.1", "2"}, ""),
	}
	q.Unread, q.Background = r.IntN(2) == 0, r.IntN(2) == 0
	q.Abort = abort(r)
	q.Watchdog.Kind = pick(r, semconv.WatchdogKindValues(), semconv.WatchdogKindUnset)
	if q.Watchdog.Kind != semconv.WatchdogKindUnset {
		q.Watchdog.Limit = duration(r)
	}
	f.SetFinish(pick(r, [][]string{{}, {"stop"}, {"length"}, {"tool_calls", "error"}}, nil))
	q.Text, q.Reasoning, q.Events = count(r), count(r), count(r)
	q.ToolInputsStarted, q.ToolInputsCompleted, q.ToolCalls, q.ProviderToolsStarted = count(r), count(r), count(r), count(r)
	q.ToolInputsInvalid = count(r)
	q.CallIDs, q.CallNames, q.OpenCallIDs = unlessEmpty(ids(r)), unlessEmpty(ids(r)), unlessEmpty(ids(r))
	q.ProviderTools, q.HistoryCalls, q.HistoryOutputs = observed(r, ids(r)), observed(r, ids(r)), observed(r, ids(r))
	q.ProviderToolTypes, q.MaxTokens, q.HistoryEndsWithOutputs = unlessEmpty(ids(r)), count(r), r.IntN(2) == 0
	f.Usage.Output = r.IntN(10) - 1
	q.OutputTokens = classify.Counted(f.Usage.Output)
	q.TimeToHeaders, q.LastProgress, q.LongestGap, q.RetryAfter = duration(r), duration(r), duration(r), duration(r)
	f.ErrorType = pick(r, []string{"connection_reset"}, "")
	f.DeriveOutcome()
	return f
}

// Every fact that is judged can be read back from the span unchanged.
func TestRequestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	touched := map[string]bool{}
	for range 5000 {
		f := randomRequest(r)
		v := reflect.ValueOf(f.Request)
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				touched[v.Type().Field(i).Name] = true
			}
		}
		got := spanread.Request(&spanread.Span{Start: f.Start, End: f.End, Attributes: f.Append(nil), Error: f.ErrorType != ""})
		if !assert.Equal(t, f.Request, got) {
			return
		}
	}
	for i := range reflect.TypeFor[classify.Request]().NumField() {
		name := reflect.TypeFor[classify.Request]().Field(i).Name
		if name == "Upstream" || name == "Open" || name == "FailedBefore" || name == "Error" { // not written by the client
			continue
		}
		assert.True(t, touched[name], "%s was never set: the test does not see it", name)
	}
}

func TestToolRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		f := classify.Tool{
			Start: start, End: start.Add(duration(r)), CallID: pick(r, []string{"call_1"}, ""), Name: "patch",
			Effect: pick(r, semconv.ToolEffectValues(), semconv.ToolEffectUnknown), Outcome: pick(r, semconv.ToolOutcomeValues(), semconv.ToolOutcomeUnset),
			FailedBeforeEffect: r.IntN(2) == 0, Delivery: pick(r, semconv.OutputDeliveryValues(), semconv.OutputDeliveryUnset),
			DeliveryError: pick(r, []string{"*net.OpError"}, ""), ErrorType: pick(r, []string{"*fs.PathError"}, ""), Abort: abort(r),
		}
		attrs := append(spanfacts.ToolStart(&f, "00f067aa0ba902b7"), spanfacts.ToolEnd(&f)...)
		assert.Equal(t, f, spanread.Tool(&spanread.Span{Start: f.Start, End: f.End, Attributes: attrs}))
	}
}

func TestRunRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		f := classify.Run{
			Start: start, End: start.Add(duration(r)), Ended: classify.Yes, Abort: abort(r),
			AnnouncedRequests: classify.Counted(r.IntN(3)), AnnouncedTools: classify.Counted(r.IntN(3)),
			Previous: pick(r, semconv.RunPreviousValues(), semconv.RunPreviousUnset),
		}
		switch {
		case f.Abort.Source != semconv.AbortSourceUnset:
		case r.IntN(2) == 0:
			f.Failed, f.ErrorType = classify.Yes, "*url.Error"
		default:
			f.Failed = classify.No
		}
		attrs := append(spanfacts.RunStart("coder", "c1", false), spanfacts.RunEnd(&f)...)
		got := spanread.Run(&spanread.Span{Start: f.Start, End: f.End, Attributes: attrs, Error: f.Failed == classify.Yes})
		assert.Equal(t, f, got)
	}
}

func TestBound(t *testing.T) {
	assert.Equal(t, "héllo", spanfacts.Bound("héllo"))
	long := strings.Repeat("é", 200)
	assert.Len(t, spanfacts.Bound(long), 256)
	assert.Len(t, spanfacts.Bound("a"+long), 255, "not within a character")
	assert.Equal(t, "ab", spanfacts.Bound("a\xffb"))
}
