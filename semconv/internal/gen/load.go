package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	manifestFile = "manifest.yaml"
	typeEnum     = "enum"
)

// load reads manifest.yaml and all other *.yaml files of a folder. It is as strict as
// weaver: an unknown field is an error. It reports the problems of all files together.
func load(model fs.FS) (*registry, error) {
	names, err := fs.Glob(model, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("cannot list the registry's files: %w", err)
	}
	if !slices.Contains(names, manifestFile) {
		return nil, fmt.Errorf("%s is missing: a registry begins with it", manifestFile)
	}
	reg := &registry{}
	var problems []error
	for _, name := range names {
		content, err := fs.ReadFile(model, name)
		if err != nil {
			return nil, fmt.Errorf("cannot read the registry: %w", err)
		}
		var doc yaml.Node
		if err := yaml.Unmarshal(content, &doc); err != nil {
			problems = append(problems, fmt.Errorf("%s is not valid YAML: %w", name, err))
			continue
		}
		r := &reader{file: path.Base(name)}
		switch {
		case doc.Kind == 0:
			r.fail(&yaml.Node{Line: 1}, "the file", "it is empty", "put groups in it or remove it")
		case name == manifestFile:
			reg.manifest = r.manifest(doc.Content[0])
		default:
			reg.groups = append(reg.groups, r.groups(doc.Content[0])...)
		}
		problems = append(problems, r.problems...)
	}
	return reg, errors.Join(problems...)
}

// reader converts the YAML nodes of one file to the model and collects problems.
type reader struct {
	file     string
	problems []error
}

func (r *reader) at(n *yaml.Node) position { return position{file: r.file, line: n.Line} }

func (r *reader) fail(n *yaml.Node, subject, what, do string) {
	r.problems = append(r.problems, &problem{at: r.at(n), subject: subject, what: what, do: do})
}

func (r *reader) manifest(n *yaml.Node) manifest {
	const subject = "the manifest"
	f := r.fields(n, subject, "schema_url", "description", "stability", "dependencies")
	m := manifest{at: r.at(n), schemaURL: r.text(f["schema_url"], subject, "schema_url")}
	r.text(f["description"], subject, "description")
	r.text(f["stability"], subject, "stability")
	for _, d := range r.list(f["dependencies"], subject, "dependencies") {
		f := r.fields(d, "a dependency", "schema_url", "registry_path")
		m.dependencies = append(m.dependencies, dependency{
			at:           r.at(d),
			schemaURL:    r.text(f["schema_url"], "a dependency", "schema_url"),
			registryPath: r.text(f["registry_path"], "a dependency", "registry_path"),
		})
	}
	return m
}

func (r *reader) groups(n *yaml.Node) []*group {
	f := r.fields(n, "the file", "groups")
	var all []*group
	for _, g := range r.list(f["groups"], "the file", "groups") {
		all = append(all, r.group(g))
	}
	return all
}

func (r *reader) group(n *yaml.Node) *group {
	subject := r.subject(n, "group", "id")
	f := r.fields(n, subject, "id", "type", "brief", "note", "stability", "display_name", "extends",
		"span_kind", "name", "events", "attributes", "annotations")
	text := func(field string) string { return r.text(f[field], subject, field) }
	g := &group{
		at: r.at(n), id: text("id"), kind: text("type"),
		brief: text("brief"), note: text("note"), stability: text("stability"),
		displayName: text("display_name"), extends: text("extends"), spanKind: text("span_kind"), name: text("name"),
	}
	for _, e := range r.list(f["events"], subject, "events") {
		g.events = append(g.events, reference{at: r.at(e), id: r.text(e, subject, "events")})
	}
	for _, a := range r.list(f["attributes"], subject, "attributes") {
		g.attributes = append(g.attributes, r.attribute(a))
	}
	own := r.own(f["annotations"], subject, "written_by", "span_name", "section", "per_call")
	g.writtenBy = r.text(own["written_by"], subject, "written_by")
	g.spanName = r.text(own["span_name"], subject, "span_name")
	g.section = r.flag(own["section"], subject, "section")
	g.perCall = r.flag(own["per_call"], subject, "per_call")
	return g
}

func (r *reader) attribute(n *yaml.Node) *attribute {
	subject := r.subject(n, "attribute", "id", "ref")
	f := r.fields(n, subject, "id", "ref", "type", "brief", "note", "stability", "examples", "requirement_level", "annotations")
	text := func(field string) string { return r.text(f[field], subject, field) }
	a := &attribute{
		at: r.at(n), id: text("id"), ref: text("ref"),
		brief: text("brief"), note: text("note"), stability: text("stability"),
	}
	if t := f["type"]; t != nil && t.Kind == yaml.MappingNode {
		a.typ = typeEnum
		for _, m := range r.list(r.fields(t, subject, "members")["members"], subject, "members") {
			a.members = append(a.members, r.member(m, subject))
		}
	} else {
		a.typ = text("type")
	}
	if e := f["examples"]; e != nil {
		a.examples = r.examples(e, subject, a.typ)
	}
	a.level, a.condition = r.level(f["requirement_level"], subject)
	own := r.own(f["annotations"], subject, "go_type", "unit", "max_bytes", "max_items")
	a.goType = r.text(own["go_type"], subject, "go_type")
	a.unit = r.text(own["unit"], subject, "unit")
	a.maxBytes = r.count(own["max_bytes"], subject, "max_bytes")
	a.maxItems = r.count(own["max_items"], subject, "max_items")
	return a
}

