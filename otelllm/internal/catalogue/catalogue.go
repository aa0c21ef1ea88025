// Package catalogue knows what the errors and the finish reasons of model providers, and of
// what stands in front of them, mean. The knowledge is data: errors.yaml, finish.yaml and
// intermediaries.yaml, from which the tables of this package, and of the helpers for Node and
// for Python, are generated. docs/reference/provider-errors.md lists it.
//
// The package is pure. It looks at codes, at a status and, with [FindPhrases], at the words of
// a message; of a message it keeps nothing but which phrases of the catalogue are in it.
package catalogue

//go:generate go run ./internal/gen

import (
	"strconv"
	"strings"
	"time"

	"github.com/otelllm/otelllm-go/semconv"
)

// Error is what is known about one error.
type Error struct {
	// Status is that of the HTTP response. If it is below 400, the status that is named in
	// the error itself counts: see Own and Names.
	Status int
	// Own is the HTTP status that the error itself names; 0: none.
	Own int
	// Names are the error's code, and after it its type and other names, as they were sent.
	// An empty or very long one is ignored. A name that is an HTTP status in digits is read
	// as Own.
	Names []string
	// Phrases are the phrases in its message.
	Phrases Phrases
	// Quoted is the HTTP status of the error that its message quotes; 0: none.
	Quoted int
	// Wait is how long the provider asks to wait; 0: it does not.
	Wait time.Duration
	// Request is what is known about the request that failed.
	Request Request
}

// Request is what an error may depend on of the request that failed.
type Request struct {
	// Host is the name of the server, without a port; "": not known.
	Host string
	// BrokenInput: the history has a call whose input is a text that is not JSON.
	BrokenInput bool
}

// Verdict is what an error means.
type Verdict struct {
	// Kind is never unset. It is unknown if nothing in the catalogue fits and there is no
	// error status.
	Kind semconv.ProviderErrorKind
	// History is what is wrong with the history that was refused; unset: the error does not
	// say that it is the history.
	History semconv.ProviderErrorHistory
	// Intermediary: the words are those of a server in front of the provider.
	Intermediary bool
	// By is what decided.
	By Strength
	// Key is what decided, as source.Entry.Key writes it; "": nothing did.
	Key string
}

// Strength is what decides about an error. Of several the strongest one decides, of two that
// are equal the first. This is the only place that says so:
//
//	a specific code > a phrase > a type, or a code that a phrase refines >
//	a status that names a cause, or that a 5xx or an error without a status quotes > a code or a type that names a family > any status
//
// A limit of a long period is a phrase and gives way to all others. A family of server errors, such as
// api_error, beside a 4xx is the gateway's own type, and gives way to the status.
type Strength uint8

// The strengths, from the weakest on.
const (
	ByNothing  Strength = iota // no entry and no status
	ByClass                    // the status is 4xx or 5xx and names no cause
	ByFamily                   // a name of many errors, such as invalid_request_error
	ByStatus                   // a status that names a cause, such as 429, or one that is quoted
	ByType                     // a type, or a code that a phrase refines (yields: phrase)
	ByPhrase                   // words of the message
	BySpecific                 // a code that names the cause, such as insufficient_quota
)

// rule is the meaning of a name, a phrase or a status.
type rule struct {
	kind         semconv.ProviderErrorKind
	history      semconv.ProviderErrorHistory
	by           Strength // of a name in the place of a code
	intermediary bool
	status       int    // if not 0, the rule holds for this status only
	host         string // if not "", it holds for errors of this domain only
	brokenInput  bool   // it holds only for a request that has one
}

// holds reports whether a phrase counts under a status, for a request.
func (r *rule) holds(status int, req Request) bool {
	switch {
	case r.status != 0 && r.status != status && status != 0, r.brokenInput && !req.BrokenInput:
		return false
	case r.host == "":
		return true
	default:
		return req.Host == r.host || strings.HasSuffix(req.Host, "."+r.host)
	}
}

// failedDependency is the status 424: the error names the status of what failed, as SageMaker's does.
const failedDependency = 424

