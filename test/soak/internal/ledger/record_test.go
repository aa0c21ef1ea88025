package ledger

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The garbage collector has nothing to follow in the records of spans, nor in their index.
func TestRecordsHaveNoPointers(t *testing.T) {
	for _, record := range []reflect.Type{reflect.TypeFor[span](), reflect.TypeFor[Key]()} {
		assert.False(t, hasPointers(record), record)
	}
	assert.True(t, hasPointers(reflect.TypeFor[run]()), "the test finds some")
}

func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for field := range t.Fields() {
			if hasPointers(field.Type) {
				return true
			}
		}
		return false
	case reflect.Array:
		return hasPointers(t.Elem())
	default:
		return t.Kind() > reflect.Array
	}
}
