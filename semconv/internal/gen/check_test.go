package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A small registry that contains everything once. Each test of a rule breaks one thing in
// it.
const (
	goodManifest = `schema_url: https://example.com/schemas/0.1.0
dependencies:
  - schema_url: https://opentelemetry.io/schemas/1.41.0
    registry_path: https://github.com/open-telemetry/semantic-conventions@v1.41.0[model]
`
	goodModel = `groups:
  - id: registry.llm.stream
    type: attribute_group
    stability: development
    brief: Facts.
    note: Written by the client.
    annotations: {otelllm: {written_by: client}}
    attributes:
      - id: llm.stream.end
        stability: development
        brief: What ended it.
        annotations: {otelllm: {go_type: StreamEnd}}
        type:
          members:
            - id: eof
              value: eof
              stability: development
              brief: The body ended.
            - id: read_error
              value: read_error
              stability: development
              brief: Reading failed.
      - id: llm.stream.code
        type: string
        stability: development
        brief: The code.
        note: At most 80 bytes.
        examples: ["EOF", "EPIPE"]
        annotations: {otelllm: {max_bytes: 80}}
      - id: llm.stream.ids
        type: string[]
        stability: development
        brief: The ids.
        note: At most 64 entries of at most 256 bytes.
        examples: [["a", "b"]]
        annotations: {otelllm: {max_items: 64, max_bytes: 256}}
      - id: llm.stream.gap
        type: double
        stability: development
        brief: The silence.
        note: In seconds.
        examples: [1.5]
        annotations: {otelllm: {unit: s}}
  - id: event.llm.stream.finish
    type: event
    name: llm.stream.finish
    stability: development
    brief: It finished.
    annotations: {otelllm: {written_by: client}}
  - id: span.llm.request.client
    type: span
    stability: development
    span_kind: client
    display_name: Request
    brief: A request.
    annotations: {otelllm: {span_name: "chat {model}"}}
    events: [event.llm.stream.finish]
    attributes:
      - ref: gen_ai.operation.name
        requirement_level: required
      - ref: llm.stream.end
        requirement_level:
          conditionally_required: if it ended
      - ref: llm.stream.code
      - ref: llm.stream.ids
      - ref: llm.stream.gap
`
)

func loadAndCheck(manifest, model string) error {
	reg, err := load(fstest.MapFS{
		"manifest.yaml": {Data: []byte(manifest)},
		"stream.yaml":   {Data: []byte(model)},
		"README.md":     {Data: []byte("no YAML: [")},
	})
	if err != nil {
		return err
	}
	return reg.check(map[string]bool{"gen_ai.operation.name": true, "llm.taken": true})
}

func TestGoodRegistry(t *testing.T) {
	require.NoError(t, loadAndCheck(goodManifest, goodModel))
}

func TestProjectsRegistry(t *testing.T) {
	standard, err := otelAttributes()
	require.NoError(t, err)
	require.NoError(t, projectsRegistry(t).check(standard))
}

