// What a release needs beside git and Go: see scripts/release and scripts/release-rehearsal.
module github.com/otelllm/otelllm-go/internal/tools/release

go 1.26.0

require golang.org/x/mod v0.43.0