// maxName bounds a name that is looked up, in bytes: no name in the catalogue, or that may be
// recorded, is longer.
const maxName = 80

// perDay is part of the names of Google's quotas of a day, such as
// GenerateRequestsPerDayPerProjectPerModel: the status of such a quota is that of any limit. Other
// unknown names may say a long period in words that are joined, such as user_weekly_rate_limited.
const perDay = "perday"

// Decide returns what an error means.
func Decide(e Error) Verdict {
	own, best := e.Own, Verdict{}
	take := func(r rule, by Strength, key string) {
		if by > best.By {
			best = Verdict{Kind: r.kind, History: r.history, Intermediary: best.Intermediary, By: by, Key: key}
		}
		best.Intermediary = best.Intermediary || r.intermediary
	}
	for _, name := range e.Names {
		if s, ok := statusCode(name); ok && own == 0 {
			own = s
		}
	}
	status := e.Status
	if status < 400 || status == failedDependency && own != 0 {
		status = own
	}
	if (status >= 500 || status < 400) && e.Quoted >= 400 && e.Quoted < 500 {
		// A gateway has its own status for an error of a provider, or none within a stream.
		status = e.Quoted
		take(rule{kind: statusKind(status)}, ByStatus, statusKey(status))
	}
	for i, name := range e.Names {
		name = normalName(name)
		r, ok := findName(name, status)
		if !ok {
			// A finish reason may be the error.
			if kind := FinishKind(name); kind != semconv.ProviderErrorKindUnset {
				take(rule{kind: kind}, ByType, "finish "+name)
			}
			continue
		}
		by := r.by
		switch {
		case i > 0 && by == BySpecific:
			by = ByType
		case by == ByFamily && r.kind == semconv.ProviderErrorKindServerError && status >= 400 && status < 500:
			continue // the gateway's own type, beside the status of the provider
		}
		take(r, by, nameKey(knownAs(name), r.status))
	}
	for _, p := range e.Phrases {
		switch {
		case p == LongPeriod:
			if mayBeQuota(status) && (e.Wait <= 0 || e.Wait > ShortWait) {
				take(rule{kind: semconv.ProviderErrorKindQuotaExhausted}, ByPhrase, LongPeriodKey)
			}
		case phrases[p].holds(status, e.Request):
			take(phrases[p].rule, ByPhrase, "phrase "+phrases[p].text)
		}
	}
	if _, ok := statuses[status]; ok {
		take(rule{kind: statusKind(status)}, ByStatus, statusKey(status))
	}
	switch {
	case status >= 400:
		take(rule{kind: statusKind(status)}, ByClass, statusKey(status))
	case best.By == ByNothing:
		best.Kind = semconv.ProviderErrorKindUnknown
	}
	return best
}

// mayBeQuota reports whether a status may be that of an exhausted quota: who asks is known, and
// what is asked for exists.
func mayBeQuota(status int) bool {
	switch status {
	case 401, 404, 405, 407, 410, 413:
		return false
	default:
		return true
	}
}

// statusKind is the kind of an error status alone.
func statusKind(status int) semconv.ProviderErrorKind {
	kind, ok := statuses[status]
	switch {
	case ok:
		return kind
	case status >= 500:
		return semconv.ProviderErrorKindServerError
	default:
		return semconv.ProviderErrorKindInvalidRequest
	}
}

// Passes reports whether an error of a kind may be gone at the next attempt.
func Passes(kind semconv.ProviderErrorKind) bool {
	switch kind {
	case semconv.ProviderErrorKindRateLimited, semconv.ProviderErrorKindOverloaded, semconv.ProviderErrorKindServerError, semconv.ProviderErrorKindTimeout:
		return true
	default:
		return false
	}
}

// KnownName reports whether a code or a type is in the catalogue, in any case of its letters.
func KnownName(name string) bool { return len(named(name)) > 0 }

// SpecificName reports whether a code names a cause: no status and no words refine it.
func SpecificName(name string) bool {
	for _, r := range named(name) {
		if r.by == BySpecific {
			return true
		}
	}
	return false
}