// Each test breaks one rule. The problem must name the file, the line, the subject and the
// remedy.
func TestProblems(t *testing.T) {
	for name, test := range map[string]struct {
		old, new string // of the model
		want     string
	}{
		"unknown field of a group":        {"    brief: Facts.", "    summary: Facts.", `stream.yaml:5: group "registry.llm.stream": unknown field "summary"; use one of id, type, brief`},
		"unknown field of an attribute":   {"        brief: The code.", "        brief: The code.\n        sampling: true", `stream.yaml:27: attribute "llm.stream.code": unknown field "sampling"; use one of id, ref, type`},
		"unknown field of a member":       {"              brief: The body ended.", "              text: The body ended.", `stream.yaml:18: attribute "llm.stream.end": unknown field "text"; use one of id, value, brief, stability`},
		"unknown field of a file":         {"groups:", "grups: []\ngroups:", `stream.yaml:1: the file: unknown field "grups"; use one of groups`},
		"unknown annotation":              {"{otelllm: {unit: s}}", "{otelllm: {units: s}}", `attribute "llm.stream.gap": unknown field "units"; use one of go_type, unit, max_bytes, max_items`},
		"annotation of somebody else":     {"{otelllm: {unit: s}}", "{other: {unit: s}}", `attribute "llm.stream.gap": unknown field "other"; use one of otelllm`},
		"field twice":                     {"        brief: The code.", "        brief: The code.\n        brief: Again.", `stream.yaml:27: attribute "llm.stream.code": the field "brief" occurs twice; keep one`},
		"alias":                           {"    brief: A request.", "    brief: &b A request.\n    note: *b", `group "span.llm.request.client": the field "note" is an alias; write the value out`},
		"text is a list":                  {"brief: The code.", "brief: [The code.]", `stream.yaml:26: attribute "llm.stream.code": brief is not a text; write it as one text`},
		"list is a text":                  {"events: [event.llm.stream.finish]", "events: event.llm.stream.finish", `group "span.llm.request.client": events is not a list; write each entry on a line of its own`},
		"group is a text":                 {"  - id: event.llm.stream.finish\n", "  - nothing\n  - id: event.llm.stream.finish\n", `a group without id: fields were expected here; write one of id, type`},
		"bound is a text":                 {"{max_bytes: 80}", "{max_bytes: many}", `attribute "llm.stream.code": max_bytes is not a positive number; write how many may be there at most`},
		"flag is a text":                  {"{written_by: client}}\n  - id: span", "{written_by: client, per_call: often}}\n  - id: span", `per_call is neither true nor false; write true, or leave it out`},
		"example of another type":         {`["EOF", "EPIPE"]`, `["EOF", 7]`, `attribute "llm.stream.code": the example "7" is not of type string; give an example of the attribute's type`},
		"example of an array is no array": {`[["a", "b"]]`, `["a", "b"]`, `attribute "llm.stream.ids": an example is not of type string[]; write examples as a list of string[] values`},
		"two levels":                      {"          conditionally_required: if it ended", "          conditionally_required: if it ended\n          recommended: always", `requirement_level has not exactly one level; give one of`},

		"definition twice":             {"llm.stream.code\n        type", "llm.stream.ids\n        type", `attribute "llm.stream.ids": it is defined at stream.yaml:23 already; refer to it with ref instead`},
		"group id twice":               {"id: event.llm.stream.finish\n", "id: registry.llm.stream\n", `group "registry.llm.stream": its id is taken at stream.yaml:2; give it an id of its own`},
		"ref unknown":                  {"ref: gen_ai.operation.name", "ref: gen_ai.operation.nme", `stream.yaml:59: attribute "gen_ai.operation.nme": it is defined neither here nor in OpenTelemetry 1.41.0; correct its name, or define it in a registry. group`},
		"ref twice":                    {"ref: llm.stream.code", "ref: llm.stream.end", `attribute "llm.stream.end": it occurs twice in its group; keep one`},
		"ref with a type":              {"      - ref: llm.stream.code", "      - ref: llm.stream.code\n        type: string", `attribute "llm.stream.code": a ref has no type, stability, unit or bounds of its own; remove them`},
		"ref and id":                   {"      - ref: llm.stream.code", "      - ref: llm.stream.code\n        id: llm.stream.other", `an attribute is defined with id or referred to with ref; give it exactly one of them`},
		"definition outside registry":  {"      - ref: llm.stream.code", "      - id: llm.stream.other", `attribute "llm.stream.other": attributes are defined in registry. groups only; move the definition there and refer to it here`},
		"ref inside registry":          {"      - id: llm.stream.code\n", "      - ref: gen_ai.operation.name\n      - id: llm.stream.code\n", `attribute "gen_ai.operation.name": a registry. group only defines attributes; move the ref to a span`},
		"definition with a level":      {"        brief: The code.", "        brief: The code.\n        requirement_level: required", `attribute "llm.stream.code": a definition has no requirement_level; put it on the refs`},
		"unknown level":                {"requirement_level: required", "requirement_level: wanted", `requirement_level is "wanted"; use one of required, conditionally_required, recommended, opt_in`},
		"level without condition":      {"requirement_level: required", "requirement_level: conditionally_required", `conditionally_required has no condition; write conditionally_required: and the condition`},
		"name of OpenTelemetry":        {"id: llm.stream.code", "id: llm.taken", `attribute "llm.taken": OpenTelemetry 1.41.0 has it already; refer to OpenTelemetry's, or choose another name`},
		"name of another namespace":    {"id: llm.stream.code", "id: stream.code", `attribute "stream.code": its name is not one of this registry; use lower-case words with dots, beginning with llm.`},
		"name in capitals":             {"id: llm.stream.code", "id: llm.stream.Code", `attribute "llm.stream.Code": its name is not one of this registry`},
		"name is a namespace":          {"id: llm.stream.code", "id: llm.stream", `attribute "llm.stream": its name is the namespace of "llm.stream.end"; choose another name`},
		"unknown stability":            {"        stability: development\n        brief: The code.", "        stability: experimental\n        brief: The code.", `attribute "llm.stream.code": stability is "experimental"; use one of stable, development, alpha, beta, release_candidate`},
		"unknown type":                 {"type: double", "type: float", `attribute "llm.stream.gap": type is "float"; use one of string, int, double`},
		"no brief":                     {"        brief: The code.\n", "", `stream.yaml:23: attribute "llm.stream.code": brief is missing; add it`},
		"no examples":                  {"        examples: [1.5]\n", "", `attribute "llm.stream.gap": it has no examples; add at least one`},
		"no bound":                     {"        annotations: {otelllm: {max_bytes: 80}}\n", "", `attribute "llm.stream.code": a string has max_bytes, an array has both max_bytes and max_items, nothing else has either; correct annotations.otelllm`},
		"bound of an array":            {"{max_items: 64, max_bytes: 256}", "{max_bytes: 256}", `attribute "llm.stream.ids": a string has max_bytes, an array has both`},
		"bound of a number":            {"{unit: s}", "{unit: s, max_bytes: 8}", `attribute "llm.stream.gap": a string has max_bytes`},
		"bound not stated":             {"At most 80 bytes.", "Short.", `attribute "llm.stream.code": its note does not state its length; say "80 bytes" in it`},
		"entries not stated":           {"At most 64 entries of", "Entries of", `attribute "llm.stream.ids": its note does not state how many entries it may have; say "64 entries" in it`},
		"unit not stated":              {"In seconds.", "A time.", `attribute "llm.stream.gap": a double is a time in seconds; set unit: s and say "In seconds" in its note`},
		"enum without Go type":         {"        annotations: {otelllm: {go_type: StreamEnd}}\n", "", `attribute "llm.stream.end": go_type is ""; name the Go type of the enum in annotations.otelllm`},
		"Go type without enum":         {"{unit: s}", "{unit: s, go_type: Gap}", `attribute "llm.stream.gap": only an enum has go_type; remove it`},
		"value differs from id":        {"value: eof", "value: EOF", `stream.yaml:15: attribute "llm.stream.end": the member "eof" has the value "EOF"; use one lower_snake_case word as both id and value`},
		"value in capitals":            {"id: eof\n              value: eof", "id: Eof\n              value: Eof", `the member "Eof" has the value "Eof"; use one lower_snake_case word`},
		"value with a dot":             {"id: eof\n              value: eof", "id: e.of\n              value: e.of", `the member "e.of" has the value "e.of"; use one lower_snake_case word`},
		"member twice":                 {"id: read_error\n              value: read_error", "id: eof\n              value: eof", `the member "eof" occurs twice; keep one`},
		"member without brief":         {"              brief: The body ended.\n", "", `attribute "llm.stream.end": the brief of "eof" is missing; add it`},
		"member without stability":     {"              stability: development\n              brief: The body ended.", "              brief: The body ended.", `the stability of "eof" is ""; use one of stable`},
		"attribute on no span":         {"      - ref: llm.stream.gap\n", "", `attribute "llm.stream.gap": no span has it; refer to it from a span in spans.yaml, or remove it`},
		"event on no span":             {"    events: [event.llm.stream.finish]\n", "", `event "llm.stream.finish": no span has it; name it under the events of a span, or remove it`},
		"group type unknown":           {"type: event", "type: metric", `group "event.llm.stream.finish": type is "metric"; use one of attribute_group, span, event`},
		"group without stability":      {"    stability: development\n    brief: Facts.", "    brief: Facts.", `group "registry.llm.stream": stability is ""; use one of stable`},
		"span kind unknown":            {"span_kind: client", "span_kind: agent", `group "span.llm.request.client": span_kind is "agent"; use one of client, server`},
		"span id without kind":         {"id: span.llm.request.client", "id: span.llm.request", `group "span.llm.request": the id of a span group is span.<name>.<span_kind>; rename it`},
		"span without name":            {"    annotations: {otelllm: {span_name: \"chat {model}\"}}\n", "", `annotations.otelllm.span_name is missing; add it`},
		"event id":                     {"id: event.llm.stream.finish", "id: event.finish", `group "event.finish": the id of an event group is event.<name>; rename it`},
		"event name":                   {"    name: llm.stream.finish", "    name: finish", `group "event.llm.stream.finish": the event's name is "finish"; use lower-case words with dots, beginning with llm.`},
		"event unknown":                {"[event.llm.stream.finish]", "[event.llm.stream.start]", `group "span.llm.request.client": "event.llm.stream.start" is not an event; name the id of an event group`},
		"field of a span elsewhere":    {"    brief: It finished.", "    brief: It finished.\n    span_kind: client", `only a span has span_kind, events and span_name; remove them`},
		"field of an event elsewhere":  {"    brief: Facts.", "    brief: Facts.\n    name: llm.facts", `only an event has name and per_call; remove them`},
		"span that defines":            {"id: span.llm.request.client", "id: registry.llm.request.client", `only an attribute_group may define attributes; give it an id that does not begin with registry.`},
		"extends nothing":              {"    brief: A request.", "    brief: A request.\n    extends: attributes.none", `it extends "attributes.none", which is not a group; name a group of this registry`},
		"extends itself":               {"    brief: A request.", "    brief: A request.\n    extends: span.llm.request.client", `group "span.llm.request.client": it extends itself; break the circle`},
		"without a writer":             {"    annotations: {otelllm: {written_by: client}}\n    attributes", "    attributes", `annotations.otelllm.written_by is ""; use one of client, processor`},
		"note says another writer":     {"Written by the client.", "Written by the processor.", `group "registry.llm.stream": its note does not say who writes it; begin it with "Written by the client."`},
		"group without any attributes": {"  - id: event.llm.stream.finish\n", "  - id: attributes.none\n    type: attribute_group\n    stability: development\n    brief: None.\n  - id: event.llm.stream.finish\n", `group "attributes.none": it has neither attributes nor extends; give it one of them`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, 1, strings.Count(goodModel, test.old), "the test breaks more or less than one thing")
			err := loadAndCheck(goodManifest, strings.Replace(goodModel, test.old, test.new, 1))
			require.ErrorContains(t, err, test.want)
			for one := range strings.SplitSeq(err.Error(), "\n") {
				assert.Regexp(t, `^(stream|manifest)\.yaml:\d+: (attribute|group|event) |^stream\.yaml:\d+: (a group|the file)`, one)
			}
		})
	}
}

