package main

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelllm/otelllm-go/test/incidents/all"
	"github.com/otelllm/otelllm-go/test/incidents/incident"
)

// playedAct is an act of an incident. The spans before are kept as they are; the spans
// after are classified.
type playedAct struct {
	story         *incident.Story
	act           *incident.Act
	before, after incident.Played
}

// incidents plays the incidents that the project began with.
func (d *demo) incidents(ctx context.Context, agent, gateway *sdktrace.TracerProvider) (err error) {
	stage, err := incident.NewStage()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	stories := all.Stories()
	for i := range stories {
		for j := range stories[i].Acts {
			t := playedAct{story: &stories[i], act: &stories[i].Acts[j]}
			if t.before, err = stage.Before(ctx, t.story, t.act); err != nil {
				return err
			}
			if t.after, err = stage.After(ctx, t.story, t.act, agent, gateway); err != nil {
				return err
			}
			d.playedActs = append(d.playedActs, t)
		}
	}
	return nil
}

// judgeIncidents returns what is not as expected.
func (d *demo) judgeIncidents() (wrong []string) {
	for i := range d.playedActs {
		t := &d.playedActs[i]
		for _, w := range t.act.Wrong(&t.before, incident.First(&d.spans, &t.after)) {
			wrong = append(wrong, fmt.Sprintf("  %s, %s:\n    %s", t.story.Name, t.act.Label, w))
		}
	}
	return wrong
}

// printIncidents prints one line for before and one for after.
func (d *demo) printIncidents() {
	fmt.Println("\nThe incidents that this project began with: the trace before, and the verdict now (`go run ./incidents` in examples prints everything)")
	var story *incident.Story
	var before string
	for i := range d.playedActs {
		t := &d.playedActs[i]
		if t.story != story {
			fmt.Printf("\n%s\n", t.story.Title)
		}
		if line := t.act.Headline(&t.before); t.story != story || line != before {
			story, before = t.story, line
			fmt.Printf("  before  %s\n", clip(line, 110))
		}
		now := "no verdict"
		if judged := incident.First(&d.spans, &t.after); judged != nil {
			now = incident.VerdictOf(judged).String()
		}
		if t.act.Label != "" {
			now = t.act.Label + ": " + now
		}
		fmt.Printf("  now     %s\n", now)
	}
}

// clip cuts a line after the given number of characters.
func clip(line string, most int) string {
	if utf8.RuneCountInString(line) <= most {
		return line
	}
	return string([]rune(line)[:most-1]) + "…"
}
