package main

import "fmt"

// registry is the whole model: its manifest and its groups, in the order of the
// file names and then of the files.
type registry struct {
	manifest manifest
	groups   []*group
}

// manifest names the registry and the registries that it refers to.
type manifest struct {
	at           position
	schemaURL    string
	dependencies []dependency
}

type dependency struct {
	at                      position
	schemaURL, registryPath string
}

// group is one group of the registry. Which fields it has depends on its kind.
type group struct {
	at                     position
	id, kind               string // kind is attribute_group, span or event
	brief, note, stability string
	displayName, extends   string
	spanKind, name         string // of a span; of an event
	events                 []reference
	attributes             []*attribute
	writtenBy              string // client or processor: on groups that define attributes, and on events
	spanName               string // a literal, or a pattern with {placeholders}
	section, perCall       bool   // shown as a section of its own; an event that recurs
}

// attribute is a definition (id) or a reference to one (ref).
type attribute struct {
	at                     position
	id, ref                string
	typ                    string // enum where members are given
	members                []member
	brief, note, stability string
	examples               []string
	level, condition       string // requirement level, and its condition

	goType             string // the Go enum
	unit               string
	maxBytes, maxItems int
}

// name is the attribute's name, whether it is defined or referred to here.
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

// problem is something wrong in the model: where, in what, what it is and what
// to do about it.
type problem struct {
	at                position
	subject, what, do string
}

func (p *problem) Error() string {
	return fmt.Sprintf("%s:%d: %s: %s; %s", p.at.file, p.at.line, p.subject, p.what, p.do)
}

// definitions are the attributes defined in the registry, in its order, each
// with its group.
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

// enums are the distinct Go enums in the order of their first attribute.
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

// enum is one Go type with the attributes that hold it.
type enum struct {
	goType     string
	members    []member
	attributes []*attribute
}

// ofKind are the groups of one kind, in order.
func (r *registry) ofKind(kind string) []*group {
	var all []*group
	for _, g := range r.groups {
		if g.kind == kind {
			all = append(all, g)
		}
	}
	return all
}

// group finds a group by its id, or nil.
func (r *registry) group(id string) *group {
	for _, g := range r.groups {
		if g.id == id {
			return g
		}
	}
	return nil
}
