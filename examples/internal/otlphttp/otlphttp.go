// Package otlphttp takes traces in OTLP over HTTP, for those who look at what an
// exporter sends.
package otlphttp

import (
	"io"
	"net/http"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

// Handler gives each export to take, which may keep the traces and is called for
// several at once. What is no export of traces, in protobuf, is answered with 400.
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
