// Package netcause names the one transport cause that an error of net/http
// becomes, the stage at which it struck, and whether it was this side that
// cancelled.
//
// Evidence is trusted in this order: the type of an error, a typed code, and
// last a whole message of the standard library, compared from its first byte.
// A substring of free text is never evidence. Errors are read from the outermost
// inwards, and the first one that says something decides: a proxy's refused
// connection is a proxy failure, whatever its errno.
//
// No message ever leaves this package: what it returns are enums, names of
// types, and codes out of closed lists.
package netcause
