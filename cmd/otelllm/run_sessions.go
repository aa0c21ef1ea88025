package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/agents"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles"
	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// readPatience bounds the time to read the files of an agent.
const readPatience = 2 * time.Second

// sessionsOf returns the sessions in which an agent, which has ended, began a turn since the command began, from the files that it
// wrote.
// Unreadable files are left out: the wire has shown the rest.
func sessionsOf(ctx context.Context, plan *agents.Plan, home string, began time.Time) (list []*sessionfiles.Session) {
	agent := sessionfiles.Find(plan.Agent.Name)
	if agent == nil || home == "" {
		return nil
	}
	places := slices.DeleteFunc(sessionfiles.Places(home, plan.Getenv), func(p sessionfiles.Place) bool { return p.Agent != agent })
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	ignore := func(*sessionfiles.Problem) {}
	around := sessionfiles.LookAround()
	if folder, err := os.Getwd(); err == nil {
		around.Ended(agent.Name, folder)
	}
	scan := sessionfiles.Scan{Since: began, Now: time.Now(), Around: around, Report: ignore}
	scan.Sessions(ctx, sessionfiles.Discover(places, began, ignore), func(one *sessionfiles.Session) {
		if last := one.Last(); last != nil && !last.Start.Before(began) {
			list = append(list, one)
		}
	})
	return list
}

// joinSession adds facts that only the session shows to the records of the wire: the tools of a run, and the run of model
// calls that belong to none, as of an agent that died in its first tool. It adds nothing if there are several runs or
// sessions, as they cannot be matched.
func joinSession(records []report.Record, sessions []*sessionfiles.Session) []report.Record {
	if len(sessions) != 1 {
		return records
	}
	r := sessionfiles.RecordOf(sessions[0].Last())
	if r == nil {
		return records
	}
	var runs []int
	var calls []report.Record
	for i := range records {
		switch records[i].Kind {
		case report.RecordRun:
			runs = append(runs, i)
		case report.RecordRequest:
			calls = append(calls, records[i])
		case report.RecordTool:
		}
	}
	switch {
	case len(runs) == 1 && len(records[runs[0]].Tools) == 0 && len(r.Tools) > 0:
		records = slices.Clone(records)
		records[runs[0]].Tools = r.Tools
		return records
	case len(runs) == 0 && len(calls) > 0 && len(calls) == len(records):
		r.Requests = calls
		explainByCall(r)
		return []report.Record{*r}
	default:
		return records
	}
}

// explainByCall gives a run that failed for a reason that the session does not show the failure of a model call, if the
// advice after both is the same.
func explainByCall(r *report.Record) {
	decisive := decisiveOf(r)
	if text(r, semconv.FailureClassKey) != semconv.ClassUnclassified.String() || well(decisive) ||
		text(r, semconv.RetrySafetyKey) != text(decisive, semconv.RetrySafetyKey) {
		return
	}
	r.Attributes = maps.Clone(r.Attributes)
	for _, key := range []attribute.Key{semconv.FailureClassKey, semconv.FailureCauseKey, semconv.FailureOriginKey, semconv.FailureSummaryKey} {
		r.Attributes[string(key)] = text(decisive, key)
	}
	delete(r.Attributes, string(semconv.FailureSummaryKeyKey)) // of another summary
}

// printSessions names the sessions that did not end well, and how to go on with them.
func printSessions(w io.Writer, sessions []*sessionfiles.Session) {
	for _, s := range sessions {
		line, unwell := lineOf(s, sessionfiles.RecordOf(s.Last()))
		if !unwell || s.Last().State == turns.Undetermined {
			continue
		}
		fmt.Fprintf(w, "otelllm: from the session file: %s\n", report.Printable(line.what))
		fmt.Fprintf(w, "otelllm: before you resume it: otelllm sessions --plan %s\n", report.Printable(s.ID))
	}
}
