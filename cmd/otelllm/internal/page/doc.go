// Package page shows runs in a browser: as one file that needs nothing else, and live on
// loopback. Both are the same page with the same data. It loads nothing from anywhere, and its
// content security policy forbids it to.
//
// A list has a [row] for each record. The record itself is read when it is looked at: from the
// lines of the file, or from the server.
package page
