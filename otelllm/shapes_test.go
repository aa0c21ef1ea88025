package otelllm

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/otelllm/otelllm-go/internal/sample"

	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// node is a JSON value that can be changed and encoded again with its keys in order.
type node struct {
	object, array bool
	keys          []string // of an object
	kids          []*node  // of an object or an array
	value         any      // of neither
}

// parseNode parses text, which must hold one JSON value and nothing else.
func parseNode(text string) (*node, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	n, err := readNode(d)
	if err == nil && d.More() {
		err = fmt.Errorf("more than one value in %.60q", text)
	}
	return n, err
}

func readNode(d *json.Decoder) (*node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return &node{value: token}, nil
	}
	n := &node{object: delim == '{', array: delim == '['}
	for d.More() {
		if n.object {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			n.keys = append(n.keys, key.(string))
		}
		kid, err := readNode(d)
		if err != nil {
			return nil, err
		}
		n.kids = append(n.kids, kid)
	}
	_, err = d.Token()
	return n, err
}

func (n *node) write(b *bytes.Buffer) {
	switch {
	case n.object:
		b.WriteByte('{')
		for i, kid := range n.kids {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, "%s:", quoted(n.keys[i]))
			kid.write(b)
		}
		b.WriteByte('}')
	case n.array:
		b.WriteByte('[')
		for i, kid := range n.kids {
			if i > 0 {
				b.WriteByte(',')
			}
			kid.write(b)
		}
		b.WriteByte(']')
	default:
		b.WriteString(quoted(n.value))
	}
}

func quoted(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n")
}

// typ returns the string under the key type, or "".
func (n *node) typ() string {
	if i := slices.Index(n.keys, "type"); i >= 0 {
		s, _ := n.kids[i].value.(string)
		return s
	}
	return ""
}

// shapedEvent is one event of an answer, whose payload can be changed.
type shapedEvent struct {
	head, payload, tail string // payload: "" if the event has no JSON
	aws                 string // the type of a message of an AWS event-stream
	text                string // the whole event
}

// join builds the event's text from its parts.
func (e *shapedEvent) join() {
	e.text = e.head + e.payload + e.tail
	if e.aws != "" {
		e.text = awsMessage(e.aws, e.payload)
	}
}

// shaped splits the events of an answer into their parts.
func shaped(tb testing.TB, w *wireStream) (events []shapedEvent) {
	tb.Helper()
	texts := w.events
	if strings.HasSuffix(w.name, "document") {
		texts = []string{w.text()}
	}
	for _, text := range texts {
		if w.contentType == awsType {
			length := binary.BigEndian.Uint32([]byte(text[4:8])) // of the headers
			head := text[12 : 12+length]
			typ := head[strings.Index(head, ":event-type")+len(":event-type")+3:]
			typ = typ[:strings.IndexByte(typ, byte(len(":content-type")))]
			events = append(events, shapedEvent{aws: typ, payload: text[12+length : len(text)-4], text: text})
			continue
		}
		start, end := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')+1
		if start < 0 || end < start {
			events = append(events, shapedEvent{text: text})
			continue
		}
		events = append(events, shapedEvent{head: text[:start], payload: text[start:end], tail: text[end:], text: text})
	}
	return events
}

// site is a place in the payloads of a protocol: an object, and one of its keys.
type site struct {
	path   string // of the object, with the types of the objects around it
	object *node
	key    int // -1: the object itself
	root   bool
}

// name is the same for the same place in all events.
func (s *site) name() string {
	if s.key < 0 {
		return s.path
	}
	return s.path + "." + s.object.keys[s.key]
}

// sites appends the places in a payload to found, in a fixed order.
func sites(n *node, path string, root bool, found []site) []site {
	if n.object {
		if typ := n.typ(); typ != "" {
			path += "<" + typ + ">"
		}
		found = append(found, site{path, n, -1, root})
	}
	for i, kid := range n.kids {
		below := path + "[]"
		if n.object {
			found = append(found, site{path, n, i, root})
			below = path + "." + n.keys[i]
		}
		found = sites(kid, below, false, found)
	}
	return found
}

// mutation is a way in which a protocol may change.
type mutation struct {
	name    string
	applies func(*site) bool
	apply   func(*site, *shapedEvent)
	// healthy: clients read the same answer as before, so a complete one must not become a failure.
	healthy bool
}

