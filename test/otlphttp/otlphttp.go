// Package otlphttp receives traces in OTLP over HTTP, for programs that inspect what an
// exporter sends.
package otlphttp

import (
	"io"
	"net/http"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// Handler passes each export to take, which may keep the traces and is called
// concurrently. A request that is not an export of traces in protobuf gets a 400.
func Handler(take func(ptrace.Traces)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		export := ptraceotlp.NewExportRequest()
		if err := export.UnmarshalProto(body); err != nil {
			http.Error(w, "not an export of traces", http.StatusBadRequest)
			return
		}
		take(export.Traces())
		w.Header().Set("Content-Type", "application/x-protobuf")
	}
}
