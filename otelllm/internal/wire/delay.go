package wire

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	// maxAfter bounds the delay that a provider asks for.
	maxAfter = 24 * time.Hour
	// maxMessage bounds the part of a message that is searched for a delay, in bytes.
	maxMessage = 4 << 10
)

// waitBefore finds the words before a wait, and resetBefore those before a moment.
var (
	waitBefore  = regexp.MustCompile(`(?i)(?:\b(?:in|after|within|for)|\bwait)\s+(?:about |another |approximately |~)?\d`)
	resetBefore = regexp.MustCompile(`(?i)\b(?:at|on|until)\s+\d`)
	// waits are the words of which one has to precede: a limit of "100 requests in 5 hours" is
	// not a wait of 5 hours.
	waits = regexp.MustCompile(`(?i)again|retry|etry|reset|wait|available|refill|renew|replenish|refresh|restore|cool|unlock|until`)
)

// waitContext is how far before a wait one of those words may be, in bytes.
const waitContext = 60

// hintedDelay returns the delay that the message of an error asks for: "Please try again in
// 1m3.5s.", "Please retry after 20 seconds.", "Your quota will reset after 12h34m16s.", "resets
// at 2026-05-15T15:00:00Z". There is no other field for it, and an error inside a stream has no
// headers. 0: no delay was found.
func hintedDelay(message []byte) time.Duration {
	message = message[:min(len(message), maxMessage)]
	waited := func(at []int) bool {
		return waits.Match(message[max(0, at[0]-waitContext):at[1]])
	}
	for _, at := range waitBefore.FindAllIndex(message, maxHints) {
		if !waited(at) {
			continue
		}
		if after := readDelay(message[at[1]-1:]); after > 0 {
			return after
		}
	}
	for _, at := range resetBefore.FindAllIndex(message, maxHints) {
		if !waited(at) {
			continue
		}
		if after := readMoment(message[at[1]-1:]); after > 0 {
			return after
		}
	}
	return 0
}

// maxHints bounds the places of a message that are tried.
const maxHints = 8

// readMoment returns the time until the moment that b begins with: a time with or without a
// zone, which is then taken for UTC, or seconds or milliseconds since 1970; 0: it is not a time, or
// has passed.
func readMoment(b []byte) time.Duration {
	text := string(b[:min(len(b), len(time.RFC3339Nano))])
	end := strings.IndexFunc(text, func(c rune) bool { return !strings.ContainsRune("0123456789-:.+TZ ", c) })
	if end >= 0 {
		text = text[:end]
	}
	text = strings.TrimRight(text, " .")
	for _, layout := range [...]string{time.RFC3339, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			return delay(at.Sub(now()).Seconds(), time.Second)
		}
	}
	number, _, _ := strings.Cut(text, " ")
	return untilEpoch(number)
}

// untilEpoch returns the time until a moment in seconds or milliseconds since 1970; 0: it is
// none, or has passed.
func untilEpoch(number string) time.Duration {
	at, err := strconv.ParseFloat(number, 64)
	if err != nil || at < 1e6 {
		return 0
	}
	if at > 1e11 {
		at /= 1000
	}
	return delay(at-float64(now().UnixMilli())/1000, time.Second)
}

// readDelay reads a sequence of durations: 6m0s, 20ms, 1.5 seconds.
func readDelay(b []byte) time.Duration {
	var sum time.Duration
	for {
		n := 0
		for n < len(b) && n < 12 && (b[n]-'0' <= 9 || b[n] == '.') {
			n++
		}
		// The dot that ends a sentence is not part of the number.
		value, err := strconv.ParseFloat(string(b[:n]), 64)
		if err != nil {
			return sum
		}
		b = bytes.TrimLeft(b[n:], " ")
		word := 0
		for word < len(b) && (b[word]|0x20)-'a' < 26 {
			word++
		}
		unit, ok := units[string(b[:word])]
		if !ok {
			return sum
		}
		sum = min(sum+delay(value, unit), maxAfter)
		b = b[word:]
	}
}

// delay returns n units, bounded to 0 and maxAfter.
func delay(n float64, unit time.Duration) time.Duration {
	ns := n * float64(unit)
	switch {
	case !(ns > 0): // NaN as well
		return 0
	case ns > float64(maxAfter):
		return maxAfter
	default:
		return time.Duration(ns)
	}
}

var units = map[string]time.Duration{
	"ms": time.Millisecond, "millisecond": time.Millisecond, "milliseconds": time.Millisecond,
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hrs": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour, "week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
}
