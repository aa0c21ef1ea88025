package judge

import "errors"

// The readers of other formats than facts would double the size of a WebAssembly module, and the
// time until its first verdict.
var errNoOTLP = errors.New("OTLP is not read here: use the program, `otelllm judge`")

func (*Judge) takeOTLP(*line, []byte) (*answerOTLP, error) { return nil, errNoOTLP }

func (*Judge) askTrace(*line) (*answerOTLP, error) { return nil, errNoOTLP }
