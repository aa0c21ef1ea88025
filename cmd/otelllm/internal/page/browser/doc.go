// Package browser has the tests of the page, which run in a real browser. It is a module of
// its own, so that the program's does not require what drives the browser.
package browser
