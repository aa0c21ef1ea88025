// Package jsoniter is in place of github.com/json-iterator/go when judgewasm is compiled, see scripts/build-wasm. pdata reads
// and writes OTLP JSON with that library, which is initialised although the judge does neither. All that pdata refers to is here, and
// fails.
package jsoniter

import (
	"errors"
	"io"
)

var errNone = errors.New("OTLP JSON is not available here")

// ValueType is the type of a JSON value.
type ValueType int

// Types of values. Nothing has them.
const (
	StringValue ValueType = iota + 1
	NumberValue
)

// ConfigFastest makes iterators and streams that fail.
var ConfigFastest config

type config struct{}

func (config) BorrowIterator([]byte) *Iterator { return &Iterator{errNone} }
func (config) ReturnIterator(*Iterator)        {}
func (config) BorrowStream(io.Writer) *Stream  { return &Stream{errNone} }
func (config) ReturnStream(*Stream)            {}

// Iterator reads nothing.
type Iterator struct{ Error error }

func (*Iterator) WhatIsNext() ValueType         { return 0 }
func (i *Iterator) ResetBytes([]byte) *Iterator { return i }
func (*Iterator) ReadArray() bool               { return false }
func (*Iterator) ReadBool() bool                { return false }
func (*Iterator) ReadFloat32() float32          { return 0 }
func (*Iterator) ReadFloat64() float64          { return 0 }
func (*Iterator) ReadInt32() int32              { return 0 }
func (*Iterator) ReadInt64() int64              { return 0 }
func (*Iterator) ReadObject() string            { return "" }
func (*Iterator) ReadString() string            { return "" }
func (*Iterator) ReadStringAsSlice() []byte     { return nil }
func (*Iterator) ReadUint32() uint32            { return 0 }
func (*Iterator) ReadUint64() uint64            { return 0 }
func (*Iterator) ReportError(string, string)    {}
func (*Iterator) Skip()                         {}

// Stream writes nothing.
type Stream struct{ Error error }

func (*Stream) Buffer() []byte          { return nil }
func (*Stream) WriteArrayEnd()          {}
func (*Stream) WriteArrayStart()        {}
func (*Stream) WriteBool(bool)          {}
func (*Stream) WriteFloat64(float64)    {}
func (*Stream) WriteInt32(int32)        {}
func (*Stream) WriteMore()              {}
func (*Stream) WriteObjectEnd()         {}
func (*Stream) WriteObjectField(string) {}
func (*Stream) WriteObjectStart()       {}
func (*Stream) WriteString(string)      {}
func (*Stream) WriteUint32(uint32)      {}
