package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// These are the bounds of every string and array unless its definition says otherwise.
const (
	defaultMaxBytes = 256
	defaultMaxItems = 64
)

// maxEvents bounds the events of one span.
const maxEvents = 32

const (
	kindAttributes = "attribute_group"
	kindSpan       = "span"
	kindEvent      = "event"

	definePrefix = "registry." // of the groups that define attributes; all others refer to them
	ownNamespace = "llm."      // of everything that this registry defines
)

var (
	nameRule   = regexp.MustCompile(`^[a-z][a-z0-9]*([._][a-z0-9]+)*$`)
	valueRule  = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	goTypeRule = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	schemaRule = regexp.MustCompile(`^https?://[^/]+/.+/\d+\.\d+\.\d+$`)

	stabilities = []string{"stable", "development", "alpha", "beta", "release_candidate"}
	levels      = []string{"required", "conditionally_required", "recommended", "opt_in"}
	spanKinds   = []string{"client", "server", "producer", "consumer", "internal"}
	writers     = []string{"client", "processor"}
	types       = []string{"string", "int", "double", "boolean", "string[]", typeEnum}
)

// checker collects what is wrong in a registry.
type checker struct {
	reg      *registry
	standard map[string]bool // the attributes of OpenTelemetry
	own      map[string]*attribute
	problems []error
}

// check holds the registry against weaver's rules and the house's own, and
// reports every problem at once. standard are the attributes that references may
// name beside the registry's own.
func (r *registry) check(standard map[string]bool) error {
	c := &checker{reg: r, standard: standard, own: map[string]*attribute{}}
	for _, d := range r.definitions() {
		if first := c.own[d.id]; first != nil {
			c.fail(d.at, attributeSubject(d.attribute), fmt.Sprintf("it is defined at %s:%d already", first.at.file, first.at.line), "refer to it with ref instead")
			continue
		}
		c.own[d.id] = d.attribute
	}
	c.manifest()
	c.groups()
	for _, d := range r.definitions() {
		c.definition(d)
	}
	c.sharedEnums()
	c.coverage()
	if len(c.problems) == 0 { // Go names are only as good as what they are made of
		c.goNames()
	}
	return errors.Join(c.problems...)
}

func (c *checker) fail(at position, subject, what, do string) {
	c.problems = append(c.problems, &problem{at: at, subject: subject, what: what, do: do})
}

// oneOf fails where value is not among allowed.
func (c *checker) oneOf(at position, subject, field, value string, allowed []string) {
	if !slices.Contains(allowed, value) {
		c.fail(at, subject, fmt.Sprintf("%s is %q", field, value), "use one of "+strings.Join(allowed, ", "))
	}
}

// given fails where a required text is missing.
func (c *checker) given(at position, subject, field, value string) {
	if value == "" {
		c.fail(at, subject, field+" is missing", "add it")
	}
}

func attributeSubject(a *attribute) string { return fmt.Sprintf("attribute %q", a.name()) }

func (c *checker) manifest() {
	m := c.reg.manifest
	if !schemaRule.MatchString(m.schemaURL) {
		c.fail(m.at, "the manifest", fmt.Sprintf("schema_url is %q", m.schemaURL), "write https://host/path/1.2.3")
	}
	want := "https://opentelemetry.io/schemas/" + otelVersion
	for _, d := range m.dependencies {
		if d.schemaURL == want && strings.Contains(d.registryPath, "@v"+otelVersion+"[") {
			return
		}
	}
	c.fail(m.at, "the manifest", "no dependency is OpenTelemetry's registry "+otelVersion,
		"add schema_url "+want+" with a registry_path at the tag v"+otelVersion)
}

func (c *checker) groups() {
	seen := map[string]position{}
	for _, g := range c.reg.groups {
		subject := fmt.Sprintf("group %q", g.id)
		if first, twice := seen[g.id]; twice {
			c.fail(g.at, subject, fmt.Sprintf("its id is taken at %s:%d", first.file, first.line), "give it an id of its own")
		}
		seen[g.id] = g.at
		c.given(g.at, subject, "brief", g.brief)
		c.oneOf(g.at, subject, "stability", g.stability, stabilities)
		c.oneOf(g.at, subject, "type", g.kind, []string{kindAttributes, kindSpan, kindEvent})
		c.groupKind(g, subject)
		if g.extends != "" && c.reg.group(g.extends) == nil {
			c.fail(g.at, subject, fmt.Sprintf("it extends %q, which is no group", g.extends), "name a group of this registry")
		} else if cyclic(c.reg, g) {
			c.fail(g.at, subject, "it extends itself", "break the circle")
		}
		names := map[string]bool{}
		for _, a := range g.attributes {
			if names[a.name()] {
				c.fail(a.at, attributeSubject(a), "it is twice in its group", "keep one")
			}
			names[a.name()] = true
			c.member(g, a)
		}
	}
}