func TestSharedEnums(t *testing.T) {
	again := strings.ReplaceAll(`      - id: llm.stream.first_end
        stability: development
        brief: What ended it first.
        annotations: {otelllm: {go_type: StreamEnd}}
        type:
          members:
            - {id: eof, value: eof, stability: development, brief: BRIEF}
            - {id: read_error, value: read_error, stability: development, brief: Reading failed.}
      - id: llm.stream.code
`, "BRIEF", "The body ended.")
	model := strings.Replace(goodModel, "      - id: llm.stream.code\n", again, 1)
	model = strings.Replace(model, "      - ref: llm.stream.code\n", "      - ref: llm.stream.code\n      - ref: llm.stream.first_end\n", 1)
	require.NoError(t, loadAndCheck(goodManifest, model))

	const want = `attribute "llm.stream.first_end": its members are not those of "llm.stream.end", which has the same go_type; write the same members`
	for name, other := range map[string]string{
		"brief": strings.Replace(model, "brief: The body ended.}", "brief: It ended.}", 1),
		"value": strings.Replace(model, "{id: eof, value: eof,", "{id: end, value: end,", 1),
		"fewer": strings.Replace(model, "            - {id: eof, value: eof, stability: development, brief: The body ended.}\n", "", 1),
	} {
		t.Run(name, func(t *testing.T) {
			require.NotEqual(t, model, other)
			require.ErrorContains(t, loadAndCheck(goodManifest, other), want)
		})
	}
}

