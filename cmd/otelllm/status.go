package main

import (
	"errors"
	"fmt"
	"os"
)

// statusFailOn is the exit status if --fail-on matches.
const statusFailOn = 3

// statusError is the exit status of a command that failed.
const statusError = 2

// statusCode is an error whose message is already printed, if it has one.
type statusCode int

// Error implements error.
func (s statusCode) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// exitStatus prints an error and returns its exit status.
func exitStatus(err error) int {
	var code statusCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	default:
		fmt.Fprintf(os.Stderr, "otelllm: %v\n", err)
		return statusError
	}
}
