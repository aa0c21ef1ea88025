// Package docs has no code. Its tests compare the pages of the repository with the code: every snippet is compiled, parsed or
// looked up, every link leads somewhere, and the packages import what imports.md allows. They are in
// the root module because go test caches a result only by the files of the module, and the pages are files of all modules.
package docs
