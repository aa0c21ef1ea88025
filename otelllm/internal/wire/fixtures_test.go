package wire

import (
	"flag"
	"os"
	"testing"
)

var fixtures = flag.String("fixtures", os.Getenv("OTELLLM_FIXTURES"), "folder of recorded streams, one folder a protocol")

// fixturesDir is the folder of recorded streams; without one the test is skipped.
func fixturesDir(tb testing.TB) string {
	tb.Helper()
	if *fixtures == "" {
		tb.Skip("no recorded streams: name their folder with -fixtures or OTELLLM_FIXTURES")
	}
	return *fixtures
}

// recording is one recorded stream as it comes over the wire.
type recording struct {
	protocol Protocol
	payloads []string // the JSON of each event
	events   []string // the bytes of each event
}

// recordingOf frames the payloads of a recording, one a line.
func recordingOf(tb testing.TB, folder string, lines []byte) recording {
	tb.Helper()
	return recording{}
}
