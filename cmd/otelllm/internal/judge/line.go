package judge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// maxKey is the maximum length of what a program calls a run, a part or an answer.
const maxKey = 128

// line is one line of a program. The fields that are not here are facts.
type line struct {
	ref    json.RawMessage // a string or a number that the answer repeats
	run    string
	outer  string // the run around it
	kind   string // "" for a question
	id     string
	ended  bool
	failed bool
	start  pcommon.Timestamp // 0: not given
	end    pcommon.Timestamp
	silent bool              // no answer, unless it is an error
	trace  string            // a question about a trace
	call   []string          // a question about requests, the attempts of one model call
	since  pcommon.Timestamp // a question about what began then or later; 0: not given

	otlp  bool
	facts map[string]json.RawMessage
}

// parseLine parses a line. Ref is there also if the rest is not valid.
func parseLine(raw []byte) (l line, err error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
		return line{}, errors.New("the line is not a JSON object")
	}
	l.facts = make(map[string]json.RawMessage)
	eachMember(raw, func(key, value []byte) {
		name, _ := textOf(key)
		l.facts[name] = value
	})
	if l.ref, err = parseRef(l.facts["ref"]); err != nil {
		return l, err
	}
	if _, l.otlp = l.facts["resourceSpans"]; l.otlp {
		return l, l.parseAnswer()
	}
	texts := []struct {
		key string
		to  *string
	}{{"run", &l.run}, {"parent_run", &l.outer}, {"kind", &l.kind}, {"id", &l.id}, {"trace", &l.trace}}
	for _, f := range texts {
		if err := takeText(l.facts, f.key, f.to); err != nil {
			return l, err
		}
	}
	if err := l.parseCall(); err != nil {
		return l, err
	}
	var state, status string
	if err := errors.Join(takeText(l.facts, "state", &state), takeText(l.facts, "status", &status)); err != nil {
		return l, err
	}
	if l.start, err = takeTime(l.facts, "start"); err != nil {
		return l, err
	}
	if l.end, err = takeTime(l.facts, "end"); err != nil {
		return l, err
	}
	if err := l.parseAnswer(); err != nil {
		return l, err
	}
	delete(l.facts, "ref")
	return l, l.check(state, status)
}

// parseAnswer reads whether an answer is wanted.
func (l *line) parseAnswer() error {
	raw, ok := l.facts["answer"]
	if !ok {
		return nil
	}
	delete(l.facts, "answer")
	answer := true
	if json.Unmarshal(raw, &answer) != nil {
		return errors.New("answer has to be true or false")
	}
	l.silent = !answer
	return nil
}

// parseCall reads what a question is about: the attempts of a model call, or what began since a time.
func (l *line) parseCall() (err error) {
	if l.kind != "" {
		return nil
	}
	if l.since, err = takeTime(l.facts, "since"); err != nil {
		return err
	}
	raw, ok := l.facts["call"]
	if !ok {
		return nil
	}
	delete(l.facts, "call")
	if json.Unmarshal(raw, &l.call) != nil || len(l.call) == 0 || len(l.call) > maxList {
		return fmt.Errorf("call has to be a list of 1 to %d ids of requests", maxList)
	}
	return nil
}

// check checks the fields against each other.
func (l *line) check(state, status string) error {
	switch {
	case l.trace != "" && l.run == "" && l.kind == "":
		return nil
	case l.run == "":
		return errors.New("run is missing: the name that the program gives to the run")
	}
	switch state {
	case "", "ended":
		l.ended = true
	case "begun":
	default:
		return errors.New("state has to be begun or ended")
	}
	switch status {
	case "", "unset", "ok":
	case "error":
		l.failed = true
	default:
		return errors.New("status has to be error, ok or unset")
	}
	switch l.kind {
	case "run", "":
	case "request", "tool":
		if l.id == "" {
			return errors.New("id is missing: the name of this request or tool within the run")
		}
	default:
		return errors.New("kind has to be run, request or tool, or missing for a question")
	}
	return nil
}

// parseRef parses the program's reference.
func parseRef(raw json.RawMessage) (json.RawMessage, error) {
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	var number json.Number
	if text, ok := textOf(raw); ok && len(text) <= maxKey {
		return raw, nil
	}
	if raw[0] != '"' && json.Unmarshal(raw, &number) == nil && len(raw) <= 32 {
		return raw, nil
	}
	return nil, fmt.Errorf("ref has to be a number, or a string of at most %d bytes", maxKey)
}

// takeText takes a name out of the fields.
func takeText(fields map[string]json.RawMessage, key string, to *string) error {
	raw, ok := fields[key]
	if !ok {
		return nil
	}
	delete(fields, key)
	var text string
	if text, ok = textOf(raw); !ok || text == "" || len(text) > maxKey {
		return fmt.Errorf("%s has to be a string of 1 to %d bytes", key, maxKey)
	}
	*to = text
	return nil
}

// takeTime takes a time out of the fields: seconds since 1970, or RFC 3339.
func takeTime(fields map[string]json.RawMessage, key string) (pcommon.Timestamp, error) {
	raw, ok := fields[key]
	if !ok {
		return 0, nil
	}
	delete(fields, key)
	const most = 1 << 33 // seconds: before the year 2243
	if seconds, err := strconv.ParseFloat(string(raw), 64); err == nil && seconds > 0 && seconds < most {
		return pcommon.Timestamp(seconds * float64(time.Second)), nil
	}
	if text, ok := textOf(raw); ok {
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil && at.Unix() > 0 && at.Unix() < most {
			return pcommon.NewTimestampFromTime(at), nil
		}
	}
	return 0, fmt.Errorf("%s has to be a time: seconds since 1970, or RFC 3339 such as 2026-01-02T15:04:05.678Z", key)
}
