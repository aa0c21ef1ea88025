// Package keep keeps judged spans on disk: the last ones, in files of bounded size, as OTLP
// JSON with one document a line. It writes no content: see [report.Strip].
//
// Every process writes files of its own, so that several may use one folder, and holds a lock
// on the file that it writes. The oldest files of all processes go first, and never one that is
// still being written.
//
// A document is one write. After a crash every line is whole except perhaps the last one of a
// file, which readers skip.
package keep
