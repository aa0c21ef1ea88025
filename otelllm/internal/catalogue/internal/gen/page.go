package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/otelllm/otelllm-go/otelllm/internal/catalogue/source"
)

const pageTop = `<!-- Generated from otelllm/internal/catalogue by make generate. Do not edit. -->

# Errors of providers, and what they mean

Whether an error passes within minutes or never is in its code, its words or its status. This page lists what this project
knows: %d errors of %d providers and gateways, and %d finish reasons. Each entry has a source, and a test that reads a body of
it: the one in the source or, where that shows none, its code and words in the form of an OpenAI error. [How to add](../development/how-to-add.md) says how to add one.

What decides, in this order: a specific code; a phrase in the message; a type, or a code that a phrase refines; a status that names a
cause, or the 4xx that the message of a 5xx, or of an error without a status, quotes; a code or a type that names a family of errors
(` + "`invalid_request_error`" + `); any status. The message is searched in memory,
its first 4 KiB; no part of it is recorded. A wait of more than 10 minutes, in a header, in the body or in the message, turns
` + "`rate_limited`" + ` into ` + "`quota_exhausted`" + `. Who sends an error does not decide, because gateways pass on the errors of others, except for words that mean something else
elsewhere: then the row names the host.

` + "`llm.provider_error.kind`" + ` has the kind. The kinds ` + "`rate_limited`, `overloaded`, `server_error` and `timeout`" + ` pass: whether the
request may be repeated is then a question of what it had already done. For a refused history ` + "`llm.provider_error.history`" + ` says
what is wrong with it. "In front" are errors of a server in front of the provider (` + "`llm.provider_error.intermediary`" + `).
So are all errors of the types ` + "`new_api_error` and `one_api_error`" + `, which these gateways write for errors of their own.

`

// page returns the reference page.
func page(entries []source.Entry, finishes []source.FinishReason, periods *source.Periods) []byte {
	by := map[string][]source.Entry{}
	for _, e := range entries {
		by[e.Provider] = append(by[e.Provider], e)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, pageTop, len(entries), len(by)-1, len(finishes))
	writePeriods(&b, periods)
	for _, provider := range source.Providers {
		list := by[provider]
		if len(list) == 0 {
			continue
		}
		slices.SortStableFunc(list, func(a, b source.Entry) int { return strings.Compare(a.ID, b.ID) })
		title := provider
		if provider == "any" {
			title = "any provider or gateway"
		}
		fmt.Fprintf(&b, "## %s\n\n| status | code or type | words | kind | passes | source |\n|---|---|---|---|---|---|\n", title)
		for i := range list {
			b.WriteString(row(&list[i]))
		}
		b.WriteString("\n")
	}
	b.WriteString("## Finish reasons\n\n| protocol | reason | means | source |\n|---|---|---|---|\n")
	for _, f := range finishes {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.Protocol, code(f.Reason), strings.ReplaceAll(f.Means, "_", " "), link(f.Source))
	}
	return b.Bytes()
}

// writePeriods writes the section about limits of a long period.
func writePeriods(b *bytes.Buffer, p *source.Periods) {
	b.WriteString(periodsTop)
	for _, list := range [...]struct {
		title string
		words []string
	}{
		{"long periods", p.Long},
		{"short periods", p.Short},
		{"what is limited", p.Limits},
		{"what is counted", p.Counted},
		{"what says that there is no more", p.Spent},
		{"what has such a limit", p.Owners},
	} {
		words := make([]string, len(list.words))
		for i, word := range list.words {
			words[i] = code(word)
		}
		fmt.Fprintf(b, "- %s: %s\n", list.title, strings.Join(words, " "))
	}
	b.WriteString("\n")
}

const periodsTop = `## Limits of a long period

A limit of hours, days or a billing cycle does not pass within minutes, in whatever words it is said. A message that has no phrase
of this page is ` + "`quota_exhausted`" + ` if the first period in it that stands near what is limited, in the same sentence, is a long one;
or if no period does, and what has such a limit stands directly before what is limited. What is counted is as good as what is
limited if the message says that there is no more of it. So is a code of such words (` + "`user_weekly_rate_limited`" + `). A wait of at most 10 minutes outweighs the words of a message. # is a number.

`

func row(e *source.Entry) string {
	var statuses []string
	if e.Status != 0 {
		statuses = append(statuses, strconv.Itoa(e.Status))
	}
	if e.InBand || e.Status == 0 {
		statuses = append(statuses, "in a 200")
	}
	var names []string
	for _, name := range [...]string{e.Code, e.Type} {
		if name != "" && !slices.Contains(names, code(name)) {
			names = append(names, code(name))
		}
	}
	kind := e.ProviderErrorKind().String()
	if e.History != "" {
		kind = "history: " + e.History
	}
	if e.Intermediary {
		kind += ", in front"
	}
	passes := "no"
	if e.Passes {
		passes = "yes"
	}
	if e.Wait != "" {
		passes += ", the wait is in the " + e.Wait
	}
	words := ""
	if e.Phrase != "" {
		words = code(e.Phrase)
	}
	if e.By == "period" {
		words = "a limit of a long period"
	}
	if e.Host != "" {
		words += ", from " + code(e.Host)
	}
	if e.BrokenInput {
		words += ", if the history has a call whose input is not JSON"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", strings.Join(statuses, ", "), strings.Join(names, " "), words, kind, passes, link(e.Source))
}

// code returns s as code in a table.
func code(s string) string {
	if strings.Contains(s, "`") {
		s = strings.ReplaceAll(s, "`", "'")
	}
	return "`" + strings.ReplaceAll(s, "|", `\|`) + "`"
}

// link returns a source as a link where it is an address, and as code elsewhere.
func link(s string) string {
	if strings.HasPrefix(s, "https://") && !strings.Contains(s, " ") {
		return "<" + s + ">"
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "|", `\|`), "<", "&lt;")
}
