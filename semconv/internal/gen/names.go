package main

import (
	"fmt"
	"strings"
)

// initialisms are the words that Go names write in capitals.
var initialisms = map[string]string{
	"id": "ID", "ids": "IDs", "dns": "DNS", "tls": "TLS", "eof": "EOF", "http": "HTTP", "h2": "H2", "url": "URL",
}

// goName returns the Go form of a name in the vocabulary: llm.stream.tool_call_ids becomes
// StreamToolCallIDs, clean_eof becomes CleanEOF.
func goName(name string) string {
	var b strings.Builder
	for word := range strings.FieldsFuncSeq(strings.TrimPrefix(name, ownNamespace), func(r rune) bool { return r == '.' || r == '_' }) {
		if w, ok := initialisms[word]; ok {
			b.WriteString(w)
			continue
		}
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

func keyName(a *attribute) string { return goName(a.id) + "Key" }

// constructorName returns the name of the function that makes the attribute. It ends in
// Attr if the attribute's enum has the plain name, or if the plain name is that of another
// attribute's key.
func constructorName(a *attribute) string {
	name := goName(a.id)
	if name == a.goType || strings.HasSuffix(name, "Key") {
		name += "Attr"
	}
	return name
}

func eventName(g *group) string { return "Event" + goName(g.name) }

// fixedSpanName returns the name of a span whose name is always the same.
func fixedSpanName(g *group) (string, bool) {
	return "Span" + goName(g.spanName), g.kind == kindSpan && nameRule.MatchString(g.spanName)
}

// identifier is one exported Go name with what it identifies.
type identifier struct {
	name, of string
	at       position
}

// identifiers returns all exported Go names that are generated.
func identifiers(reg *registry) []identifier {
	all := []identifier{
		{name: "DefaultMaxBytes", of: "the default bound of strings", at: reg.manifest.at},
		{name: "DefaultMaxItems", of: "the default bound of arrays", at: reg.manifest.at},
		{name: "MaxEvents", of: "the bound of events", at: reg.manifest.at},
	}
	add := func(at position, of string, names ...string) {
		for _, n := range names {
			all = append(all, identifier{name: n, of: of, at: at})
		}
	}
	for _, d := range reg.definitions() {
		of := attributeSubject(d.attribute)
		add(d.at, of, keyName(d.attribute), constructorName(d.attribute))
		for _, b := range bounds(d.attribute) {
			add(d.at, of, b.name)
		}
	}
	for _, e := range reg.enums() {
		of, at := "enum "+e.goType, e.attributes[0].at
		add(at, of, e.goType, e.goType+"Unset", "Parse"+e.goType, e.goType+"Values")
		for _, m := range e.members {
			add(m.at, fmt.Sprintf("%s member %q", of, m.value), e.goType+goName(m.value))
		}
	}
	for _, g := range reg.ofKind(kindEvent) {
		add(g.at, fmt.Sprintf("event %q", g.name), eventName(g))
	}
	for _, g := range reg.ofKind(kindSpan) {
		if name, ok := fixedSpanName(g); ok {
			add(g.at, fmt.Sprintf("span %q", g.id), name)
		}
	}
	return all
}

// bound is a bound that differs from the default.
type bound struct {
	name, unit string
	value      int
}

// bounds returns the bounds of an attribute that need their own name.
func bounds(a *attribute) []bound {
	var all []bound
	if a.maxBytes > 0 && a.maxBytes != defaultMaxBytes {
		all = append(all, bound{name: goName(a.id) + "MaxBytes", unit: "bytes", value: a.maxBytes})
	}
	if a.maxItems > 0 && a.maxItems != defaultMaxItems {
		all = append(all, bound{name: goName(a.id) + "MaxItems", unit: "entries", value: a.maxItems})
	}
	return all
}
