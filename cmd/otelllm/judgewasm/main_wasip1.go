// Command judgewasm is the judge of `otelllm judge` as a WebAssembly module, for programs that load
// it into their own process: the npm package does. It reads no file and opens no connection.
//
// It is a WASI reactor: a host calls _initialize once, and then, as often as it likes,
//
//	buffer(n)        the address of n bytes for the input, which it writes
//	judge(n)         answers those bytes as [judge.Once] does, and returns the size of the answer
//	answer()         the address of the last answer
//
// Of WASI it needs a clock and random numbers; no file is opened. One call is made at a time.
//
// In the module that scripts/build-wasm writes, the runtime has been initialised already, and
// _initialize does nothing.
package main

import (
	"unsafe"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/judge"
)

var (
	input  []byte
	output []byte
)

//go:wasmexport buffer
func buffer(n uint32) unsafe.Pointer {
	if int(n) > cap(input) || cap(input) > keep {
		input = make([]byte, n)
	}
	input = input[:n]
	return unsafe.Pointer(unsafe.SliceData(input))
}

// keep is the most of a buffer that is kept for the next call, in bytes.
const keep = 1 << 20

//go:wasmexport judge
func judgeOnce(n uint32) uint32 {
	output = judge.Once(input[:n])
	return uint32(len(output))
}

//go:wasmexport answer
func answer() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(output)) }

func main() {}
