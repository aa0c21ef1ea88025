package main

import "fmt"

// registry is the whole model: its manifest and its groups, in the order of the file names
// and of the groups in each file.
type registry struct {
	manifest manifest
	groups   []*group
}

// manifest identifies the registry and the registries that it refers to.
type manifest struct {
	at           position
	schemaURL    string
	dependencies []dependency
}

type dependency struct {
	at                      position
	schemaURL, registryPath string
}

// group is one group of the registry. Its kind determines which fields it has.
type group struct {
	at                     position
	id, kind               string // attribute_group, span or event
	brief, note, stability string
	displayName, extends   string
	spanKind, name         string // of a span; of an event
	events                 []reference
	attributes             []*attribute
	writtenBy              string // client or processor; only for groups that define attributes, and for events
	spanName               string // a literal, or a pattern with {placeholders}
	section, perCall       bool   // whether it has its own section; whether an event recurs
}

// attribute is a definition (id) or a reference to one (ref).
type attribute struct {
	at                     position
	id, ref                string
	typ                    string // enum if it has members
	members                []member
	brief, note, stability string
	examples               []string
	level, condition       string // requirement level, and its condition

	goType             string // the Go type of an enum
	unit               string
	maxBytes, maxItems int
}

// name returns the attribute's name, whether it is defined or referred to here.
func (a *attribute) name() string {
	if a.ref != "" {
		return a.ref
	}
	return a.id
}

type member struct {
	at                          position
	id, value, brief, stability string
}

type reference struct {
	at position
	id string
}

// position is a place in the model.
type position struct {
	file string
	line int
}

// problem is a problem in the model: its position, the subject, what is wrong and what to
// do about it.
type problem struct {
	at                position
	subject, what, do string
}

func (p *problem) Error() string {
	return fmt.Sprintf("%s:%d: %s: %s; %s", p.at.file, p.at.line, p.subject, p.what, p.do)
}

// definitions returns the attributes that the registry defines, in its order, each with
// its group.
func (r *registry) definitions() []definition {
	var all []definition
	for _, g := range r.groups {
		for _, a := range g.attributes {
			if a.id != "" {
				all = append(all, definition{attribute: a, group: g})
			}
		}
	}
	return all
}

type definition struct {
	*attribute
	group *group
}

// enums returns the distinct Go enums in the order of their first attribute.
func (r *registry) enums() []enum {
	var all []enum
	at := map[string]int{}
	for _, d := range r.definitions() {
		if d.typ != typeEnum {
			continue
		}
		if i, seen := at[d.goType]; seen {
			all[i].attributes = append(all[i].attributes, d.attribute)
			continue
		}
		at[d.goType] = len(all)
		all = append(all, enum{goType: d.goType, members: d.members, attributes: []*attribute{d.attribute}})
	}
	return all
}

// enum is one Go type with the attributes that use it.
type enum struct {
	goType     string
	members    []member
	attributes []*attribute
}

// ofKind returns the groups of one kind, in order.
func (r *registry) ofKind(kind string) []*group {
	var all []*group
	for _, g := range r.groups {
		if g.kind == kind {
			all = append(all, g)
		}
	}
	return all
}

// group returns the group with this id, or nil.
func (r *registry) group(id string) *group {
	for _, g := range r.groups {
		if g.id == id {
			return g
		}
	}
	return nil
}