const changed = "_v2"

var mutations = []mutation{
	{name: "key renamed", applies: isKey, apply: func(s *site, _ *shapedEvent) { s.object.keys[s.key] += changed }},
	{name: "key in another case", healthy: true, applies: isKey, apply: func(s *site, _ *shapedEvent) {
		k := []rune(s.object.keys[s.key])
		k[0] = unicode.ToUpper(k[0])
		s.object.keys[s.key] = string(k)
	}},
	{name: "value in an object", applies: isKey, apply: func(s *site, _ *shapedEvent) {
		s.object.kids[s.key] = &node{object: true, keys: []string{"value"}, kids: []*node{s.object.kids[s.key]}}
	}},
	{name: "value in a list", applies: isKey, apply: func(s *site, _ *shapedEvent) {
		s.object.kids[s.key] = &node{array: true, kids: []*node{s.object.kids[s.key]}}
	}},
	{name: "key dropped", applies: isNoContent, apply: func(s *site, _ *shapedEvent) {
		s.object.keys = slices.Delete(slices.Clone(s.object.keys), s.key, s.key+1)
		s.object.kids = slices.Delete(slices.Clone(s.object.kids), s.key, s.key+1)
	}},
	{name: "key added", healthy: true, applies: func(s *site) bool { return s.key < 0 }, apply: func(s *site, _ *shapedEvent) {
		s.object.keys = append(s.object.keys, "hologram")
		s.object.kids = append(s.object.kids, &node{value: "a"})
	}},
	{name: "enum value changed", applies: isWord, apply: func(s *site, _ *shapedEvent) { changeWord(s) }},
	{
		name:    "enum value and event field changed",
		applies: func(s *site) bool { return s.root && isWord(s) && s.object.keys[s.key] == "type" },
		apply: func(s *site, e *shapedEvent) {
			e.head = strings.Replace(e.head, s.object.typ()+"\n", s.object.typ()+changed+"\n", 1)
			changeWord(s)
		},
	},
	{
		name:    "event field changed",
		applies: func(s *site) bool { return s.root && isWord(s) && s.object.keys[s.key] == "type" },
		apply: func(s *site, e *shapedEvent) {
			e.head = strings.Replace(e.head, s.object.typ()+"\n", s.object.typ()+changed+"\n", 1)
		},
	},
	{name: "message type changed", applies: func(s *site) bool { return s.root && s.key < 0 }, apply: func(_ *site, e *shapedEvent) {
		if e.aws != "" {
			e.aws += changed
		}
	}},
}

func isKey(s *site) bool { return s.key >= 0 && s.object.keys[s.key] != "" }

// words are the keys whose values come from a closed set.
var words = []string{"type", "object", "role", "status", "finish_reason", "stop_reason", "stopReason", "finishReason", "blockReason", "done_reason", "reason", "code"}

func isWord(s *site) bool {
	if !isKey(s) || !slices.Contains(words, s.object.keys[s.key]) {
		return false
	}
	word, ok := s.object.kids[s.key].value.(string)
	return ok && word != ""
}

func changeWord(s *site) {
	word, _ := s.object.kids[s.key].value.(string)
	s.object.kids[s.key] = &node{value: word + changed}
}

// endings are the keys without which an answer has no end. Dropping one of them cuts the answer.
var endings = []string{"finish_reason", "stop_reason", "stopReason", "finishReason", "blockReason", "done", "done_reason"}

// contents are the keys of an answer's content.
var contents = []string{
	"content", "text", "thinking", "reasoning", "reasoning_content", "refusal", "delta", "arguments", "partial_json",
	"input", "code", "data", "response", "thought", "name", "diff", "transcript", "partial_image_b64", "encrypted_content",
	"hologram", "note", // of the odd payloads
}

// isNoContent reports whether the event keeps all of its part of the answer without the key.
func isNoContent(s *site) bool {
	if !isKey(s) || slices.Contains(contents, s.object.keys[s.key]) || slices.Contains(endings, s.object.keys[s.key]) {
		return false
	}
	kid := s.object.kids[s.key]
	return !kid.object && !kid.array
}

// hasContent reports whether anything of an answer came.
func hasContent(r *classify.Request) bool {
	return r.Text.N() > 0 || r.Reasoning.N() > 0 || r.ToolInputsStarted.N() > 0 || r.ToolCalls.N() > 0 || r.ProviderToolsStarted.N() > 0
}

