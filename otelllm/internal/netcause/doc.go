// Package netcause determines the transport cause of an error from net/http, the stage at
// which it occurred, and whether this side cancelled the request.
//
// Evidence is used in this order: the type of an error, a typed code, and finally a
// complete message of the standard library, compared from its first byte. A substring of
// free text is never evidence. Errors are examined from the outermost inwards, and the
// first one with a finding decides: a refused connection to a proxy is a proxy failure,
// whatever its errno.
//
// No message leaves this package. It returns enums, type names, and codes from closed
// lists.
package netcause
