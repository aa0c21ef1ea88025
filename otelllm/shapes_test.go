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

	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/otelllm/classify"
	"github.com/otelllm/otelllm-go/semconv"
)

// node is a JSON value that can be changed and written again with its keys in order.
type node struct {
	object, array bool
	keys          []string // of an object
	kids          []*node  // of an object or an array
	value         any      // of neither
}

// parseNode reads one JSON value that is all of text.
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

// typ is the string under the key type, "" without one.
func (n *node) typ() string {
	if i := slices.Index(n.keys, "type"); i >= 0 {
		s, _ := n.kids[i].value.(string)
		return s
	}
	return ""
}

// shapedEvent is one event of an answer, whose payload can be changed.
type shapedEvent struct {
	head, payload, tail string // payload: "" where there is no JSON in it
	aws                 string // the type of a message of an AWS event-stream
	text                string // all of it
}

// join puts the event's text together again.
func (e *shapedEvent) join() {
	e.text = e.head + e.payload + e.tail
	if e.aws != "" {
		e.text = awsMessage(e.aws, e.payload)
	}
}

// shaped takes the events of an answer apart.
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

// name is the same for the same place of all events.
func (s *site) name() string {
	if s.key < 0 {
		return s.path
	}
	return s.path + "." + s.object.keys[s.key]
}

// sites finds the places in a payload, in a fixed order.
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
	// healthy: clients read the same answer, so that a whole one stays no failure.
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
	{name: "word changed", applies: isWord, apply: func(s *site, _ *shapedEvent) { changeWord(s) }},
	{
		name:    "word and event field changed",
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

// words are the keys whose values are of a closed set.
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

// endings are the keys without which an answer has no end. To drop one is to cut it.
var endings = []string{"finish_reason", "stop_reason", "stopReason", "finishReason", "blockReason", "done", "done_reason"}

// contents are the keys of an answer's content.
var contents = []string{
	"content", "text", "thinking", "reasoning", "reasoning_content", "refusal", "delta", "arguments", "partial_json",
	"input", "code", "data", "response", "thought", "name", "diff", "transcript", "partial_image_b64", "encrypted_content",
	"hologram", "note", // of the odd payloads
}

// isNoContent: without the key the event still has all of the answer that it had.
func isNoContent(s *site) bool {
	if !isKey(s) || slices.Contains(contents, s.object.keys[s.key]) || slices.Contains(endings, s.object.keys[s.key]) {
		return false
	}
	kid := s.object.kids[s.key]
	return !kid.object && !kid.array
}

// hasContent: something of an answer came.
func hasContent(r *classify.Request) bool {
	return r.Text.N() > 0 || r.Reasoning.N() > 0 || r.ToolInputsStarted.N() > 0 || r.ToolCalls.N() > 0 || r.ProviderToolsStarted.N() > 0
}

// falls compares the verdicts on an answer and on the same one in a changed shape, cut
// after the same event in the same way. It says what is wrong, "" for nothing:
//
//   - where the answer was whole, the changed one is no failure, or one that is not safe;
//     the same where a change is such that readers do not notice it, and no failure at all;
//   - where it was cut, the changed one is a failure at least as unsafe to repeat;
//   - content that the answer had is never gone.
//
// What only the provider's own word says, an error or a limit, can not be known once the
// word has changed. Then the rest must be no safer than to ask.
func falls(o, m *classify.Diagnosis, original, mutant *classify.Request, healthy bool) string {
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
	case m.Class == semconv.ClassUnset && (mutant.Ended == semconv.StreamEndUnset || cameWhole(original) || o.Class == semconv.ClassProviderError && cameWhole(mutant)):
		return ""
	case m.Class == semconv.ClassUnset:
		return "is no failure"
	}
	level := o.Retry.Safety
	if (o.Class == semconv.ClassProviderError || o.Class == semconv.ClassOutputLimited) && m.Class != o.Class {
		level = min(level, classify.UserConfirmedRetry)
	}
	if m.Retry.Safety < level {
		return "is safer to repeat"
	}
	return ""
}

// shapes checks one answer in all shapes that are new to it.
type shapes struct {
	cutter *cutter
	faults faults
	seen   map[string]bool
	// originals are the verdicts on the answer as it was, by cut and way.
	originals map[string]judged
}

// hold changes every place of the answer in every way, at its first occurrence and at
// all of them. One in part of the changes is tried.
func (s *shapes) hold(tb testing.TB, w *wireStream, part int) {
	tb.Helper()
	s.originals = map[string]judged{}
	events := shaped(tb, w)
	places := make([][]site, len(events))
	has := make([]map[string]bool, len(events))
	for i := range events {
		root, err := parseNode(events[i].payload)
		if err != nil {
			continue // [DONE], or what stands around a list
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
	for i := range slices.Backward(all) { // a key that goes moves those behind it
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

// compare cuts both answers after the changed event, after the next and not at all; or
// after every event.
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
				if wrong := falls(o, d, &original.facts, &facts, m.healthy && k == len(events)); wrong != "" {
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

// oddAnswers are own answers with an odd payload after their first event.
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

// TestShapes changes the shape of every event of the package's own answers and of
// recorded ones, at every place in every way. What is not known is never less than what
// is known: no change makes an answer safer to repeat, or an answer with content empty.
// Of places that answers share, one is changed, and of those of recorded answers one in
// three; or, with OTELLLM_EVERY_CUT, every one.
func TestShapes(t *testing.T) {
	s := shapes{cutter: newCutter(), seen: map[string]bool{}}
	for _, w := range slices.Concat(ownAnswers(t), oddAnswers(t)) {
		s.hold(t, &w, 1)
	}
	part := 3
	if everyCut() {
		part = 1
	}
	for _, w := range recordedAnswers(t) {
		s.hold(t, &w, part)
	}
	s.faults.report(t)
}