// compareVerdicts compares the verdicts on an answer and on the same answer in a changed
// shape, cut after the same event in the same way. It returns what is wrong, or "":
//
//   - if the answer was complete, the changed one is not a failure, or a failure that is
//     not safe to repeat; if clients do not notice the change, it is not a failure;
//   - if the answer was cut, the changed one is a failure that is at least as unsafe to
//     repeat;
//   - content of the answer never disappears.
//
// An error or a limit that only the provider's own value reports is not known if that
// value has changed, and neither is what kind of error it is. The level must then be at least
// that the user has to confirm.
func compareVerdicts(o, m *classify.Diagnosis, original, mutant *classify.Request, healthy bool) string {
	gone := hasContent(original) && !hasContent(mutant)
	switch {
	case gone && m.Class == semconv.ClassEmptyCompletion:
		return "is empty"
	case gone && m.Retry.Reason == semconv.RetryReasonNoOutput:
		return "has no output"
	case o.Class == semconv.ClassUnset && m.Class == semconv.ClassUnset:
		return ""
	case o.Class == semconv.ClassUnset && healthy:
		return "is a failure"
	case o.Class == semconv.ClassUnset && m.Retry.Safety == classify.SafeAutoRetry:
		return "is safe to repeat"
	case o.Class == semconv.ClassUnset:
		return ""
	case m.Class == semconv.ClassUnset && (mutant.Ended == semconv.StreamEndUnset || endedComplete(original) || o.Class == semconv.ClassProviderError && endedComplete(mutant)):
		return ""
	case m.Class == semconv.ClassUnset:
		return "is not a failure"
	}
	level := o.Retry.Safety
	if (o.Class == semconv.ClassProviderError || o.Class == semconv.ClassOutputLimited) && (m.Class != o.Class || m.Cause == semconv.CauseUnknown) {
		level = min(level, classify.UserConfirmedRetry)
	}
	if m.Retry.Safety < level {
		return "is safer to repeat"
	}
	return ""
}

// shapes checks answers in every shape that was not checked before.
type shapes struct {
	cutter *cutter
	faults faults
	seen   map[string]bool
	// originals are the verdicts on the unchanged answer, by cut and way.
	originals map[string]judged
}

// checkAnswer changes every place of the answer in every way, first at its first occurrence
// and then at all of them. With part > 1 it tries only every part-th change.
func (s *shapes) checkAnswer(tb testing.TB, w *wireStream, part int) {
	tb.Helper()
	s.originals = map[string]judged{}
	events := shaped(tb, w)
	places := make([][]site, len(events))
	has := make([]map[string]bool, len(events))
	for i := range events {
		root, err := parseNode(events[i].payload)
		if err != nil {
			continue // [DONE], or the brackets around a list
		}
		places[i], has[i] = sites(root, events[i].aws, true, nil), map[string]bool{}
		for _, here := range places[i] {
			has[i][here.name()] = true
		}
	}
	for i := range events {
		for at, here := range places[i] {
			for m := range mutations {
				mutation := &mutations[m]
				if !mutation.applies(&here) {
					continue
				}
				name := w.path + w.contentType + " " + here.name() + ": " + mutation.name
				if everyCut() {
					name += w.name
				}
				if s.seen[name] {
					continue
				}
				s.seen[name] = true
				if part > 1 && len(s.seen)%part != 0 {
					continue
				}
				alone := slices.Clone(events)
				change(tb, &alone[i], at, mutation)
				s.compare(tb, w, events, alone, i, mutation, here.name())
				all := slices.Clone(alone)
				for j := i + 1; j < len(all); j++ {
					if has[j][here.name()] {
						changeAll(tb, &all[j], here.name(), mutation)
					}
				}
				s.compare(tb, w, events, all, i, mutation, here.name())
			}
		}
	}
}

// change changes one place of an event.
func change(tb testing.TB, e *shapedEvent, at int, m *mutation) {
	tb.Helper()
	root, err := parseNode(e.payload)
	require.NoError(tb, err)
	here := sites(root, e.aws, true, nil)[at]
	m.apply(&here, e)
	e.rewrite(root)
}

