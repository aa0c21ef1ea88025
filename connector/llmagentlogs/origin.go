package llmagentlogs

import (
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// resourceKeys are the attributes of a resource that spans keep. Others may contain text of people: Node's
// process.command_args has the prompt of a command line.
var resourceKeys = [...]string{
	"service.name", "service.version", "service.namespace", "deployment.environment.name", "deployment.environment", "env",
	"telemetry.sdk.name", "telemetry.sdk.language", "telemetry.sdk.version",
	"host.arch", "os.type", "os.version", // of Claude Code
}

// maxResourceValue bounds a value of these attributes, in bytes. Longer values are left out.
const maxResourceValue = 256

// origin is the resource of the spans of a conversation, as lists of equal length.
type origin struct {
	keys, values []string
	id           string // equal for equal resources
}

func originOf(from pcommon.Resource) (o origin) {
	for _, key := range resourceKeys {
		if v, ok := from.Attributes().Get(key); ok && v.Type() == pcommon.ValueTypeStr && len(v.Str()) <= maxResourceValue {
			o.keys, o.values = append(o.keys, key), append(o.values, v.Str())
		}
	}
	o.id = strings.Join(o.keys, "\x00") + "\x01" + strings.Join(o.values, "\x00")
	return o
}

func (o *origin) bytes() (n int) {
	n = len(o.id)
	for _, v := range o.values {
		n += 40 + len(v)
	}
	return n
}

func (o *origin) writeTo(to pcommon.Resource) {
	for i, key := range o.keys {
		to.Attributes().PutStr(key, o.values[i])
	}
}
