// Package compose holds the Compose file for one machine; its tests hold the file to what its comments promise.
package compose
