//go:build !race

package llmclassify

const raceEnabled = false
