// Package docs has no code. Its tests hold the pages of the repository to the code: every snippet is compiled, parsed or
// run through what reads it, and the import table of CONTRIBUTING.md is the one that the packages keep.
package docs