func TestGoNamesAreUnique(t *testing.T) {
	for name, model := range map[string]string{
		`attribute "llm.stream_code": its Go name StreamCodeKey is also that of attribute "llm.stream.code"; rename one of them`: strings.NewReplacer(
			"id: llm.stream.ids", "id: llm.stream_code", "ref: llm.stream.ids", "ref: llm.stream_code").Replace(goodModel),
		`enum StreamEnd member "unset": its Go name StreamEndUnset is also that of enum StreamEnd; rename one of them`: strings.ReplaceAll(goodModel, "read_error", "unset"),
		`attribute "llm.max.events": its Go name MaxEvents is also that of the bound of events; rename one of them`:    strings.ReplaceAll(goodModel, "llm.stream.gap", "llm.max.events"),
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, loadAndCheck(goodManifest, model), name)
		})
	}
}

func TestManifestProblems(t *testing.T) {
	for name, test := range map[string]struct{ old, new, want string }{
		"no version":        {"schemas/0.1.0", "schemas/new", `manifest.yaml:1: the manifest: schema_url is "https://example.com/schemas/new"; write https://host/path/1.2.3`},
		"other dependency":  {"schemas/1.41.0", "schemas/1.40.0", `manifest.yaml:1: the manifest: no dependency is OpenTelemetry's registry 1.41.0; add schema_url https://opentelemetry.io/schemas/1.41.0`},
		"other tag":         {"@v1.41.0", "@main", `the manifest: no dependency is OpenTelemetry's registry 1.41.0`},
		"unknown field":     {"dependencies:", "semconv_version: 1\ndependencies:", `manifest.yaml:2: the manifest: unknown field "semconv_version"; use one of schema_url`},
		"dependency's name": {"registry_path:", "name: otel\n    registry_path:", `a dependency: unknown field "name"; use one of schema_url, registry_path`},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, loadAndCheck(strings.Replace(goodManifest, test.old, test.new, 1), goodModel), test.want)
		})
	}
}

