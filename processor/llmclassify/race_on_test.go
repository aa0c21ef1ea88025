//go:build race

package llmclassify

const raceEnabled = true
