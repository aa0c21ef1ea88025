// Package compose holds the Compose file for one machine. Its tests check what the file's comments promise.
package compose
