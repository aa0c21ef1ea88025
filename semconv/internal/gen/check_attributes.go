package main

import (
	"fmt"
	"slices"
	"strings"
)

// member checks one attribute as a member of its group.
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
		c.fail(a.at, subject, "conditionally_required has no condition", "write conditionally_required: and the condition")
	}
}

// definition checks the definition of one attribute.
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

// bounds checks that strings and arrays state their bounds, in the annotations for
// programs and in the note for readers.
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
			c.fail(m.at, subject, fmt.Sprintf("the member %q occurs twice", m.id), "keep one")
		}
		seen[m.id] = true
		c.given(m.at, subject, fmt.Sprintf("the brief of %q", m.id), m.brief)
		c.oneOf(m.at, subject, fmt.Sprintf("the stability of %q", m.id), m.stability, stabilities)
	}
}

// sharedEnums checks that attributes with the same Go type have the same members: the
// registry's schema cannot define them once.
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