// cyclic reports whether following extends from g comes back to a group.
func cyclic(reg *registry, g *group) bool {
	seen := map[string]bool{}
	for ; g != nil; g = reg.group(g.extends) {
		if seen[g.id] {
			return true
		}
		seen[g.id] = true
	}
	return false
}

// groupKind checks what depends on the kind of a group.
func (c *checker) groupKind(g *group, subject string) {
	defines := strings.HasPrefix(g.id, definePrefix)
	switch {
	case defines && g.kind != kindAttributes:
		c.fail(g.at, subject, "only an attribute_group may define attributes", "give it an id that does not begin with "+definePrefix)
	case g.kind == kindSpan:
		c.oneOf(g.at, subject, "span_kind", g.spanKind, spanKinds)
		c.given(g.at, subject, "display_name", g.displayName)
		c.given(g.at, subject, "annotations.otelllm.span_name", g.spanName)
		if !strings.HasPrefix(g.id, "span.") || !strings.HasSuffix(g.id, "."+g.spanKind) {
			c.fail(g.at, subject, "the id of a span group is span.<name>.<span_kind>", "rename it")
		}
	case g.kind == kindEvent:
		if !nameRule.MatchString(g.name) || !strings.HasPrefix(g.name, ownNamespace) {
			c.fail(g.at, subject, fmt.Sprintf("the event's name is %q", g.name), "use lower-case words with dots, beginning with "+ownNamespace)
		}
		if g.id != "event."+g.name {
			c.fail(g.at, subject, "the id of an event group is event.<name>", "rename it")
		}
	}
	if g.kind != kindSpan && (g.spanKind != "" || len(g.events) > 0 || g.spanName != "") {
		c.fail(g.at, subject, "only a span has span_kind, events and span_name", "remove them")
	}
	if g.kind != kindEvent && (g.name != "" || g.perCall) {
		c.fail(g.at, subject, "only an event has name and per_call", "remove them")
	}
	if g.kind != kindEvent && g.extends == "" && len(g.attributes) == 0 {
		c.fail(g.at, subject, "it has neither attributes nor extends", "give it one of them")
	}
	if defines || g.kind == kindEvent {
		c.oneOf(g.at, subject, "annotations.otelllm.written_by", g.writtenBy, writers)
	}
	if defines && !strings.Contains(g.note, "Written by the "+g.writtenBy) {
		c.fail(g.at, subject, "its note does not say who writes it", fmt.Sprintf("begin it with %q", "Written by the "+g.writtenBy+"."))
	}
	for _, e := range g.events {
		if ev := c.reg.group(e.id); ev == nil || ev.kind != kindEvent {
			c.fail(e.at, subject, fmt.Sprintf("%q is no event", e.id), "name the id of an event group")
		}
	}
}

// member checks one attribute as a part of its group.
func (c *checker) member(g *group, a *attribute) {
	subject := attributeSubject(a)
	switch defines := strings.HasPrefix(g.id, definePrefix); {
	case (a.id == "") == (a.ref == ""):
		c.fail(a.at, subject, "an attribute is defined with id or referred to with ref", "give it exactly one of them")
		return
	case defines && a.id == "":
		c.fail(a.at, subject, "a "+definePrefix+" group only defines attributes", "move the ref to a span, an event or another group")
		return
	case !defines && a.ref == "":
		c.fail(a.at, subject, "attributes are defined in "+definePrefix+" groups only", "move the definition there and refer to it here")
		return
	case defines:
		if a.level != "recommended" || a.condition != "" {
			c.fail(a.at, subject, "a definition has no requirement_level", "put it on the refs")
		}
		return
	}
	if c.own[a.ref] == nil && !c.standard[a.ref] {
		c.fail(a.at, subject, "it is defined neither here nor in OpenTelemetry "+otelVersion, "correct its name, or define it in a "+definePrefix+" group")
	}
	if a.typ != "" || a.stability != "" || a.goType != "" || a.unit != "" || a.maxBytes+a.maxItems > 0 {
		c.fail(a.at, subject, "a ref has no type, stability, unit or bounds of its own", "remove them, they come from the definition")
	}
	c.oneOf(a.at, subject, "requirement_level", a.level, levels)
	if a.level == "conditionally_required" && a.condition == "" {
		c.fail(a.at, subject, "conditionally_required says no condition", "write conditionally_required: and the condition")
	}
}

