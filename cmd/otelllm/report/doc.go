// Package report reads classified traces and prints them: one line per run and, for a
// run that failed, what an operator needs first.
package report
