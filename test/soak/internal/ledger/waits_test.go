package ledger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelllm/otelllm-go/test/soak/internal/load"
)

func longest(list []Wait) (w Wait) {
	for i := range list {
		if list[i].Wait > w.Wait {
			w = list[i]
		}
	}
	return w
}

func nothing(time.Time, time.Time) time.Duration { return 0 }

// What comes out when it is due waits no longer than the fake Collector takes.
func TestWaits(t *testing.T) {
	f := took(t)
	f.give()
	list := f.books.Waits(rules, nothing)
	figures, _ := f.books.Check(rules)
	assert.Len(t, list, figures.Delivered)
	assert.LessOrEqual(t, longest(list).Wait, 200*time.Millisecond)
}

func TestWaitsAreFound(t *testing.T) {
	for name, like := range map[string]func(*out) bool{
		"a span that is passed on":   role(load.Other),
		"a model call":               role(load.Request),
		"a late span":                func(o *out) bool { return o.Late },
		"the span of a declared run": role(load.Run),
	} {
		t.Run(name, func(t *testing.T) {
			f := took(t)
			o := f.first(t, like)
			o.at = 9
			f.give()
			w := longest(f.books.Waits(rules, nothing))
			assert.Equal(t, Key{o.TraceID(), o.SpanID()}, w.Key)
			assert.Greater(t, w.Wait, 5*time.Second)

			disturbed := f.books.Waits(rules, func(from, to time.Time) time.Duration { return to.Sub(from) - time.Second })
			assert.Equal(t, time.Second, longest(disturbed).Wait, "what is left")
		})
	}
}
