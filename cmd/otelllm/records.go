package main

import (
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// text returns an attribute that is a string, or "".
func text(r *report.Record, key attribute.Key) string {
	s, _ := r.Attributes[string(key)].(string)
	return s
}

// requestsOf returns the model calls of a record.
func requestsOf(r *report.Record) (list []*report.Record) {
	if r.Kind == report.RecordRequest {
		return []*report.Record{r}
	}
	for i := range r.Requests {
		list = append(list, &r.Requests[i])
	}
	return list
}

// decisiveOf returns the model call that a reader looks at first: the last one that failed, else the last one.
func decisiveOf(r *report.Record) *report.Record {
	list := requestsOf(r)
	for _, q := range slices.Backward(list) {
		if text(q, semconv.FailureClassKey) != "" {
			return q
		}
	}
	if len(list) == 0 {
		return r
	}
	return list[len(list)-1]
}

// well reports whether a record ended well.
func well(r *report.Record) bool {
	switch text(r, semconv.RunOutcomeKey) {
	case semconv.RunOutcomeSucceeded.String(), semconv.RunOutcomeRecovered.String(), semconv.RunOutcomeWaiting.String():
		return true
	case "":
		return text(r, semconv.FailureClassKey) == ""
	default:
		return false
	}
}

// maxNames bounds how many tools are named.
const maxNames = 4

// names returns the strings of an attribute that is a list, without repetitions.
func names(value any) (list []string) {
	values, _ := value.([]any)
	for _, v := range values {
		if s, ok := v.(string); ok && s != "" && len(list) < maxNames && !slices.Contains(list, report.Printable(s)) {
			list = append(list, report.Printable(s))
		}
	}
	return list
}

// count returns a number with its noun, in the plural unless it is 1.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// counted is count, and "" for none.
func counted(n int, what string) string {
	if n == 0 {
		return ""
	}
	return count(n, what)
}

// joined joins the parts that are not empty.
func joined(parts ...string) string {
	var list []string
	for _, p := range parts {
		if p != "" {
			list = append(list, p)
		}
	}
	return strings.Join(list, ", ")
}
