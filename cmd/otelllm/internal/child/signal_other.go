//go:build !unix

package child

import "os"

// passedOn are the signals that a command may expect.
var passedOn = []os.Signal{os.Interrupt}

// fromTerminal reports whether the terminal sent the signal: then the command has it too.
func fromTerminal(os.Signal) bool { return true }