// definition checks one defined attribute.
func (c *checker) definition(d definition) {
	a, subject := d.attribute, attributeSubject(d.attribute)
	if !nameRule.MatchString(a.id) || !strings.HasPrefix(a.id, ownNamespace) {
		c.fail(a.at, subject, "its name is not one of this registry", "use lower-case words with dots, beginning with "+ownNamespace)
	}
	if c.standard[a.id] {
		c.fail(a.at, subject, "OpenTelemetry "+otelVersion+" has it already", "refer to OpenTelemetry's, or choose another name")
	}
	for _, other := range c.reg.definitions() {
		if strings.HasPrefix(other.id, a.id+".") {
			c.fail(a.at, subject, fmt.Sprintf("its name is the namespace of %q", other.id), "choose another name, backends cannot store a value and a namespace under one name")
		}
	}
	c.given(a.at, subject, "brief", a.brief)
	c.oneOf(a.at, subject, "stability", a.stability, stabilities)
	c.oneOf(a.at, subject, "type", a.typ, types)
	c.bounds(a, subject)
	if a.typ == typeEnum {
		c.enum(a, subject)
		return
	}
	if a.goType != "" {
		c.fail(a.at, subject, "only an enum has go_type", "remove it")
	}
	if len(a.examples) == 0 {
		c.fail(a.at, subject, "it has no examples", "add at least one")
	}
}

// bounds checks that what can be large says how large it may be, to programs in
// its annotations and to readers in its note.
func (c *checker) bounds(a *attribute, subject string) {
	text, array := strings.HasPrefix(a.typ, "string"), strings.HasSuffix(a.typ, "[]")
	if text != (a.maxBytes > 0) || array != (a.maxItems > 0) {
		c.fail(a.at, subject, "a string has max_bytes, an array has both max_bytes and max_items, nothing else has either",
			"correct annotations.otelllm")
		return
	}
	if text && !strings.Contains(a.note, fmt.Sprintf("%d bytes", a.maxBytes)) {
		c.fail(a.at, subject, "its note does not state its length", fmt.Sprintf("say %q in it", fmt.Sprintf("%d bytes", a.maxBytes)))
	}
	if array && !strings.Contains(a.note, fmt.Sprintf("%d entries", a.maxItems)) {
		c.fail(a.at, subject, "its note does not state how many entries it may have", fmt.Sprintf("say %q in it", fmt.Sprintf("%d entries", a.maxItems)))
	}
	if a.typ == "double" && (a.unit != "s" || !strings.Contains(a.note, "In seconds")) {
		c.fail(a.at, subject, "a double is a time in seconds", `set unit: s and say "In seconds" in its note`)
	}
}

func (c *checker) enum(a *attribute, subject string) {
	if !goTypeRule.MatchString(a.goType) {
		c.fail(a.at, subject, fmt.Sprintf("go_type is %q", a.goType), "name the Go type of the enum in annotations.otelllm")
	}
	if len(a.members) == 0 || len(a.members) > 254 {
		c.fail(a.at, subject, fmt.Sprintf("an enum has between 1 and 254 members, not %d", len(a.members)), "add or remove members")
	}
	seen := map[string]bool{}
	for _, m := range a.members {
		if !valueRule.MatchString(m.id) || m.value != m.id {
			c.fail(m.at, subject, fmt.Sprintf("the member %q has the value %q", m.id, m.value), "use one lower_snake_case word as both id and value")
		}
		if seen[m.id] {
			c.fail(m.at, subject, fmt.Sprintf("the member %q is there twice", m.id), "keep one")
		}
		seen[m.id] = true
		c.given(m.at, subject, fmt.Sprintf("the brief of %q", m.id), m.brief)
		c.oneOf(m.at, subject, fmt.Sprintf("the stability of %q", m.id), m.stability, stabilities)
	}
}

// sharedEnums checks that attributes of one Go type have the same members: the
// registry's schema has no way of saying it once.
func (c *checker) sharedEnums() {
	for _, e := range c.reg.enums() {
		for _, a := range e.attributes[1:] {
			same := slices.EqualFunc(a.members, e.members, func(m, n member) bool {
				return m.value == n.value && m.brief == n.brief && m.stability == n.stability
			})
			if !same {
				c.fail(a.at, attributeSubject(a), fmt.Sprintf("its members are not those of %q, which has the same go_type", e.attributes[0].id),
					"write the same members with the same briefs in the same order, or give it a go_type of its own")
			}
		}
	}
}

// coverage checks that everything defined is used by some span, so that the
// reference page shows it.
func (c *checker) coverage() {
	used := map[string]bool{}
	for _, g := range c.reg.groups {
		for _, a := range g.attributes {
			used[a.ref] = true
		}
		for _, e := range g.events {
			used[e.id] = true
		}
	}
	for _, d := range c.reg.definitions() {
		if !used[d.id] {
			c.fail(d.at, attributeSubject(d.attribute), "no span has it", "refer to it from a span in spans.yaml, or remove it")
		}
	}
	for _, g := range c.reg.ofKind(kindEvent) {
		if !used[g.id] {
			c.fail(g.at, fmt.Sprintf("event %q", g.name), "no span has it", "name it under the events of a span, or remove it")
		}
	}
}

// goNames checks that no two things get the same Go name.
func (c *checker) goNames() {
	taken := map[string]string{}
	for _, n := range identifiers(c.reg) {
		if first, twice := taken[n.name]; twice {
			c.fail(n.at, n.of, fmt.Sprintf("its Go name %s is also that of %s", n.name, first), "rename one of them")
			continue
		}
		taken[n.name] = n.of
	}
}
