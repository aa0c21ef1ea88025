package telemetry

import (
	"runtime/debug"
	"strings"
	"sync"
)

const modulePath = "github.com/otelllm/otelllm-go"

// Development is the version of a program that was built from a checkout.
const Development = "devel"

// Version returns the version of this module in the running program, such as "0.1.0", from its
// build information. It returns [Development] if that has none.
var Version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Development
	}
	return versionIn(info)
})

func versionIn(info *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != modulePath {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if v, ok := strings.CutPrefix(m.Version, "v"); ok && v != "0.0.0" {
			return v
		}
	}
	return Development
}
