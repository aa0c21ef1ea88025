package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The default bounds of every string and array.
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

	definePrefix = "registry." // prefix of groups that define attributes; all other groups refer to them
	ownNamespace = "llm."      // namespace of everything that this registry defines
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

// checker collects the problems of a registry.
type checker struct {
	reg      *registry
	standard map[string]bool // OpenTelemetry's attributes
	own      map[string]*attribute
	problems []error
}

// check checks the registry against weaver's rules and the project's own, and reports all
// problems at once. standard are the attributes outside this registry that references may
// name.
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
	if len(c.problems) == 0 { // Go names are valid only if the names that they are made of are
		c.goNames()
	}
	return errors.Join(c.problems...)
}

func (c *checker) fail(at position, subject, what, do string) {
	c.problems = append(c.problems, &problem{at: at, subject: subject, what: what, do: do})
}

// oneOf reports a problem if value is not one of allowed.
func (c *checker) oneOf(at position, subject, field, value string, allowed []string) {
	if !slices.Contains(allowed, value) {
		c.fail(at, subject, fmt.Sprintf("%s is %q", field, value), "use one of "+strings.Join(allowed, ", "))
	}
}

// given reports a problem if a required text is missing.
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
			c.fail(g.at, subject, fmt.Sprintf("it extends %q, which is not a group", g.extends), "name a group of this registry")
		} else if cyclic(c.reg, g) {
			c.fail(g.at, subject, "it extends itself", "break the circle")
		}
		names := map[string]bool{}
		for _, a := range g.attributes {
			if names[a.name()] {
				c.fail(a.at, attributeSubject(a), "it occurs twice in its group", "keep one")
			}
			names[a.name()] = true
			c.member(g, a)
		}
	}
}

// cyclic reports whether following extends from g reaches a group twice.
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

// groupKind checks the rules that depend on the kind of a group.
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
			c.fail(e.at, subject, fmt.Sprintf("%q is not an event", e.id), "name the id of an event group")
		}
	}
}

// coverage checks that a span uses everything that is defined, so that the reference page
// shows it.
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

// goNames checks that all generated Go names are unique.
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