// changeAll changes every place of this name in an event.
func changeAll(tb testing.TB, e *shapedEvent, name string, m *mutation) {
	tb.Helper()
	root, err := parseNode(e.payload)
	require.NoError(tb, err)
	all := sites(root, e.aws, true, nil)
	for i := range slices.Backward(all) { // a dropped key moves the keys behind it
		if all[i].key < len(all[i].object.kids) && all[i].name() == name && m.applies(&all[i]) {
			m.apply(&all[i], e)
		}
	}
	e.rewrite(root)
}

func (e *shapedEvent) rewrite(root *node) {
	var b bytes.Buffer
	root.write(&b)
	e.payload = b.String()
	e.join()
}

// compare cuts both answers after the changed event, after the next one and not at all;
// or, with OTELLLM_EVERY_CUT, after every event from the changed one on.
func (s *shapes) compare(tb testing.TB, w *wireStream, events, mutant []shapedEvent, first int, m *mutation, place string) {
	tb.Helper()
	cuts := slices.Compact([]int{first + 1, min(first+2, len(events)), len(events)})
	if everyCut() {
		cuts = nil
		for k := first + 1; k <= len(events); k++ {
			cuts = append(cuts, k)
		}
	}
	for _, k := range cuts {
		prefix := joined(mutant[:k])
		for _, end := range []way{endsClean, endsReset} {
			original := s.original(tb, w, events[:k], end)
			facts := s.cutter.facts(tb, w.path, w.request, w.contentType, prefix, end)
			if equalFacts(&facts, &original.facts) {
				continue
			}
			got := judgeCases(&facts)
			for i := range got.verdicts {
				o, d := &original.verdicts[i], &got.verdicts[i]
				if wrong := compareVerdicts(o, d, &original.facts, &facts, m.healthy && k == len(events)); wrong != "" {
					s.faults.add(fmt.Sprintf("%s: %s: %s %s", m.name, w.path, place, wrong), cases[i].name, fmt.Sprintf(
						"%s (%s), after event %d of %d:\n\t\t%.200q\n\t\t%s\n\t\t%s", w.name, end.name, k, len(events), mutant[first].text, brief(o), brief(d)))
				}
			}
		}
	}
}

func (s *shapes) original(tb testing.TB, w *wireStream, events []shapedEvent, end way) judged {
	tb.Helper()
	key := strconv.Itoa(len(events)) + end.name
	j, ok := s.originals[key]
	if !ok {
		facts := s.cutter.facts(tb, w.path, w.request, w.contentType, joined(events), end)
		j = judgeCases(&facts)
		s.originals[key] = j
	}
	return j
}

func joined(events []shapedEvent) string {
	var b strings.Builder
	for i := range events {
		b.WriteString(events[i].text)
	}
	return b.String()
}

// oddAnswers returns answers of ownAnswers with an odd payload after their first event.
func oddAnswers(tb testing.TB) (all []wireStream) {
	tb.Helper()
	own := ownAnswers(tb)
	for _, kind := range wireKinds() {
		i := slices.IndexFunc(own, func(w wireStream) bool { return w.path == kind.path && w.contentType == kind.contentType })
		odd := oddPayloads[kind.name]
		if i < 0 || len(odd) == 0 {
			continue
		}
		for n, event := range answerOf(tb, kind.name, "", odd...).events[:len(odd)] {
			w := own[i]
			w.name = fmt.Sprintf("%s and %.60s", w.name, odd[n])
			w.events = slices.Insert(slices.Clone(w.events), 1, event)
			all = append(all, w)
		}
	}
	return all
}

// TestShapes changes the shape of every event of own and of recorded answers, at every
// place in every way. What is not known is never less than what is known: no change makes
// an answer safer to repeat, or an answer with content empty. A place that several answers
// share is changed in one of them, and of the places of recorded answers one in three is
// changed; with OTELLLM_EVERY_CUT, all are.
func TestShapes(t *testing.T) {
	s := shapes{cutter: newCutter(), seen: map[string]bool{}}
	for _, w := range slices.Concat(ownAnswers(t), oddAnswers(t)) {
		s.checkAnswer(t, &w, sample.Every(28))
	}
	part := 3 * sample.Every(16)
	if everyCut() {
		part = 1
	}
	for _, w := range recordedAnswers(t) {
		s.checkAnswer(t, &w, part)
	}
	s.faults.report(t)
}