func TestLoadProblems(t *testing.T) {
	manifest := &fstest.MapFile{Data: []byte(goodManifest)}
	for name, test := range map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"no manifest": {fstest.MapFS{"a.yaml": {Data: []byte("groups: []")}}, "manifest.yaml is missing: a registry begins with it"},
		"no YAML":     {fstest.MapFS{"manifest.yaml": manifest, "a.yaml": {Data: []byte("groups: [")}}, "a.yaml is not valid YAML: yaml: line 1: "},
		"empty":       {fstest.MapFS{"manifest.yaml": manifest, "a.yaml": {Data: []byte("# nothing")}}, "a.yaml:1: the file: it is empty; put groups in it or remove it"},
		"a list":      {fstest.MapFS{"manifest.yaml": manifest, "a.yaml": {Data: []byte("- groups")}}, "a.yaml:1: the file: fields were expected here; write one of groups with its value"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(test.files)
			require.ErrorContains(t, err, test.want)
		})
	}
}

// All problems of all files are reported at once.
func TestAllProblemsAreReported(t *testing.T) {
	model := strings.NewReplacer("At most 80 bytes.", "Short.", "ref: gen_ai.operation.name", "ref: gen_ai.nothing", "type: double", "type: float").Replace(goodModel)
	err := loadAndCheck(goodManifest, model)
	var joined interface{ Unwrap() []error }
	require.ErrorAs(t, err, &joined)
	require.Len(t, joined.Unwrap(), 3)
	for _, one := range joined.Unwrap() {
		var p *problem
		require.ErrorAs(t, one, &p)
		assert.NotEmpty(t, p.at.file)
		assert.Positive(t, p.at.line)
		assert.NotEmpty(t, p.subject)
		assert.NotEmpty(t, p.do)
	}
}

// Any input gives a registry or an error, and a valid registry gives Go that parses.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(goodModel))
	f.Add([]byte("groups:\n  - &a\n    id: x\n    attributes: [*a]\n"))
	files, err := filepath.Glob(filepath.Join(semconvFolder, "model", "*.yaml"))
	require.NoError(f, err)
	for _, name := range files {
		content, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, model []byte) {
		reg, err := load(fstest.MapFS{"manifest.yaml": {Data: []byte(goodManifest)}, "stream.yaml": {Data: model}})
		if err != nil || reg.check(map[string]bool{"gen_ai.operation.name": true}) != nil {
			return
		}
		for _, write := range []func(*registry) []byte{goAttributes, goEnums, goEvents} {
			if _, err := gofmt(write(reg)); err != nil {
				t.Errorf("%v\n%s", err, write(reg))
			}
		}
		page(reg)
	})
}
