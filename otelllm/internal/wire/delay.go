package wire

import (
	"bytes"
	"strconv"
	"time"
)

const (
	// maxAfter bounds the delay that a provider asks for.
	maxAfter = 24 * time.Hour
	// maxMessage bounds the part of a message that is searched for a delay, in bytes.
	maxMessage = 4 << 10
)

// hintedDelay returns the delay that the message of a rate limit asks for: "Please try
// again in 1m3.5s.", "Please retry after 20 seconds." There is no other field for it, and
// an error inside a stream has no headers. 0: no delay was found.
func hintedDelay(message []byte) time.Duration {
	message = message[:min(len(message), maxMessage)]
	for _, words := range [...]string{"ry again in ", "etry after ", "etry in "} {
		if i := bytes.Index(message, []byte(words)); i >= 0 {
			return readDelay(message[i+len(words):])
		}
	}
	return 0
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
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
}
