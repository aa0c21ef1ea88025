package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// generated returns the streams for a seed: each shape framed correctly, and the rich
// shapes in every other framing.
func generated(seed uint64) (all []stream) {
	for w := range wires {
		r := rand.New(rand.NewPCG(seed, uint64(w)))
		framings := w.framings()
		for _, s := range w.shapes() {
			all = append(all, w.build(w.String()+"/"+s.name, framings[0], w.generate(s, r), r))
		}
		for _, f := range framings[1:] {
			for _, s := range rich() {
				all = append(all, w.build(w.String()+"/"+s.name, f, w.generate(s, r), r))
			}
		}
	}
	return all
}

// folders are the folders of recorded streams.
var folders = []string{"openai-chat", "openai-responses", "azure-openai", "anthropic-messages", "gemini", "bedrock"}

// recorded returns the streams in dir, which has one folder per wire protocol with one
// decoded payload per line.
func recorded(dir string) (all []stream, err error) {
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(dir, folder, "*.jsonl"))
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("no recorded streams in %s", filepath.Join(dir, folder))
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			some, err := turns(folder, strings.TrimSuffix(filepath.Base(file), ".jsonl"), raw)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			all = append(all, some...)
		}
	}
	return all, nil
}

// turns returns the streams of one file, which may hold the answers of several turns.
func turns(folder, name string, raw []byte) (all []stream, err error) {
	var b *builder
	flush := func() {
		if b == nil {
			return
		}
		if b.wire == chatWire {
			sse(b, event{data: "[DONE]"})
		}
		b.body = b.out.Bytes()
		all = append(all, b.stream)
		b = nil
	}
	for line := range bytes.Lines(raw) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(line, &fields); err != nil {
			return nil, err
		}
		e := event{data: string(line)}
		_ = json.Unmarshal(fields["type"], &e.name)
		w := chatWire
		switch {
		case folder == "gemini":
			w = geminiWire
		case folder == "bedrock":
			w = bedrockWire
			for key, value := range fields { // there is exactly one
				e.name, e.data = key, string(value)
			}
		case e.name == "":
		case folder == "anthropic-messages":
			w = anthropicWire
		default:
			w = responsesWire
		}
		if b == nil {
			b = &builder{stream: stream{name: fmt.Sprintf("recorded/%s/%s#%d", folder, name, len(all)), wire: w}}
		}
		switch w {
		case bedrockWire:
			messages(b, e)
		case geminiWire:
			b.event(e, "data: ", e.data, "\r\n\r\n")
		default:
			sse(b, e)
		}
		last := &b.marks[len(b.marks)-1]
		last.shape = e.name + "/" + keysOf(line)
		if e.name == "message_stop" || last.final && w == responsesWire {
			flush()
		}
	}
	flush()
	return all, nil
}

// keysOf returns the keys in a JSON value, without the values.
func keysOf(raw []byte) string {
	var value any
	_ = json.Unmarshal(raw, &value)
	var out strings.Builder
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			keys := make([]string, 0, len(v))
			for key := range v {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			for _, key := range keys {
				out.WriteString(key + "{")
				walk(v[key])
				out.WriteString("}")
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		case string:
			if v == "" {
				out.WriteString("-")
			}
		case nil:
			out.WriteString("0")
		}
	}
	walk(value)
	return out.String()
}

// every returns all offsets.
func (s *stream) every() []int {
	cuts := make([]int, len(s.body)+1)
	for i := range cuts {
		cuts[i] = i
	}
	return cuts
}

const (
	// alike is how many events of one shape are cut at every byte.
	alike = 2
	// longEvent is the size from which only the edges of an event are cut at every
	// byte.
	longEvent = 1 << 10
)

// usefulCuts returns the offsets of a long recorded stream at which a cut may show
// something new: every byte of the first events of each shape, and the edges of the
// others.
func (s *stream) usefulCuts() []int {
	if len(s.body) <= 4<<10 {
		return s.every()
	}
	var cuts []int
	add := func(from, to, step int) {
		for at := from; at < to; at += step {
			cuts = append(cuts, at)
		}
	}
	begin, seen := 0, map[string]int{}
	for _, m := range s.marks {
		switch seen[m.shape]++; {
		case seen[m.shape] > alike:
			add(begin, begin+1, 1)
			if seen[m.shape]%8 == 0 {
				add(m.dataEnd-1, m.end, 1)
			}
		case m.end-begin > longEvent:
			add(begin, m.data+64, 1)
			add(m.data+64, m.dataEnd-64, 131)
			add(m.dataEnd-64, m.end, 1)
		default:
			add(begin, m.end, 1)
		}
		begin = m.end
	}
	add(begin, len(s.body)+1, 1)
	slices.Sort(cuts)
	return slices.Compact(cuts)
}