func (r *reader) member(n *yaml.Node, subject string) member {
	f := r.fields(n, subject, "id", "value", "brief", "stability")
	text := func(field string) string { return r.text(f[field], subject, field) }
	return member{at: r.at(n), id: text("id"), value: text("value"), brief: text("brief"), stability: text("stability")}
}

// examples reads one example or a list of examples of the attribute's type. An example of
// an array type is itself a list.
func (r *reader) examples(n *yaml.Node, subject, typ string) []string {
	if n.Kind != yaml.SequenceNode {
		n = &yaml.Node{Kind: yaml.SequenceNode, Line: n.Line, Content: []*yaml.Node{n}}
	}
	element, array := strings.CutSuffix(typ, "[]")
	tag := map[string]string{"string": "!!str", "int": "!!int", "double": "!!float", "boolean": "!!bool"}[element]
	var all []string
	for _, e := range n.Content {
		values := []*yaml.Node{e}
		if array {
			values = e.Content
		}
		if array != (e.Kind == yaml.SequenceNode) || len(values) == 0 || e.Kind == yaml.MappingNode {
			r.fail(e, subject, "an example is not of type "+typ, "write examples as a list of "+typ+" values")
			continue
		}
		texts := make([]string, 0, len(values))
		for _, v := range values {
			if tag != "" && v.ShortTag() != tag {
				r.fail(v, subject, fmt.Sprintf("the example %q is not of type %s", v.Value, element), "give an example of the attribute's type")
			}
			texts = append(texts, v.Value)
		}
		all = append(all, strings.Join(texts, ", "))
	}
	return all
}

// level reads a requirement level: its name, or its name with a condition.
func (r *reader) level(n *yaml.Node, subject string) (level, condition string) {
	switch {
	case n == nil:
		return "recommended", ""
	case n.Kind == yaml.ScalarNode:
		return r.text(n, subject, "requirement_level"), ""
	}
	f := r.fields(n, subject, "conditionally_required", "recommended", "opt_in")
	if len(f) != 1 {
		r.fail(n, subject, "requirement_level has not exactly one level", "give one of conditionally_required, recommended, opt_in")
	}
	for level, c := range f {
		return level, r.text(c, subject, level)
	}
	return "", ""
}

// own reads the annotations. This registry uses one: otelllm.
func (r *reader) own(n *yaml.Node, subject string, known ...string) map[string]*yaml.Node {
	if n == nil {
		return nil
	}
	o := r.fields(n, subject, "otelllm")["otelllm"]
	if o == nil {
		return nil
	}
	return r.fields(o, subject, known...)
}

// subject returns the name of what a node describes, for the problems inside it.
func (r *reader) subject(n *yaml.Node, what string, fields ...string) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if slices.Contains(fields, n.Content[i].Value) {
			return what + " " + strconv.Quote(n.Content[i+1].Value)
		}
	}
	return "a " + what + " without " + strings.Join(fields, " or ")
}

// fields returns the fields of a mapping. Unknown and repeated fields are problems.
func (r *reader) fields(n *yaml.Node, subject string, known ...string) map[string]*yaml.Node {
	if n.Kind != yaml.MappingNode {
		r.fail(n, subject, "fields were expected here", "write one of "+strings.Join(known, ", ")+" with its value")
		return nil
	}
	all := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case !slices.Contains(known, key.Value):
			r.fail(key, subject, fmt.Sprintf("unknown field %q", key.Value), "use one of "+strings.Join(known, ", "))
		case all[key.Value] != nil:
			r.fail(key, subject, fmt.Sprintf("the field %q occurs twice", key.Value), "keep one")
		case value.Kind == yaml.AliasNode:
			r.fail(value, subject, fmt.Sprintf("the field %q is an alias", key.Value), "write the value out, not every YAML reader resolves aliases")
		default:
			all[key.Value] = value
		}
	}
	return all
}

func (r *reader) list(n *yaml.Node, subject, field string) []*yaml.Node {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.fail(n, subject, field+" is not a list", "write each entry on a line of its own after a dash")
		return nil
	}
	return n.Content
}

func (r *reader) text(n *yaml.Node, subject, field string) string {
	if n == nil {
		return ""
	}
	if n.ShortTag() != "!!str" {
		r.fail(n, subject, field+" is not a text", "write it as one text, in quotes where YAML needs them")
		return ""
	}
	return strings.TrimSpace(n.Value)
}

func (r *reader) flag(n *yaml.Node, subject, field string) bool {
	if n == nil {
		return false
	}
	var v bool
	if err := n.Decode(&v); err != nil {
		r.fail(n, subject, field+" is neither true nor false", "write true, or leave it out")
	}
	return v
}

func (r *reader) count(n *yaml.Node, subject, field string) int {
	if n == nil {
		return 0
	}
	var v int
	if err := n.Decode(&v); err != nil || v <= 0 {
		r.fail(n, subject, field+" is not a positive number", "write how many may be there at most")
		return 0
	}
	return v
}