// NamesCause reports whether a code names a cause and not only a family of errors.
func NamesCause(name string) bool {
	for _, r := range named(name) {
		if r.by > ByFamily {
			return true
		}
	}
	return false
}

// IntermediaryServer reports whether a value of the header Server is that of a server in front of
// a provider. Providers are behind them, too.
func IntermediaryServer(value string) bool {
	return intermediaryServers[serverName(value)]
}

// serverName returns the product in a value of the header Server, as the catalogue has it.
func serverName(value string) string {
	name, _, _ := strings.Cut(value, "/")
	return normalName(name)
}

// IntermediaryStatus reports whether only a server in front of a provider has a status.
func IntermediaryStatus(status int) bool { return intermediaryStatuses[status] }

// IntermediaryType reports whether only a server in front of a provider writes errors of this
// type. It has not passed on a provider's.
func IntermediaryType(typ string) bool { return ownTypes[normalName(typ)] }

// NamedHistory returns what a code says is wrong with a history; unset: nothing.
func NamedHistory(code string) semconv.ProviderErrorHistory {
	r, _ := findName(normalName(code), 0)
	return r.history
}

// findName returns the rule of a name under a status. A rule that holds for one status only
// counts for an error whose status is not known, too.
func findName(name string, status int) (rule, bool) {
	rules := names[knownAs(name)] // the one for any status is the last
	for _, r := range rules {
		if r.status == 0 || r.status == status {
			return r, true
		}
	}
	if len(rules) > 0 && status == 0 {
		return rules[0], true
	}
	if strings.Contains(name, perDay) || len(rules) == 0 && strings.ContainsAny(name, "_-") && longPeriod(name, true) {
		return rule{kind: semconv.ProviderErrorKindQuotaExhausted, by: BySpecific}, true
	}
	return rule{}, false
}

// named returns the rules of a name, in any case of its letters.
func named(name string) []rule { return names[knownAs(normalName(name))] }

// knownAs returns the name in the catalogue that a name means. Gateways write upstream_ before the name
// of an error of a provider. A name with dots says in one part what failed, and in the others
// where: its last part counts, as in InternalError.Algo.InvalidParameter of DashScope, or else its first,
// as in AuthFailure.SignatureFailure of Tencent Cloud and InvalidParameter.max_tokens of Volcengine.
func knownAs(name string) string {
	if len(names[name]) > 0 {
		return name
	}
	if inner, ok := strings.CutPrefix(name, "upstream_"); ok {
		return inner
	}
	first, _, dotted := strings.Cut(name, ".")
	if last := name[strings.LastIndexByte(name, '.')+1:]; dotted && len(names[last]) > 0 && !isDigits(last) {
		return last
	}
	return first
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// normalName returns a name as it is looked up; "": it is not.
func normalName(name string) string {
	if len(name) > maxName {
		return ""
	}
	return strings.ToLower(name)
}

// nameKey is the key of a rule for a name.
func nameKey(name string, status int) string {
	switch {
	case len(names[name]) == 0:
		return "name of a long period"
	case status != 0:
		return "name " + name + " " + strconv.Itoa(status)
	default:
		return "name " + name
	}
}

func statusKey(status int) string { return "status " + strconv.Itoa(status) }

// statusCode parses a code that is an HTTP error status in digits.
func statusCode(code string) (int, bool) {
	if len(code) != 3 || (code[0] != '4' && code[0] != '5') {
		return 0, false
	}
	n, err := strconv.Atoi(code)
	return n, err == nil
}

// IntermediaryAnswer reports whether an error response is one that a server in front of a provider
// made itself, by the value of its header Server, by its other headers, or by the text of its body, in
// lower case. It counts for a response that does not have the form of a provider's error.
func IntermediaryAnswer(server string, header func(name string) string, text string) bool {
	if ownServers[serverName(server)] {
		return true
	}
	for _, name := range ownHeaders {
		if header(name) != "" {
			return true
		}
	}
	for _, words := range ownWords {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
